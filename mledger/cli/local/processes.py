"""A cluster on this machine: a metadata store, bookies and brokers, each a process that outlives the command.

`cluster.json` in the cluster's directory lists them. A process counts as ours only if its pid has
the recorded start, so that a pid reused by another program is never signalled. On Linux the start
is told by the boot and the time since it: times since 1970 change when the clock is set.
"""

import contextlib
import fcntl
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from mledger.known_settings import SINGLE_COPY
from mledger.metastore.errors import InvalidMetadataUrl, MledgerError
from mledger.metastore.runtime.child_processes import python_command, python_environment
from mledger.metastore.runtime.logs import TEXT
from mledger.metastore.url import MemoryUrl, RocksDbUrl, SplitUrl, ZooKeeperUrl, parse_url
from mledger.metastore.zookeeper.launcher import ZooKeeperServer

LOOPBACK = "127.0.0.1"
STATE_FILE = "cluster.json"
STATE_FORMAT = 1
STANDALONE_FILE = "standalone.lock"  # of `mledger standalone`
ZOOKEEPER = "zookeeper"
ROCKSDB = "rocksdb"
MEMORY = "memory"
METADATA_PARTS = (ZOOKEEPER, ROCKSDB, MEMORY)
BOOKIE = "bookie"
BROKER = "broker"
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.02
CLOCK_TOLERANCE_S = 2.0  # the start time is computed from the boot time, which clock corrections change
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class LocalClusterError(MledgerError):
    """A process of the cluster did not start, or the cluster's directory is not usable."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the cluster; `started` is its start time in seconds since 1970.

    `start` tells it without the clock (`start_of`), empty in a file of an older version.
    `address` is host:port, or the directory of a RocksDB or memory metadata server. `metrics` is
    the host:port of its metrics, empty if it serves none.
    """

    name: str
    address: str
    pid: int
    started: float
    metrics: str = ""
    start: str = ""

    @property
    def kind(self) -> str:
        """What it is: `bookie` or `broker`, else the name of its metadata store."""
        return self.name.partition("-")[0]

    @property
    def process(self) -> psutil.Process | None:
        """The running process; None if it has ended."""
        try:
            found = psutil.Process(self.pid)
            by_clock = abs(found.create_time() - self.started) < CLOCK_TOLERANCE_S
            ours = start_of(found) == self.start if self.start else by_clock
            return found if ours and found.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, ValueError):
            return None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The parts of the cluster, metadata store first; `ensemble` is the URL of an external one."""

    parts: tuple[Part, ...] = ()
    ensemble: str = ""

    @property
    def metadata(self) -> Part | None:
        """The part that is the metadata store; None before its start, and with an external ensemble."""
        return next((part for part in self.parts if part.name in METADATA_PARTS), None)

    @property
    def url(self) -> str:
        """The cluster's metadata URL; empty before the metadata store is started."""
        part = self.metadata
        if part is None:
            return self.ensemble
        return f"zk://{part.address}" if part.name == ZOOKEEPER else f"rocksdb:{part.address}"

    @property
    def bookies(self) -> tuple[Part, ...]:
        """The parts that are bookies."""
        return tuple(part for part in self.parts if part.kind == BOOKIE)

    @property
    def brokers(self) -> tuple[Part, ...]:
        """The parts that are brokers."""
        return tuple(part for part in self.parts if part.kind == BROKER)

    @property
    def service_url(self) -> str:
        """The URL of all brokers, for Pulsar's clients; empty if there are none."""
        return f"pulsar://{','.join(part.address for part in self.brokers)}" if self.brokers else ""

    def part(self, name: str) -> Part | None:
        """The part `name`, running or not."""
        return next((part for part in self.parts if part.name == name), None)

    def without_stopped_brokers(self) -> "ClusterState":
        """The state without brokers that do not run."""
        kept = tuple(part for part in self.parts if part.kind != BROKER or part.process is not None)
        return ClusterState(kept, self.ensemble)

    def with_part(self, part: Part) -> "ClusterState":
        """The state with `part` in place of the part with the same name."""
        others = [other for other in self.parts if other.name != part.name]
        return ClusterState(tuple(sorted([*others, part], key=_order)), self.ensemble)


@dataclass(frozen=True, slots=True)
class MetadataPlan:
    """The metadata store of a cluster: a part to start, or an external ensemble (`part` empty)."""

    part: str
    address: str = ""


