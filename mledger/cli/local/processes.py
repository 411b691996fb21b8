"""A cluster on this machine: a metadata store, bookies and brokers, each a process that outlives the command.

`cluster.json` in the cluster's directory lists them.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from mledger.cli.local.cluster_plan import LOOPBACK, MetadataPlan, PlannedServer, plan_metadata
from mledger.cli.local.cluster_state import (
    MEMORY,
    METADATA_PARTS,
    ROCKSDB,
    ZOOKEEPER,
    ClusterState,
    LocalClusterError,
    Part,
    start_of,
)
from mledger.metastore.errors import ZooKeeperNotFound
from mledger.metastore.rocksdb.directory import holds_store
from mledger.metastore.runtime.logs.loggers import TEXT
from mledger.metastore.runtime.network.fork_guard import close_held, hold
from mledger.metastore.runtime.processes.child_processes import python_command, python_environment
from mledger.metastore.zookeeper.launcher import ZooKeeperServer

STATE_FILE = "cluster.json"
STATE_FORMAT = 1
STANDALONE_FILE = "standalone.lock"  # of `mledger standalone`
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.02


class LocalCluster:
    """The cluster in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    def load(self) -> ClusterState | None:
        """The cluster's parts as last written; None if none was ever started."""
        path = self.directory / STATE_FILE
        try:
            state = json.loads(path.read_text())
            if state["format"] != STATE_FORMAT:
                raise LocalClusterError(f"{path} has format {state['format']}, this program supports {STATE_FORMAT}")
            return msgspec.convert(state, ClusterState)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise LocalClusterError(
                f"{path} does not parse ({error}): stop the processes in it manually and remove the file"
            ) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock out other `up` and `down` commands of this directory. LocalClusterError if it is a standalone's."""
        if (self.directory / STANDALONE_FILE).exists() and not (self.directory / STATE_FILE).exists():
            raise LocalClusterError(
                f"{self.directory} holds the data of a standalone: start that with `mledger standalone --data-dir "
                f"{self.directory}`, or use another --dir"
            )
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        hold(lock)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalClusterError(
                    f"another `mledger up` or `down` is running in {self.directory}: wait for it"
                ) from error
            yield
        finally:
            close_held(lock)

    def start_metadata(
        self, state: ClusterState, url: str | None = None, zookeeper_port: int = 0, log_format: str = TEXT
    ) -> ClusterState:
        """Start the metadata store of `plan_metadata`, ZooKeeper by default at its previous port.

        `log_format` applies to our own server; ZooKeeper has its own log format.
        """
        plan = plan_metadata(state, url, self.directory)
        if not plan.part:
            return self._save(replace(state, ensemble=plan.address))
        known = state.part(plan.part)
        if known is not None and known.process is not None:
            return state
        if known is not None and state.bookies and (lost := self._lost(plan)):
            raise LocalClusterError(
                f"{lost} holds no metadata store any more, which the bookies in {self.directory} belong to: restore "
                f"{lost} and start again, or use another --dir"
            )
        if plan.part == ZOOKEEPER:
            return self._start_zookeeper(state, known, zookeeper_port)
        arguments = ["--dir", plan.address, "--log-format", log_format]
        if plan.part == MEMORY:
            arguments.append("--in-memory")
        server = PlannedServer(plan.part, "mledger.metastore.rocksdb.server", tuple(arguments))
        return self._start(state, [server], lambda _: (plan.address, ""))

    def _lost(self, plan: MetadataPlan) -> str:
        """The directory in which a store that has served is gone; a new one would stay in its place. Else empty."""
        if plan.part == ROCKSDB:
            return "" if holds_store(plan.address) else plan.address
        data = self.directory / ZOOKEEPER / "data"
        return "" if plan.part != ZOOKEEPER or any(data.glob("version-2/*")) else str(data)

    def _start_zookeeper(self, state: ClusterState, known: Part | None, port: int) -> ClusterState:
        if port == 0 and known is not None:
            port = int(known.address.rpartition(":")[2])
        directory = self.directory / ZOOKEEPER
        try:
            server = ZooKeeperServer.start(directory, port=port, timeout=START_TIMEOUT_S, outlives_us=True)
        except ZooKeeperNotFound as error:
            if known is not None:
                raise
            raise ZooKeeperNotFound(f"{error}; or keep the metadata without it: --metadata rocksdb:DIR") from None
        return self._save(state.with_part(_part(ZOOKEEPER, server.connect_string, server.pid)))

    def start_servers(self, state: ClusterState, planned: Sequence[PlannedServer]) -> ClusterState:
        """Start bookies and brokers, all at once, and wait until each serves."""
        return self._start(state, planned, _addresses)

    def _start(
        self,
        state: ClusterState,
        planned: Sequence[PlannedServer],
        addresses: Callable[[Mapping[str, Any]], tuple[str, str]],
    ) -> ClusterState:
        """Start servers; `addresses` gives a part's address and that of its metrics, from what it says when it serves.

        The state names every process from its start: whoever kills this one leaves none that `down` does not know.
        """
        starting: list[tuple[Part, subprocess.Popen[bytes]]] = []
        try:
            for server in planned:
                process = self._spawn(server)
                starting.append((_part(server.name, "", process.pid), process))
                state = self._save(replace(state, starting=tuple(part for part, _ in starting)))
            for part, process in starting:
                address, metrics = addresses(self._wait_until_serving(part.name, process))
                state = self._save(state.with_part(replace(part, address=address, metrics=metrics)))
        except BaseException:
            for part, process in starting:
                if part in state.starting:
                    process.kill()
            self._save(replace(state, starting=()))
            raise
        return state

    def end_unfinished(self, state: ClusterState) -> ClusterState:
        """Stop what an `up` that was killed had started and not seen serve; the state without it, saved."""
        if not state.starting:
            return state
        _stop(state.starting)
        return self._save(replace(state, starting=()))

    def forget_stopped_brokers(self, state: ClusterState) -> ClusterState:
        """The state without brokers that do not run, saved."""
        return self._save(state.without_stopped_brokers())

    def stop(self, state: ClusterState) -> list[str]:
        """Stop brokers, then bookies, then the metadata store: SIGTERM, later SIGKILL; returns who was stopped."""
        metadata = [part for part in state.parts if part.name in METADATA_PARTS]
        return [*_stop(state.starting), *_stop(state.brokers), *_stop(state.bookies), *_stop(metadata)]

    def _spawn(self, server: PlannedServer) -> subprocess.Popen[bytes]:
        directory = self.directory / server.name
        directory.mkdir(exist_ok=True)
        with open(directory / "started.json", "wb") as started, open(self._log(server.name), "ab") as log:
            return subprocess.Popen(
                python_command(server.module, *server.arguments),
                stdin=subprocess.DEVNULL,
                stdout=started,
                stderr=log,
                cwd=directory,
                env=python_environment(),
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self.directory / name / ("server.log" if name in METADATA_PARTS else f"{name.partition('-')[0]}.log")

    def _wait_until_serving(self, name: str, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Wait for the line of JSON that a server prints when it serves."""
        started = self.directory / name / "started.json"
        log = self._log(name)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            text = started.read_text()
            if text.endswith("\n"):
                serving: dict[str, Any] = json.loads(text.splitlines()[0])
                return serving
            if process.poll() is not None:
                raise LocalClusterError(f"{name} ended with exit code {process.returncode}: {_last_line(log)} ({log})")
            time.sleep(POLL_S)
        raise LocalClusterError(f"{name} did not serve within {START_TIMEOUT_S:g} s: see {log}")

    def _save(self, state: ClusterState) -> ClusterState:
        if state == ClusterState():  # its first start failed: there is no cluster
            (self.directory / STATE_FILE).unlink(missing_ok=True)
            return state
        text = json.dumps({"format": STATE_FORMAT, **asdict(state)}, indent=2)
        scratch = self.directory / f"{STATE_FILE}.new"
        scratch.write_text(text + "\n")
        scratch.replace(self.directory / STATE_FILE)
        return state


def _addresses(serving: Mapping[str, Any]) -> tuple[str, str]:
    metrics = f"{LOOPBACK}:{serving['metrics_port']}" if "metrics_port" in serving else ""
    return f"{serving['host']}:{serving['port']}", metrics


def _part(name: str, address: str, pid: int) -> Part:
    process = psutil.Process(pid)
    return Part(name, address, pid, process.create_time(), start=start_of(process))


def _stop(parts: Sequence[Part]) -> list[str]:
    running = [(part.name, process) for part in parts if (process := part.process) is not None]
    for _, process in running:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()
            process.terminate()
    _, alive = psutil.wait_procs([process for _, process in running], timeout=STOP_TIMEOUT_S)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=STOP_TIMEOUT_S)
    return [name for name, _ in running]


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "its log is empty"
