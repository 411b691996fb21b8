"""The broker that the fixtures `pulsar` and `async_pulsar` return: a standalone, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import math
import shutil
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from mledger.metastore.runtime.packages import check_rocksdb
from mledger.standalone.api import SettingValue, plan_assignments
from mledger.standalone.backlog import WAIT_S, wait_until_drained
from pytest_mledger.clusters.cluster_broker import ClusterBroker
from pytest_mledger.clusters.namespace_creation import create_namespace
from pytest_mledger.servers.movable_clock import MOVE
from pytest_mledger.servers.processes import ClusterFailed, ServerProcess, Servers
from pytest_mledger.servers.session_expiry import expire_sessions

MODULE = "pytest_mledger.servers.standalone_program"
NAME = "pulsar"
USED_LATER = ("uvloop", "mledger.metastore.rocksdb.store", "mledger.metrics", "aiohttp.web")
"""What the process imports as it runs: imported before a restart forks it."""


class RunningPulsar:
    """A broker of this session, with its bookie and its metadata; it ends with the context of `start`."""

    def __init__(self, servers: Servers, settings: Sequence[str]) -> None:
        """Use `start`."""
        self._servers, self._settings = servers, tuple(settings)
        self._data, self._clock = servers.directory / "data", servers.directory / "clock"
        self._clock_s = 0.0
        self._changing = threading.RLock()  # held while the process is started or ended
        self._arguments = [
            str(self._clock),
            "--data-dir",
            str(self._data),
            "--output",
            "json",
            "--log-level",
            "warning",
        ]
        for setting in settings:
            self._arguments += ["--set", setting]
        self._ports = "0", "0"
        self._server: ServerProcess
        self._said: dict[str, Any]

    @classmethod
    @contextlib.contextmanager
    def start(cls, directory: Path, settings: Mapping[str, SettingValue]) -> Iterator[RunningPulsar]:
        """Start a broker with its data below `directory`; on exit, end it and delete the data, but not the log.

        `settings` are keys of broker.conf. Raises ClusterFailed, and PackageNotInstalled if RocksDB is missing.
        """
        check_rocksdb()
        servers = Servers(directory)
        try:
            running = cls(servers, plan_assignments(settings))
            running.launch()
            servers.prepare(*USED_LATER)
            yield running
        finally:
            if servers.own:
                servers.close()
                shutil.rmtree(directory / "data", ignore_errors=True)
                (directory / "clock").unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<Pulsar at {self.service_url}>"

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients; it stays the same over a restart."""
        return str(self._said["service_url"])

    @property
    def admin_url(self) -> str:
        """The URL of HTTP."""
        return str(self._said["admin_url"])

    @property
    def metadata_url(self) -> str:
        """The metadata store, for `mledger.open_cluster` and for the `mledger` command."""
        return str(self._said["metadata_url"])

    @property
    def pid(self) -> int:
        """The process id; that of its last process if it is not running."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        self._servers.look()
        return self._server.running

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._server.log

    def check_settings(self, settings: Mapping[str, SettingValue]) -> None:
        """Raise ClusterFailed if a test's settings are not those that the broker of the session was started with."""
        if sorted(plan_assignments(settings)) != sorted(self._settings):
            started = ", ".join(self._settings) or "none"
            raise ClusterFailed(
                f"pulsar_settings are not those that the session's broker was started with ({started}): "
                "define the fixture once, in the conftest.py of all tests, or mark the test and use pulsar_cluster"
            )

    def create_namespace(self, name: str) -> None:
        """Create a namespace, `tenant/namespace`. MetadataError if it is there."""
        create_namespace(self.metadata_url, name)

    def kill(self) -> None:
        """Send SIGKILL and wait until it has ended; does nothing if it is not running."""
        with self._changing:
            self._servers.end(self._server, signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM and wait until it has ended in order; does nothing if it is not running."""
        with self._changing:
            self._servers.end(self._server, signal.SIGTERM)

    def restart(self) -> None:
        """Kill it if it is running, start it on its stored data, and wait until it serves; at the same ports."""
        with self._changing:
            self.kill()
            self.launch()

    def expire_sessions(self) -> None:
        """End every session with the metadata store; wait for new ones. ClusterFailed if the broker does not run."""
        self._check_running()
        expire_sessions(str(self._data / "metadata"), bookies=1, brokers=1)

    def move_clock(self, seconds: float) -> None:
        """Move the clock forward, and wait until what was due by then has been begun.

        ValueError if it is backward or no number; ClusterFailed if the broker does not run.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"the clock moves forward only, not by {seconds:g} s")
        with self._changing:
            self._check_running()
            self._clock_s += seconds
            self._clock.write_text(repr(self._clock_s))
            self._servers.signal(self._server, MOVE)
            self._servers.wait_clock(self._server, self._clock_s)

    def mend(self) -> None:
        """Start it again if it was killed, stopped or frozen, or if its clock was moved, which ends with that.

        Waits for a restart that a test began in a thread and did not wait for.
        """
        with self._changing:
            if self._clock_s:
                self.kill()
                self._clock_s = 0.0
                self._clock.unlink()
            if self._servers.frozen(self._server):
                self.kill()
            if not self.running:
                self.launch()

    def launch(self) -> None:
        """Start the process, and wait until it serves; ClusterFailed if it ends instead."""
        port, http_port = self._ports
        self._server = self._servers.start(NAME, MODULE, *self._arguments, "--port", port, "--http-port", http_port)
        self._said = self._servers.wait_serving(self._server)
        self._ports = self.service_url.rpartition(":")[2], self.admin_url.rpartition(":")[2]

    def _check_running(self) -> None:
        if not self.running:
            raise ClusterFailed(f"{NAME} does not run: restart it first")


