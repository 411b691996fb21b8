"""A directory of snapshots; a rename publishes each snapshot as a whole.

- `snapshot=NAME/` with its manifest: a complete snapshot, never changed afterwards.
- `_unfinished/NAME/`: `tables/` is renamed to the snapshot at the end; `plan.json` and `steps/` record what is done.
- `_removed/`: snapshots whose removal has started. Spark ignores names that begin with `_` or `.`.
- A lock allows one export at a time; the system releases it when the process ends, even if it is killed.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mledger.metastore.runtime.durable_files import replace_file, sync_directory
from mledger.snapshot.exports.destination import Destination, local_place, place_at
from mledger.snapshot.exports.errors import ExportBusy, ExportNotWritable, SnapshotNotFound
from mledger.snapshot.exports.manifest import MANIFEST, PREFIX, Manifest, decode_manifest

UNFINISHED = "_unfinished"
REMOVED = "_removed"
LOCK = ".export.lock"


class SnapshotDirectory:
    """Snapshots below `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def where(self) -> str:
        """The directory's path for messages."""
        return str(self.path)

    def named(self, name: str) -> str:
        """A snapshot's path for messages."""
        return str(self.place(name))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock for writing; ExportNotWritable, ExportBusy."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ExportNotWritable(
                f"{self.path} cannot be written: {error.strerror}; name another directory"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ExportBusy(f"another export is writing to {self.path}: wait until it ends") from None
        try:
            shutil.rmtree(self.path / REMOVED, ignore_errors=True)
            yield
        finally:
            os.close(descriptor)

    def place(self, name: str) -> Path:
        """The directory of a complete snapshot."""
        return self.path / f"{PREFIX}{name}"

    def unfinished(self, name: str) -> Path:
        """The directory of a snapshot while it is written."""
        return self.path / UNFINISHED / name

    def unfinished_names(self) -> list[str]:
        """The names of exports that were started and have not finished."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.path / UNFINISHED))
        return []

    def snapshots(self) -> list[Manifest]:
        """All complete snapshots, by their point in time. SnapshotNotFound if the directory does not exist."""
        return snapshots_in(local_place(self.path))

    def find(self, name: str) -> Manifest | None:
        """The complete snapshot of that name."""
        return read_manifest(local_place(self.place(name))) if (self.place(name) / MANIFEST).exists() else None

    def publish(self, name: str, manifest: bytes) -> None:
        """Publish the unfinished snapshot: sync all of it to disk, then rename it."""
        tables = self.unfinished(name) / "tables"
        replace_file(tables / MANIFEST, manifest)
        for directory in [*(path for path in sorted(tables.rglob("*")) if path.is_dir()), tables]:
            sync_directory(directory)
        os.rename(tables, self.place(name))
        sync_directory(self.path)
        self.discard(name)

    def discard(self, name: str) -> None:
        """Remove an unfinished export."""
        shutil.rmtree(self.unfinished(name), ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(self.path / UNFINISHED)

    def remove(self, name: str) -> None:
        """Remove a complete snapshot: it disappears at once, then its files are deleted."""
        (self.path / REMOVED).mkdir(exist_ok=True)
        os.rename(self.place(name), self.path / REMOVED / name)
        sync_directory(self.path)
        shutil.rmtree(self.path / REMOVED)


def snapshots_in(place: Destination) -> list[Manifest]:
    """All complete snapshots in a directory, by their point in time.

    Raises SnapshotNotFound if the directory does not exist, InvalidManifest, DestinationNotReadable.
    """
    if not place.is_there():
        raise SnapshotNotFound(f"{place} is not a directory of snapshots: `mledger snapshot export` creates one")
    inner = [place.below(name) for name in place.names() if name.startswith(PREFIX)]
    found = [read_manifest(each) for each in inner if each.holds(MANIFEST)]
    return sorted(found, key=lambda each: (each.time_ms, each.name))


def find_snapshot(text: str) -> tuple[Destination, Manifest]:
    """The snapshot at a path or URI: its own directory, or the newest in a directory of snapshots.

    Raises SnapshotNotFound, InvalidManifest, DestinationNotReadable.
    """
    place = place_at(text)
    if place.holds(MANIFEST):
        return place, read_manifest(place)
    found = snapshots_in(place)
    if not found:
        raise SnapshotNotFound(f"{place} has no complete snapshot: `mledger snapshot export {place}` writes one")
    return place.below(f"{PREFIX}{found[-1].name}"), found[-1]


def read_manifest(place: Destination) -> Manifest:
    """The manifest of the snapshot in `place`; InvalidManifest, DestinationNotReadable."""
    return decode_manifest(place.read(MANIFEST), f"{place}/{MANIFEST}")
