"""RocksDB metadata servers for tests: many on a thread of the test's process, or one as a process to kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from mledger.metastore.rocksdb.server import MetadataServer
from mledger.metastore.runtime.processes.child_processes import start_child
from tests.support.aio import HANG_S
from tests.support.forked_python import ForkedPython

ROOT = Path(__file__).resolve().parents[3]


class ServerThread:
    """An event loop on a thread of its own that serves any number of directories."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def serve(self, directory: Path) -> MetadataServer:
        """Serve `directory` until `stop`."""
        return asyncio.run_coroutine_threadsafe(MetadataServer.open(str(directory)), self._loop).result(HANG_S)

    def stop(self, server: MetadataServer) -> None:
        """Stop serving a directory."""
        asyncio.run_coroutine_threadsafe(server.close(), self._loop).result(HANG_S)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(HANG_S)
        self._loop.close()


class MetadataServerFailed(Exception):
    """A server process ended instead of serving; holds its exit code and its log."""

    def __init__(self, returncode: int, log: str) -> None:
        super().__init__(f"metadata server ended with {returncode}:\n{log}")
        self.returncode, self.log = returncode, log


@dataclass
class MetadataProcess:
    """One server process. Its directory outlives it."""

    directory: Path
    arguments: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable, "-m", "mledger.metastore.rocksdb.server")
    process: "subprocess.Popen[str] | None" = None
    pid: int = 0

    @property
    def url(self) -> str:
        """Its URL for clients."""
        return f"rocksdb:{self.directory}"

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self.process is not None and self.process.poll() is None

    @property
    def log_path(self) -> Path:
        """Its log, beside the directory."""
        return self.directory.with_name(self.directory.name + ".log")

    def start(self) -> "MetadataProcess":
        """Start and wait until it serves. Raises MetadataServerFailed if it ends instead."""
        assert not self.running
        command = [*self.command, "--dir", str(self.directory), *self.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self.log_path.open("a") as log:
            start = ForkedPython if command[:2] == [sys.executable, "-m"] else start_child
            self.process = start(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=ROOT)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise MetadataServerFailed(self.wait(), self.log_path.read_text())
        said = json.loads(line)
        assert said["url"] == self.url
        self.pid = said["pid"]
        return self

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Send SIGTERM, wait for the orderly end, and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        assert self.process is not None
        code = self.process.wait(HANG_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def rocksdb_thread():
    """The worker's thread of metadata servers."""
    thread = ServerThread()
    yield thread
    thread.close()


@pytest.fixture
def rocksdb_url(rocksdb_thread, tmp_path):
    """The URL of an empty store in RocksDB."""
    server = rocksdb_thread.serve(tmp_path / "metadata")
    yield server.url
    rocksdb_thread.stop(server)


@pytest.fixture
def metadata_process(tmp_path):
    """A running server process of this test's own."""
    process = MetadataProcess(tmp_path / "metadata-process").start()
    yield process
    if process.running:
        process.kill()
