"""The cluster of a soak: three ZooKeeper servers and bookies, each a process, in one directory that is removed."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.soak.damage import small_disk
from tests.support.bookies import SMALL, BookieProcesses, initialize_cluster
from tests.support.ensemble import Ensemble

BOOKIES = 5


@dataclass(frozen=True)
class World:
    """A running cluster."""

    directory: Path
    zookeeper: Ensemble
    bookies: BookieProcesses
    has_small_disk: bool = False

    @property
    def url(self) -> str:
        """Its metadata URL."""
        return self.zookeeper.url


@contextlib.contextmanager
def running(
    where: Path | None, *, bookies: int = BOOKIES, arguments: tuple[str, ...] = SMALL, small_disk_mb: int = 0
) -> Iterator[World]:
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
            zookeeper = Ensemble.start(directory / "zookeeper")
            stack.callback(zookeeper.close)
            initialize_cluster(zookeeper.url)
            processes = BookieProcesses(zookeeper.url, directory / "bookies", arguments)
            stack.callback(processes.close)
            processes.start(bookies)
            yield World(directory, zookeeper, processes, mounted)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def disk_used(directory: Path) -> int:
    """Bytes that the files of a directory occupy, as `du` counts them."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.lstat().st_blocks * 512
    return total