Running = TypeVar("Running", RunningPulsar, ClusterBroker)


class PulsarOfTest(Generic[Running]):
    """A broker of the session, and a namespace for one test."""

    def __init__(self, running: Running, namespace: str) -> None:
        """The namespace is there, and the broker runs."""
        self._running: Running = running
        self.namespace = namespace
        """`tenant/namespace`, which no other test uses."""

    def __repr__(self) -> str:
        return f"<Pulsar at {self.service_url}, namespace {self.namespace}>"

    @property
    def service_url(self) -> str:
        """The URL for Pulsar's clients; it stays the same over `restart`."""
        return self._running.service_url

    @property
    def admin_url(self) -> str:
        """The URL of HTTP."""
        return self._running.admin_url

    @property
    def metadata_url(self) -> str:
        """The metadata store, for `mledger.open_cluster` and for the `mledger` command."""
        return self._running.metadata_url

    @property
    def pid(self) -> int:
        """The process id; that of its last process if it is not running."""
        return self._running.pid

    @property
    def running(self) -> bool:
        """Whether the broker is alive."""
        return self._running.running

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._running.log

    def topic(self, name: str) -> str:
        """The full name of a topic of this test."""
        return f"persistent://{self.namespace}/{name}"


class WaitingPulsar(PulsarOfTest[Running]):
    """A broker of the session for tests that are not async."""

    def kill(self) -> None:
        """Send SIGKILL and wait until the broker has ended; does nothing if it is not running."""
        self._running.kill()

    def stop(self) -> None:
        """Send SIGTERM and wait until the broker has ended in order; does nothing if it is not running."""
        self._running.stop()

    def restart(self) -> None:
        """Kill the broker if it is running, start it on its stored data at the same ports; wait until it serves."""
        self._running.restart()

    def expire_sessions(self) -> None:
        """End every session with the metadata store, those of brokers and of bookies, as if they had been silent."""
        self._running.expire_sessions()

    def wait_until_drained(self, topic: str, subscription: str, timeout_s: float = WAIT_S) -> None:
        """Wait until the subscription has acknowledged every message, so durably that a kill does not undo it.

        StandaloneError if it still has a backlog after `timeout_s` seconds, or no client has opened the topic with all
        its partitions, or the broker does not answer.
        """
        wait_until_drained(self.admin_url, topic, subscription, timeout_s)


class SyncPulsar(WaitingPulsar[RunningPulsar]):
    """What the fixture `pulsar` returns."""

    def move_clock(self, seconds: float) -> None:
        """Move the broker's clock forward until the test ends: what is due by then is done. ValueError if backward."""
        self._running.move_clock(seconds)


class AsyncPulsar(PulsarOfTest[RunningPulsar]):
    """What the fixture `async_pulsar` returns: waiting leaves the loop free, whichever plugin runs the test."""

    async def kill(self) -> None:
        """Send SIGKILL and wait until the broker has ended; does nothing if it is not running."""
        await asyncio.to_thread(self._running.kill)

    async def stop(self) -> None:
        """Send SIGTERM and wait until the broker has ended in order; does nothing if it is not running."""
        await asyncio.to_thread(self._running.stop)

    async def restart(self) -> None:
        """Kill the broker if it is running, start it on its stored data at the same ports; wait until it serves."""
        await asyncio.to_thread(self._running.restart)

    async def expire_sessions(self) -> None:
        """End every session with the metadata store, the broker's and its bookie's, as if they had been silent."""
        await asyncio.to_thread(self._running.expire_sessions)

    async def move_clock(self, seconds: float) -> None:
        """Move the broker's clock forward until the test ends: what is due by then is done. ValueError if backward."""
        await asyncio.to_thread(self._running.move_clock, seconds)

    async def wait_until_drained(self, topic: str, subscription: str, timeout_s: float = WAIT_S) -> None:
        """Wait until the subscription has acknowledged every message, so durably that a kill does not undo it.

        StandaloneError if it still has a backlog after `timeout_s` seconds, or no client has opened the topic with all
        its partitions, or the broker does not answer.
        """
        await asyncio.to_thread(wait_until_drained, self.admin_url, topic, subscription, timeout_s)
