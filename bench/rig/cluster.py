"""The cluster of a benchmark: a real ZooKeeper and bookies with sync on, in new directories that are removed after."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 30.0
SWITCH_INTERVAL_S = 0.0005


class NotEnoughDisk(Exception):
    """A run may write more than fits the disk."""


def require_disk(needed: int) -> None:
    """Raise NotEnoughDisk unless `needed` bytes and a tenth of the disk are free in the temporary directory."""
    usage = shutil.disk_usage(tempfile.gettempdir())
    if usage.free < needed + usage.total // 10:
        raise NotEnoughDisk(
            f"{needed >> 30} GiB are needed in {tempfile.gettempdir()}, but {usage.free >> 30} are free: "
            "set TMPDIR to a larger disk, or run with fewer --seconds"
        )


def peak_memory_mib(pid: int) -> float:
    """The most memory the process has held so far (VmHWM), MiB."""
    return _memory_mib(pid, "VmHWM:")


def resident_mib(pid: int) -> float:
    """The memory that the process holds now (VmRSS), MiB."""
    return _memory_mib(pid, "VmRSS:")


def _memory_mib(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field)) / 1024


def cpu_seconds(pid: int) -> float:
    """User and system time of the process so far, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(module: str, *arguments: object) -> dict[str, Any]:
    """Run `python -m module` to its end; returns the JSON object that it prints last."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


class BenchBookie:
    """One bookie process."""

    def __init__(self, url: str, directory: Path) -> None:
        self._command = [sys.executable, "-m", "mledger.bookie.server", "--metadata", url, "--dir", str(directory)]
        self._log = directory.with_suffix(".log")
        self.start()

    def start(self) -> None:
        """Start on the directory; returns when it serves."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a bookie ended with {self._process.wait()}: {self._log.read_text()[-2000:]}")
        self.bookie_id: str = json.loads(line)["bookie_id"]

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def stop(self) -> None:
        """Send SIGTERM and wait until it has ended."""
        self._process.terminate()
        self._process.wait(START_TIMEOUT_S)

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()
        self._process.wait()


class BenchCluster:
    """A context: ZooKeeper and `count` bookies in a temporary directory."""

    def __init__(self, count: int = 3) -> None:
        self._count = count

    def __enter__(self) -> "BenchCluster":
        self._directory = Path(tempfile.mkdtemp(prefix="bench-"))
        self.bookies: list[BenchBookie] = []
        self._zookeeper: ZooKeeperServer | None = None
        try:
            self._zookeeper = ZooKeeperServer.start(self._directory / "zookeeper", tick_ms=2000)
            self.url = self._zookeeper.url
            asyncio.run(_initialize(self.url))
            for number in range(self._count):
                self.bookies.append(BenchBookie(self.url, self._directory / f"bookie-{number}"))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for bookie in self.bookies:
            bookie.kill()
        if self._zookeeper is not None:
            self._zookeeper.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def pids(self) -> list[int]:
        """The bookies' process ids."""
        return [bookie.pid for bookie in self.bookies]


async def _initialize(url: str) -> None:
    async with await open_store(url) as store:
        await initialize(store)
