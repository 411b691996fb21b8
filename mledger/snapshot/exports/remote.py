"""A directory of snapshots on another file system: written on this machine, then copied there, the manifest last.

An object store cannot rename, and only a directory with a manifest is a snapshot. So the files are copied first, their
sizes are checked, and then the manifest is written atomically. A removal begins with the manifest. An interrupted
export resumes from the stage, the directory on this machine that keeps finished steps and a list of what was copied.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from mledger.snapshot.exports.destination import Destination, local_path, place_at
from mledger.snapshot.exports.directory import REMOVED, SnapshotDirectory, read_manifest, snapshots_in
from mledger.snapshot.exports.errors import ExportError, ExportNotWritable
from mledger.snapshot.exports.manifest import MANIFEST, PREFIX, Manifest, decode_manifest

COPIED = "copied"
_TRIAL = "_trial"


class RemoteDirectory(SnapshotDirectory):
    """Snapshots in a directory on another file system, written in the directory `stage` on this machine."""

    def __init__(self, there: Destination, stage: Path) -> None:
        super().__init__(stage)
        self.there = there

    @property
    def where(self) -> str:
        """The directory's URI for messages."""
        return self.there.text

    def named(self, name: str) -> str:
        """A snapshot's URI for messages."""
        return str(self._place(name))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold this machine's lock for writing; it does not stop other machines.

        Raises ExportNotWritable, ExportBusy.
        """
        with super().writing():
            self.there.write(_TRIAL, b"")
            self.there.remove_file(_TRIAL)
            for name in self.there.below(REMOVED).names():
                self._finish_removal(name)
            yield

    def snapshots(self) -> list[Manifest]:
        """All complete snapshots, by their point in time. SnapshotNotFound, DestinationNotReadable."""
        return snapshots_in(self.there)

    def find(self, name: str) -> Manifest | None:
        """The complete snapshot of that name. DestinationNotReadable."""
        return read_manifest(self._place(name)) if self._place(name).holds(MANIFEST) else None

    def publish(self, name: str, manifest: bytes) -> None:
        """Copy the unfinished snapshot's files, check that all are there, then write its manifest."""
        there = self._place(name)
        wanted = {
            file.path: file.bytes
            for table in decode_manifest(manifest, there.text).tables.values()
            for file in table.files
        }
        self._copy(name, wanted)
        found = there.sizes()
        for extra in found.keys() - wanted.keys():
            there.remove_file(extra)
        wrong = sorted(path for path, size in wanted.items() if found.get(path) != size)
        if wrong:
            (self.unfinished(name) / COPIED).unlink(missing_ok=True)
            raise ExportError(
                f"{there}/{wrong[0]} is missing or has another size: make sure that no other export writes there, "
                "and run the export again"
            )
        there.write(MANIFEST, manifest)
        self.discard(name)

    def discard(self, name: str) -> None:
        """Remove an unfinished export and the files that it copied."""
        if (self.unfinished(name) / COPIED).exists() and not self._place(name).holds(MANIFEST):
            self._place(name).remove()
        super().discard(name)

    def remove(self, name: str) -> None:
        """Remove a complete snapshot: it disappears with its manifest, then its files are deleted."""
        self.there.below(REMOVED).write(name, b"")
        self._finish_removal(name)

    def _finish_removal(self, name: str) -> None:
        self._place(name).remove_file(MANIFEST)
        self._place(name).remove()
        self.there.below(REMOVED).remove_file(name)

    def _copy(self, name: str, wanted: dict[str, int]) -> None:
        """Copy the files that an earlier run did not copy."""
        note = self.unfinished(name) / COPIED
        there, tables = self._place(name), self.unfinished(name) / "tables"
        sizes = there.sizes() if note.exists() else {}
        copied = set(note.read_text("utf-8").splitlines()) if note.exists() else set()
        with open(note, "a", encoding="utf-8") as stream:
            for path, size in sorted(wanted.items()):
                if path in copied and sizes.get(path) == size:
                    continue
                there.copy_in(tables / path, path)
                stream.write(f"{path}\n")
                stream.flush()

    def _place(self, name: str) -> Destination:
        return self.there.below(f"{PREFIX}{name}")


def snapshot_directory(text: str, stage: Path | None = None) -> SnapshotDirectory:
    """The directory of snapshots at a path or URI; `stage` is where exports to other file systems are written first.

    Raises DestinationNotReadable; ExportNotWritable if a stage is given for a directory on this machine.
    """
    here = local_path(text)
    if here is None:
        return RemoteDirectory(place_at(text), stage or default_stage(text))
    if stage is not None:
        raise ExportNotWritable(f"{text} is on this machine and needs no --stage: leave out --stage")
    return SnapshotDirectory(here)


def default_stage(text: str) -> Path:
    """The default stage for this URI, in the user's cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "mledger" / "exports" / hashlib.sha256(text.encode()).hexdigest()[:16]
