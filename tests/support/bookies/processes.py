"""Bookie processes for tests: they start, die by kill -9, restart on their directories, freeze, and are cleaned up."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from mledger.metastore.cluster.cookies import delete_cookie
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.runtime.processes.child_processes import start_child
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import HANG_S, run
from tests.support.forked_python import ForkedPython

ROOT = Path(__file__).resolve().parents[3]
SMALL = ("--journal-mb", "4", "--memtable-mb", "4", "--min-free-mb", "1", "--session-timeout", "60")
"""Keeps a test's bookie small on disk and in memory, and registered while the machine stalls."""
AUTHENTICATING = ("--auth-provider", "tests.support.recordings.golden_auth:GoldenAuth")
"""Has a bookie ask each client for the handshake of the golden frames."""


class BookieFailed(Exception):
    """A bookie process ended instead of serving; holds its exit code and its log."""

    def __init__(self, returncode: int | None, log: str) -> None:
        super().__init__(f"bookie ended with {returncode}:\n{log}")
        self.returncode, self.log = returncode, log


@dataclass
class BookieServer:
    """One bookie. Its directory outlives its processes."""

    metadata_url: str
    directory: Path
    log_path: Path
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-m", "mledger.bookie.server")
    environment: dict[str, str] = field(default_factory=dict)
    bookie_id: str = ""
    host: str = ""
    port: int = 0
    metrics_port: int = 0
    served_by: int = 0
    process: "subprocess.Popen[str] | None" = None
    log_file: "IO[str] | None" = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    @property
    def pid(self) -> int:
        """The process id of the running bookie, even if its command runs it as a child."""
        assert self.process is not None
        return self.served_by or self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process without waiting for it to serve."""
        assert not self.running
        self.served_by = 0
        self.log_file = self.log_path.open("a")
        command = [*self.command, "--metadata", self.metadata_url, "--dir", str(self.directory), *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        start = ForkedPython if command[:2] == [sys.executable, "-m"] else start_child
        self.process = start(
            command, stdout=subprocess.PIPE, stderr=self.log_file, text=True, cwd=ROOT, env=environment
        )

    def wait_serving(self) -> None:
        """Return when it serves. Raises BookieFailed if it ends instead."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise BookieFailed(self.process.wait(HANG_S), self.log())
        fields = json.loads(line)
        self.bookie_id, self.host, self.port = fields["bookie_id"], fields["host"], fields["port"]
        self.served_by, self.metrics_port = fields["pid"], fields.get("metrics_port", 0)

    def start(self) -> "BookieServer":
        """Start and wait until it serves."""
        self.launch()
        self.wait_serving()
        return self

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self._signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Send SIGTERM, wait for the orderly end, and return the exit code."""
        self._signal(signal.SIGTERM)
        return self.wait()

    def restart(self) -> "BookieServer":
        """Start again on the same directory. Kills the bookie first if it runs."""
        if self.running:
            self.kill()
        return self.start()

    def freeze(self) -> None:
        """Send SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        code = self.process.wait(HANG_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if self.log_file is not None:
            self.log_file.close()
            self.log_file = None
        return code

    def log(self) -> str:
        """Everything it has logged so far."""
        return self.log_path.read_text()

    def _signal(self, number: int) -> None:
        assert self.running
        os.kill(self.pid, number)


class BookieProcesses:
    """Bookies of one cluster, numbered from 0."""

    def __init__(self, metadata_url: str, directory: Path, arguments: tuple[str, ...] = SMALL) -> None:
        self.metadata_url, self.directory, self.arguments = metadata_url, directory, arguments
        self.bookies: list[BookieServer] = []

    def __getitem__(self, number: int) -> BookieServer:
        return self.bookies[number]

    def __len__(self) -> int:
        return len(self.bookies)

    def __iter__(self):
        return iter(self.bookies)

    def add(self, *arguments: str, **fields) -> BookieServer:
        """Add a bookie without starting it."""
        number = len(self.bookies)
        self.directory.mkdir(parents=True, exist_ok=True)
        bookie = BookieServer(
            self.metadata_url,
            self.directory / f"bookie-{number}",
            self.directory / f"bookie-{number}.log",
            (*self.arguments, *arguments),
            **fields,
        )
        self.bookies.append(bookie)
        return bookie

    def start(self, count: int, *arguments: str) -> list[BookieServer]:
        """Start `count` more bookies at the same time, and wait until they serve."""
        added = [self.add(*arguments) for _ in range(count)]
        for bookie in added:
            bookie.launch()
        for bookie in added:
            bookie.wait_serving()
        return added

    def kill(self, number: int) -> None:
        """Send SIGKILL to bookie `number`."""
        self.bookies[number].kill()

    def stop(self, number: int) -> int:
        """Send SIGTERM to bookie `number`; its exit code."""
        return self.bookies[number].stop()

    def restart(self, number: int) -> BookieServer:
        """Start bookie `number` again on its directory."""
        return self.bookies[number].restart()

    def freeze(self, number: int) -> None:
        """Send SIGSTOP to bookie `number`."""
        self.bookies[number].freeze()

    def thaw(self, number: int) -> None:
        """Send SIGCONT to bookie `number`."""
        self.bookies[number].thaw()

    def close(self) -> None:
        """Kill every process that still runs."""
        for bookie in self.bookies:
            if bookie.running:
                bookie.kill()


def initialize_cluster(url: str) -> str:
    """Initialise the cluster at `url`, as `mledger up` does, and return its instance id."""

    async def main() -> str:
        async with await open_store(url) as store:
            return await initialize(store)

    return run(main())


async def connect(bookie: BookieServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A raw connection to a bookie."""
    return await asyncio.open_connection(*bookie.address)


@pytest.fixture
def cluster_url(metadata_url):
    """The URL of an initialised cluster without bookies."""
    initialize_cluster(metadata_url)
    return metadata_url


@pytest.fixture
def bookies(cluster_url, tmp_path):
    """`BookieProcesses` of an initialised cluster. None is started; all end with the test."""
    processes = BookieProcesses(cluster_url, tmp_path / "bookies")
    yield processes
    processes.close()


@contextmanager
def shared_cluster(url: str, directory: Path) -> Iterator[BookieProcesses]:
    """A cluster initialised at `url` with four bookies, which the tests that share it must not kill.

    Raises BookieFailed, with the log, if a bookie has ended all the same.
    """
    initialize_cluster(url)
    processes = BookieProcesses(url, directory)
    try:
        shared = processes.start(4)
        yield processes
        for bookie in shared:
            if not bookie.running:
                raise BookieFailed(bookie.wait(), bookie.log()[-4000:])
    finally:
        processes.close()


async def lose_disk(bookie: BookieServer) -> None:
    """Start the bookie again on an empty directory at its old address, as operators do after a disk is lost.

    It ends in order: it would stay registered after a kill, and the new one would wait for the end of that.
    """
    if bookie.running:
        bookie.stop()
    shutil.rmtree(bookie.directory)
    async with await open_store(bookie.metadata_url) as store:
        await delete_cookie(store, bookie.bookie_id, ANY_VERSION)
    bookie.arguments = (*bookie.arguments, "--port", str(bookie.port))
    bookie.start()