def plan_metadata(state: ClusterState, url: str | None, directory: Path) -> MetadataPlan:
    """The metadata store for `up` in `directory`: that of `url`, else the existing one, else a ZooKeeper.

    Raises InvalidMetadataUrl, and LocalClusterError if the cluster has another store, or had one in
    memory and lost it.
    """
    plan = _asked_for(url, directory)
    known = state.metadata
    if known is None and not state.ensemble:
        return plan or MetadataPlan(ZOOKEEPER)
    has = MetadataPlan(known.name, known.address) if known is not None else MetadataPlan("", state.ensemble)
    if plan is not None and (plan.part, plan.address or has.address) != (has.part, has.address):
        raise LocalClusterError(
            f"the cluster in {directory} has its metadata in {state.url}, not in {url}: omit --metadata, or use "
            "another --dir"
        )
    if has.part == MEMORY and known is not None and known.process is None and state.bookies:
        raise LocalClusterError(
            f"the cluster in {directory} had its metadata in memory and lost it: stop the cluster with `mledger down "
            f"--dir {directory}` and remove the directory"
        )
    return has


def _asked_for(url: str | None, directory: Path) -> MetadataPlan | None:
    if url is None:
        return None
    match parse_url(url):
        case ZooKeeperUrl() | SplitUrl() as ensemble:
            return MetadataPlan("", str(ensemble))
        case RocksDbUrl(path):
            return MetadataPlan(ROCKSDB, path)
        case MemoryUrl(""):
            return MetadataPlan(MEMORY, str(directory / MEMORY))
    raise InvalidMetadataUrl(f"{url!r} names the memory of another process: use memory:, then the URL that `up` prints")


OWN_TO_EACH = (
    "advertisedAddress",
    "bookieId",
    "bookiePort",
    "httpServerEnabled",
    "journalDirectories",
    "journalDirectory",
    "ledgerDirectories",
    "listeningInterface",
    "metadataServiceUri",
    "prometheusStatsHttpPort",
    "useHostNameAsBookieID",
    "zkLedgersRootPath",
    "zkServers",
)
"""Settings that bookies on one machine cannot share, or that `up` decides: cleared, whatever the file says."""


def plan_bookie_options(
    config_file: Path | None, assignments: Sequence[str], metrics: bool, log_format: str
) -> list[str]:
    """The options of each bookie, in addition to its metadata store and directory."""
    options = ["--log-format", log_format]
    if config_file is not None:
        options += ["--config", str(config_file.absolute())]
    for assignment in (*assignments, *(f"{key}=" for key in OWN_TO_EACH)):
        options += ["--set", assignment]
    return [*options, "--metrics-port", "0"] if metrics else options


OWN_TO_EACH_BROKER = ("advertisedAddress", "bindAddress", "brokerServicePort", "metadataStoreUrl", "zookeeperServers")
"""Settings of a broker.conf that `up` decides: cleared, whatever the file says."""


def plan_broker_options(
    config_file: Path | None,
    assignments: Sequence[str],
    log_format: str,
    *,
    single_copy: bool = False,
) -> list[str]:
    """The options of each broker, in addition to its metadata store and port.

    It serves HTTP on a free port: `mledger topics stats` asks there.

    `single_copy`: there is one bookie, and no setting says how many copies new ledgers have.
    """
    options = ["--host", LOOPBACK, "--log-format", log_format]
    if config_file is not None:
        options += ["--config", str(config_file.absolute())]
    defaults = SINGLE_COPY if single_copy else ()
    for assignment in (*defaults, *assignments, *(f"{key}=" for key in OWN_TO_EACH_BROKER)):
        options += ["--set", assignment]
    return [*options, "--metrics-port", "0"]


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """A bookie or a broker to start: its module and its arguments."""

    name: str
    module: str
    arguments: tuple[str, ...]


def plan_bookies(state: ClusterState, directory: Path, count: int, options: Sequence[str]) -> list[PlannedServer]:
    """Those of bookie-1 to bookie-`count` that do not run."""
    return [
        PlannedServer(
            name,
            "mledger.bookie.server",
            ("--metadata", state.url, "--dir", str(directory / name / "data"), *options),
        )
        for name in _not_running(state, BOOKIE, count)
    ]


def plan_brokers(state: ClusterState, count: int, first_port: int, options: Sequence[str]) -> list[PlannedServer]:
    """Those of broker-1 to broker-`count` that do not run.

    Their ports are `first_port` and those after it; with 0 each has the port that it had before, or a free one.
    """
    planned = []
    for name in _not_running(state, BROKER, count):
        known = state.part(name)
        port = known.address.rpartition(":")[2] if known is not None else "0"
        if first_port:
            port = str(first_port + int(name.rpartition("-")[2]) - 1)
        arguments = ("--metadata", state.url, "--port", port, *options)
        planned.append(PlannedServer(name, "mledger.broker.process.main", arguments))
    return planned


