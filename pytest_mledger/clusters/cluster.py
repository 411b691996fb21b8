"""The cluster that the fixtures return: metadata in memory or in a real ZooKeeper, and bookies, each a process."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mledger.metastore.errors import ZooKeeperFailed
from mledger.metastore.runtime.packages import check_rocksdb
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from pytest_mledger.clusters.cluster_broker import ClusterBroker
from pytest_mledger.clusters.cluster_options import MEMORY, ZOOKEEPER
from pytest_mledger.servers.processes import ClusterFailed, ServerProcess, Servers
from pytest_mledger.servers.program import Program
from pytest_mledger.servers.session_expiry import expire_sessions

if TYPE_CHECKING:
    from mledger import Cluster, ManagedLedgerConfig
    from mledger.settings import OwnerSettings
    from pytest_mledger.clusters.owner import Owner

METADATA_MODULE = "mledger.metastore.rocksdb.server"
BOOKIE_MODULE = "mledger.bookie.server.process.main"
SMALL = ("--journal-mb", "4", "--memtable-mb", "4", "--min-free-mb", "1", "--log-level", "warning")
_USED_LATER = {
    MEMORY: ("uvloop", "mledger.metastore.rocksdb.store"),
    ZOOKEEPER: ("uvloop", "mledger.metastore.zookeeper.store"),
}
_ZOOKEEPER_SETTINGS = {"maxSessionTimeout": "120000"}  # ms, so that a client gets the timeout that it requests


class Bookie:
    """One bookie; its directory and its port stay the same when its process is restarted."""

    def __init__(self, servers: Servers, number: int, url: str) -> None:
        self._servers = servers
        self.number = number
        self.directory = servers.directory / f"bookie-{number}"
        self._arguments = ("--metadata", url, "--dir", str(self.directory), *SMALL)
        self._server: ServerProcess
        self._said: dict[str, Any]
        self._frozen = False

    def __repr__(self) -> str:
        return f"<bookie {self.number}, {self.bookie_id}>"

    @property
    def bookie_id(self) -> str:
        """Its id in the metadata."""
        return str(self._said["bookie_id"])

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._said["host"], self._said["port"]

    @property
    def pid(self) -> int:
        """The process id; that of its last process if it is not running."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive, frozen or not."""
        self._servers.look()
        return self._server.running

    @property
    def frozen(self) -> bool:
        """Whether it is stopped by `freeze`."""
        return self._frozen

    @property
    def serves(self) -> bool:
        """Whether the process is alive and not frozen, by whomever."""
        return self.running and not self._frozen and not self._servers.frozen(self._server)

    @property
    def log(self) -> Path:
        """The path of its log."""
        return self._server.log

    def kill(self) -> None:
        """Send SIGKILL and wait until it has ended; does nothing if it is not running."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Send SIGTERM and wait until it has shut down; does nothing if it is not running."""
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it if it is running, start it on its stored data, and wait until it serves."""
        self.kill()
        self.launch()
        self.wait_serving()

    def freeze(self) -> None:
        """Send SIGSTOP: it keeps its connections but does not answer."""
        self._servers.signal(self._server, signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """Send SIGCONT, which ends `freeze`."""
        self._servers.signal(self._server, signal.SIGCONT)
        self._frozen = False

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self._frozen = False
        self._server = self._servers.start(f"bookie-{self.number}", BOOKIE_MODULE, *self._arguments)

    def wait_serving(self) -> None:
        """Wait until it serves; ClusterFailed if it ends instead."""
        self._said = self._servers.wait_serving(self._server)

    def _end(self, number: int) -> None:
        self._servers.end(self._server, number)
        self._frozen = False


class RunningCluster:
    """A cluster of processes of this session; all of them end with the context of `start`."""

    def __init__(self, servers: Servers) -> None:
        """Use `start`."""
        self._servers = servers
        self._settings: OwnerSettings | None = None
        self._given: Mapping[str, str] = {}
        self._program_numbers = itertools.count(1)
        self.url = ""
        self.zookeeper: ZooKeeperServer | None = None
        self.bookies: tuple[Bookie, ...] = ()
        self._broker: ClusterBroker | None = None
        self.start_seconds = 0.0

    @classmethod
    @contextlib.contextmanager
    def start(cls, directory: Path, bookies: int, metadata: str = MEMORY) -> Iterator[RunningCluster]:
        """Start a cluster of `bookies` bookies below `directory`; on exit, end its processes and delete its data.

        `metadata` is memory or zookeeper. Raises ClusterFailed, ZooKeeperNotFound, and PackageNotInstalled if RocksDB
        is missing.
        """
        check_rocksdb()
        servers = Servers(directory)
        cluster = cls(servers)
        try:
            cluster._start(bookies, metadata)
            yield cluster
        finally:
            if servers.own:
                cluster._end(directory)

    def with_settings(self, settings: OwnerSettings, given: Mapping[str, str]) -> RunningCluster:
        """The same servers, for clients with these settings; `given` is how the marker gives them."""
        other = copy.copy(self)
        other._settings, other._given = settings, given
        return other

    @property
    def config(self) -> ManagedLedgerConfig:
        """The configuration of topics: two copies as in Pulsar's default, or one if there is only one bookie.

        It includes the settings of the marker, which may set other quorums.
        """
        from mledger import ManagedLedgerConfig

        config = self._settings.config if self._settings else ManagedLedgerConfig()
        if self._settings and self._settings.quorums_given:
            return config
        copies = min(2, len(self.bookies))
        return replace(config, ensemble_size=copies, write_quorum_size=copies, ack_quorum_size=copies)

    def bookie(self, bookie_id: str) -> Bookie:
        """The bookie with this id in the metadata, for example from a ledger's ensemble; KeyError."""
        for bookie in self.bookies:
            if bookie.bookie_id == bookie_id:
                return bookie
        raise KeyError(f"{bookie_id} is not one of {[bookie.bookie_id for bookie in self.bookies]}")

    @contextlib.asynccontextmanager
    async def open(self, config: ManagedLedgerConfig | None = None) -> AsyncIterator[Cluster]:
        """Open the cluster in the running loop, with the marker's settings; on exit, close it.

        `config` is that of topics opened without their own.
        """
        import mledger

        options: dict[str, Any] = {"config": config or self.config}
        if self._settings:
            options |= {"client": self._settings.client, "session_timeout": self._settings.session_timeout}
        async with mledger.open_cluster(self.url, **options) as cluster:
            yield cluster

    @contextlib.asynccontextmanager
    async def owner(self, config: ManagedLedgerConfig | None = None) -> AsyncIterator[Owner]:
        """An owner of topics in the running loop, which can be restarted. `config` is that of its topics."""
        from pytest_mledger.clusters.owner import Owner

        owner = Owner(functools.partial(self.open, config))
        async with owner:
            yield owner

    def broker(self) -> ClusterBroker:
        """The broker of all tests on these servers, with the settings of this one's marker."""
        config, broker = self.config, self._broker
        assert broker is not None
        copies = {
            "managedLedgerDefaultEnsembleSize": config.ensemble_size,
            "managedLedgerDefaultWriteQuorum": config.write_quorum_size,
            "managedLedgerDefaultAckQuorum": config.ack_quorum_size,
        }
        broker.serve({key: str(count) for key, count in copies.items()} | dict(self._given))
        return broker

    @contextlib.contextmanager
    def program(self, *command: str) -> Iterator[Program]:
        """Start a program of your own, for example `sys.executable, "owner.py"`; on exit, kill it."""
        program = Program(self._servers, f"program-{next(self._program_numbers)}", self.url, command)
        try:
            yield program
        finally:
            program.kill()

    def expire_sessions(self) -> None:
        """End every session with the metadata store, as if its client had been silent; ephemeral nodes go with them.

        Bookies and open clusters then begin new ones. It returns once the bookies and the broker that run are
        registered again. ClusterFailed with a real ZooKeeper, which does not allow it.
        """
        if self.zookeeper is not None:
            raise ClusterFailed("sessions of a real ZooKeeper end by silence: freeze it, or use metadata in memory")
        expire_sessions(
            str(self._servers.directory / "metadata"),
            bookies=sum(bookie.serves for bookie in self.bookies),
            brokers=int(self._broker is not None and self._broker.running),
        )

    def mend(self) -> None:
        """Restart the servers that were killed, stopped or frozen, and wait until every bookie serves."""
        lost = self._mend_zookeeper()
        away = [bookie for bookie in self.bookies if lost or not bookie.serves]
        for bookie in away:
            bookie.kill()  # a bookie that was frozen for long may have lost its session, so restart it
            bookie.launch()
        for bookie in away:
            bookie.wait_serving()

    def _mend_zookeeper(self) -> bool:
        """Restart or thaw ZooKeeper if necessary; whether it was, so that sessions may be lost."""
        zookeeper = self.zookeeper
        if zookeeper is None:
            return False
        if not zookeeper.running:
            zookeeper.restart()
            return True
        import psutil  # imported only when it is needed

        frozen = bool(psutil.Process(zookeeper.pid).status() == psutil.STATUS_STOPPED)
        if frozen:
            zookeeper.thaw()
        return frozen

    def _start(self, bookies: int, metadata: str) -> None:
        """Start the metadata first; import what bookies need while it starts and is initialised."""
        started = time.monotonic()
        if metadata == ZOOKEEPER:
            self._start_zookeeper()
        else:
            self._start_memory()
        initialization = self._servers.start("initialization", "pytest_mledger.initialization", self.url)
        self._servers.prepare(BOOKIE_MODULE)
        if self._servers.wait_ended(initialization) != 0:
            self._servers.wait_serving(initialization)  # raises, with its log
        self.bookies = tuple(Bookie(self._servers, number, self.url) for number in range(bookies))
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_serving()
        self._broker = ClusterBroker(self._servers, self.url, self.expire_sessions)
        self.start_seconds = time.monotonic() - started

    def _end(self, directory: Path) -> None:
        self._servers.close()
        if self.zookeeper is not None:
            self.zookeeper.kill()
        for part in directory.iterdir():
            if part.is_dir():
                shutil.rmtree(part)

    def _start_memory(self) -> None:
        directory = self._servers.directory / "metadata"
        self.url = f"rocksdb:{directory}"
        arguments = ("--in-memory", "--dir", str(directory), "--log-level", "warning")
        server = self._servers.start("metadata", METADATA_MODULE, *arguments)
        self._servers.prepare(*_USED_LATER[MEMORY])
        self._servers.wait_serving(server)

    def _start_zookeeper(self) -> None:
        """ZooKeeper takes a second or more: what bookies import is imported meanwhile."""
        self._servers.prepare(*_USED_LATER[ZOOKEEPER], BOOKIE_MODULE)
        try:
            self.zookeeper = ZooKeeperServer.start(self._servers.directory, sync=False, settings=_ZOOKEEPER_SETTINGS)
        except ZooKeeperFailed as error:
            raise ClusterFailed(str(error)) from error
        self.url = self.zookeeper.url
