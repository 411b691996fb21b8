"""The cluster that the fixtures give: metadata in memory, served on a socket, and bookies; each a process to kill."""

from __future__ import annotations

import contextlib
import shutil
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mledger.metastore.runtime.packages import check_rocksdb
from pytest_mledger.program import Program
from pytest_mledger.servers import ServerProcess, Servers

if TYPE_CHECKING:
    from mledger import ManagedLedgerConfig
    from pytest_mledger.owner import Owner

METADATA_MODULE = "mledger.metastore.rocksdb.server"
BOOKIE_MODULE = "mledger.bookie.server.process.main"
SMALL = ("--journal-mb", "4", "--memtable-mb", "4", "--min-free-mb", "1", "--log-level", "warning")
_USED_LATER = ("uvloop", "mledger.metastore.rocksdb.store")


class Bookie:
    """One bookie: its directory and its port outlive its processes."""

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
        """What the metadata calls it."""
        return str(self._said["bookie_id"])

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._said["host"], self._said["port"]

    @property
    def pid(self) -> int:
        """The process id; that of its last process when it does not run."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process lives, frozen or not."""
        self._servers.look()
        return self._server.running

    @property
    def frozen(self) -> bool:
        """Whether `freeze` holds it."""
        return self._frozen

    @property
    def log(self) -> Path:
        """Its log."""
        return self._server.log

    def kill(self) -> None:
        """SIGKILL, and wait for the end; nothing where it does not run."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for the orderly end; nothing where it does not run."""
        self.thaw()
        self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Kill it if it runs, start it on what it has stored, and wait until it serves."""
        self.kill()
        self.launch()
        self.wait_serving()

    def freeze(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._servers.signal(self._server, signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        self._servers.signal(self._server, signal.SIGCONT)
        self._frozen = False

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self._frozen = False
        self._server = self._servers.start(f"bookie-{self.number}", BOOKIE_MODULE, *self._arguments)

    def wait_serving(self) -> None:
        """Return when it serves; ClusterFailed when it ends instead."""
        self._said = self._servers.wait_serving(self._server)

    def _end(self, number: int) -> None:
        self._servers.signal(self._server, number)
        self._servers.wait_ended(self._server)
        self._frozen = False


class RunningCluster:
    """A cluster of processes of this session; all of it ends with `start`'s context."""

    def __init__(self, servers: Servers, url: str) -> None:
        """Use `start`."""
        self._servers = servers
        self.url = url
        self.bookies: tuple[Bookie, ...] = ()
        self.start_seconds = 0.0
        self._programs = 0

    @classmethod
    @contextlib.contextmanager
    def start(cls, directory: Path, bookies: int) -> Iterator[RunningCluster]:
        """A cluster of so many bookies below `directory`; on leaving, processes and data go.

        Raises ClusterFailed, and PackageNotInstalled where RocksDB is missing.
        """
        check_rocksdb()
        servers = Servers(directory)
        try:
            cluster = cls(servers, f"rocksdb:{directory / 'metadata'}")
            cluster._start(bookies)
            yield cluster
        finally:
            servers.close()
            for part in directory.iterdir():
                if part.is_dir():
                    shutil.rmtree(part)

    @property
    def config(self) -> ManagedLedgerConfig:
        """How topics are replicated here: two copies, as Pulsar has it by default, one where there is one bookie."""
        from mledger import ManagedLedgerConfig

        copies = min(2, len(self.bookies))
        return ManagedLedgerConfig(ensemble_size=copies, write_quorum_size=copies, ack_quorum_size=copies)

    def bookie(self, bookie_id: str) -> Bookie:
        """The bookie that the metadata calls so, in a ledger's ensemble for instance; KeyError."""
        for bookie in self.bookies:
            if bookie.bookie_id == bookie_id:
                return bookie
        raise KeyError(f"{bookie_id} is none of {[bookie.bookie_id for bookie in self.bookies]}")

    @contextlib.asynccontextmanager
    async def owner(self, config: ManagedLedgerConfig | None = None) -> AsyncIterator[Owner]:
        """Who owns topics, in the running loop; it can be restarted. `config` is that of its topics."""
        from pytest_mledger.owner import Owner

        owner = Owner(self.url, config or self.config)
        async with owner:
            yield owner

    @contextlib.contextmanager
    def program(self, *command: str) -> Iterator[Program]:
        """A program of the tests' own, `sys.executable, "owner.py"` for instance, started; it is killed on leaving."""
        self._programs += 1
        program = Program(self._servers, f"program-{self._programs}", self.url, command)
        try:
            yield program
        finally:
            program.kill()

    def mend(self) -> None:
        """Bring back what was killed, stopped or frozen; returns when every bookie serves."""
        away = [bookie for bookie in self.bookies if bookie.frozen or not bookie.running]
        for bookie in away:
            bookie.kill()  # frozen for long, it may have lost its session, and is back for sure only when started anew
            bookie.launch()
        for bookie in away:
            bookie.wait_serving()

    def _start(self, bookies: int) -> None:
        """Metadata first; what bookies import is imported while it starts and is initialised."""
        started = time.monotonic()
        metadata = self._servers.start(
            "metadata", METADATA_MODULE, "--in-memory", "--dir", self.url.partition(":")[2], "--log-level", "warning"
        )
        self._servers.prepare(*_USED_LATER)
        self._servers.wait_serving(metadata)
        initialization = self._servers.start("initialization", "pytest_mledger.initialization", self.url)
        self._servers.prepare(BOOKIE_MODULE)
        if self._servers.wait_ended(initialization) != 0:
            self._servers.wait_serving(initialization)  # raises, with its log
        self.bookies = tuple(Bookie(self._servers, number, self.url) for number in range(bookies))
        for bookie in self.bookies:
            bookie.launch()
        for bookie in self.bookies:
            bookie.wait_serving()
        self.start_seconds = time.monotonic() - started
