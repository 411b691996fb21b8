"""The cluster of a soak: three ZooKeeper servers and bookies, each a process, in one directory that is removed."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.soak.damage import small_disk
from tests.support.bookies.processes import SMALL, BookieFailed, BookieProcesses, BookieServer, initialize_cluster
from tests.support.zookeeper.ensemble import ZooKeeperEnsemble

BOOKIES = 5
START_S = 300.0
_NO_SESSION = ("ZooKeeper at", "no ZooKeeper answers", "the session with")  # why a bookie was not let in
_LAST_LINES = 5


@dataclass(frozen=True)
class SoakCluster:
    """A running cluster."""

    directory: Path
    zookeeper: ZooKeeperEnsemble
    bookies: BookieProcesses
    has_small_disk: bool = False

    @property
    def url(self) -> str:
        """Its metadata URL."""
        return self.zookeeper.url


@contextlib.contextmanager
def running(
    where: Path | None, *, bookies: int = BOOKIES, arguments: tuple[str, ...] = SMALL, small_disk_mb: int = 0
) -> Iterator[SoakCluster]:
    """A cluster in a new directory below `where`. With the block everything ends, and the directory is removed.

    With `small_disk_mb` the last bookie's directory is a file system of that size, if one can be mounted.
    """
    directory = Path(tempfile.mkdtemp(prefix="mledger-soak-", dir=where))
    try:
        with contextlib.ExitStack() as stack:
            mounted = False
            if small_disk_mb:
                place = directory / "bookies" / f"bookie-{bookies - 1}"
                mounted = stack.enter_context(small_disk(place, small_disk_mb))
            zookeeper = ZooKeeperEnsemble.start(directory / "zookeeper")
            stack.callback(zookeeper.close)
            initialize_cluster(zookeeper.url)
            processes = BookieProcesses(zookeeper.url, directory / "bookies", arguments)
            stack.callback(processes.close)
            for bookie in [processes.add() for _ in range(bookies)]:
                bookie.launch()
            for bookie in processes:
                wait_serving(bookie, START_S)
            yield SoakCluster(directory, zookeeper, processes, mounted)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def wait_serving(bookie: BookieServer, within_s: float) -> int:
    """Wait until a launched bookie serves; how often it was started again. BookieFailed if it refuses to.

    It gives up when ZooKeeper does not answer for a session's length. That may be short here, and the machine busy;
    then it is started again, as its supervisor would.
    """
    until, again = time.monotonic() + within_s, 0
    while True:
        try:
            bookie.wait_serving()
            return again
        except BookieFailed as refused:
            bookie.wait()
            if not was_refused_session(refused.log) or time.monotonic() > until:
                raise
        again += 1
        bookie.launch()


def was_refused_session(log: str) -> bool:
    """Whether a bookie with this log ended because ZooKeeper did not answer it in time."""
    ends = [line for line in log.splitlines()[-_LAST_LINES:] if "event=failed" in line]
    return bool(ends) and any(words in ends[-1] for words in _NO_SESSION)


def disk_used(directory: Path) -> int:
    """Bytes that the files of a directory occupy, as `du` counts them."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_blocks * 512
    return total