def _not_running(state: ClusterState, kind: str, count: int) -> Iterator[str]:
    for name in (f"{kind}-{number}" for number in range(1, count + 1)):
        part = state.part(name)
        if part is None or part.process is None:
            yield name


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
        with open(self.directory / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LocalClusterError(
                    f"another `mledger up` or `down` is running in {self.directory}: wait for it"
                ) from error
            yield

    def start_metadata(
        self, state: ClusterState, url: str | None = None, zookeeper_port: int = 0, log_format: str = TEXT
    ) -> ClusterState:
        """Start the metadata store of `plan_metadata`, ZooKeeper by default at its previous port.

        `log_format` applies to our own server; ZooKeeper has its own log format.
        """
        plan = plan_metadata(state, url, self.directory)
        if not plan.part:
            return self._save(ClusterState(state.parts, plan.address))
        known = state.part(plan.part)
        if known is not None and known.process is not None:
            return state
        if plan.part == ZOOKEEPER:
            return self._start_zookeeper(state, known, zookeeper_port)
        arguments = ["--dir", plan.address, "--log-format", log_format]
        if plan.part == MEMORY:
            arguments.append("--in-memory")
        process = self._spawn(plan.part, "mledger.metastore.rocksdb.server", arguments)
        try:
            self._wait_until_serving(plan.part, process)
        except BaseException:
            process.kill()
            raise
        return self._save(state.with_part(_part(plan.part, plan.address, process.pid)))

    def _start_zookeeper(self, state: ClusterState, known: Part | None, port: int) -> ClusterState:
        if port == 0 and known is not None:
            port = int(known.address.rpartition(":")[2])
        server = ZooKeeperServer.start(self.directory / ZOOKEEPER, port=port, timeout=START_TIMEOUT_S, outlives_us=True)
        return self._save(state.with_part(_part(ZOOKEEPER, server.connect_string, server.pid)))

    def start_servers(self, state: ClusterState, planned: Sequence[PlannedServer]) -> ClusterState:
        """Start bookies and brokers, all at once, and wait until each serves."""
        starting = [(each.name, self._spawn(each.name, each.module, each.arguments)) for each in planned]
        try:
            for name, process in starting:
                serving = self._wait_until_serving(name, process)
                metrics = f"{LOOPBACK}:{serving['metrics_port']}" if "metrics_port" in serving else ""
                served = _part(name, f"{serving['host']}:{serving['port']}", process.pid)
                state = self._save(state.with_part(replace(served, metrics=metrics)))
        except BaseException:
            for name, process in starting:  # leave no process running that the state does not name
                if (part := state.part(name)) is None or part.pid != process.pid:
                    process.kill()
            raise
        return state

    def forget_stopped_brokers(self, state: ClusterState) -> ClusterState:
        """The state without brokers that do not run, saved."""
        return self._save(state.without_stopped_brokers())

    def stop(self, state: ClusterState) -> list[str]:
        """Stop brokers, then bookies, then the metadata store: SIGTERM, later SIGKILL; returns who was stopped."""
        metadata = [part for part in state.parts if part.name in METADATA_PARTS]
        return [*_stop(state.brokers), *_stop(state.bookies), *_stop(metadata)]

    def _spawn(self, name: str, module: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        with open(directory / "started.json", "wb") as started, open(self._log(name), "ab") as log:
            return subprocess.Popen(
                python_command(module, *arguments),
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
        saved = {"format": STATE_FORMAT, "parts": [asdict(part) for part in state.parts], "ensemble": state.ensemble}
        text = json.dumps(saved, indent=2)
        scratch = self.directory / f"{STATE_FILE}.new"
        scratch.write_text(text + "\n")
        scratch.replace(self.directory / STATE_FILE)
        return state


def _order(part: Part) -> tuple[int, int, str]:
    rank = {BOOKIE: 1, BROKER: 2}.get(part.kind, 0)
    return (rank, len(part.name), part.name)


def start_of(process: psutil.Process) -> str:
    """The boot and the time since it at which the process started; empty on systems that do not tell the boot."""
    try:
        boot = BOOT_ID.read_text().strip()
    except OSError:
        return ""
    return f"{boot} {process.create_time() - psutil.boot_time():.2f}"


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
