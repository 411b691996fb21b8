"""A directory of snapshots on any file system, and how a snapshot becomes visible.

- `snapshot=NAME/manifest.json`: a complete snapshot, never changed afterwards. It is written last.
- `TABLE/snapshot=NAME/`: its part of a table, so that each table is one partitioned table for Hive and its like.
- `_unfinished/NAME/`: what workers write, below `tables/`, with `plan.json` and `steps/`, the records of what is done.
- `_removed/NAME`: the tables of a snapshot whose removal has started. What else is in the directory stays.
- `_leaving/TABLE/`: what is being deleted; below a table, DuckDB would read it, whatever its name.

Readers ignore names that begin with `_` or `.`.

An export is decided by `_unfinished/NAME/commit.json`: from then on the next export completes it, whatever is killed.
Then the files take their final names: a rename for each table, or copies that an object store makes by itself.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mledger.metastore.runtime.durable_files import sync_directory
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.snapshot.exports.delta_log import (
    check_delta,
    check_delta_tables,
    commit_to_delta,
    forget_in_delta,
    has_delta,
)
from mledger.snapshot.exports.destination import Destination, local_path, local_place, place_at
from mledger.snapshot.exports.errors import (
    DestinationNotReadable,
    ExportBusy,
    ExportError,
    InvalidManifest,
    SnapshotNotFound,
)
from mledger.snapshot.exports.iceberg_tables import (
    check_iceberg,
    check_iceberg_tables,
    commit_to_iceberg,
    forget_in_iceberg,
    has_iceberg,
)
from mledger.snapshot.exports.manifest import (
    DELTA,
    ICEBERG,
    INSIDE,
    MANIFEST,
    PREFIX,
    Manifest,
    decode_manifest,
    decode_removal,
    encode_manifest,
    encode_removal,
    partition,
)
from mledger.snapshot.exports.selection import FoundSnapshot, plan_newest
from mledger.snapshot.exports.writer_claims import writing_at
from mledger.snapshot.tables.row_builder import TABLES

UNFINISHED = "_unfinished"
REMOVED = "_removed"
LEAVING = "_leaving"
PLAN = "plan.json"
COMMIT = "commit.json"
TABLES_AT = "tables"
COPIES_AT_ONCE = 16
_TRIAL = "_trial"

CHECKS: Mapping[str, Callable[[Destination], None]] = {DELTA: check_delta_tables, ICEBERG: check_iceberg_tables}
"""What looks whether the tables of a format in a directory can take a snapshot."""

COMMITS: Mapping[str, Callable[[Destination, Manifest], Manifest]] = {
    DELTA: commit_to_delta,
    ICEBERG: commit_to_iceberg,
}
"""What commits a snapshot's files to tables, by format, and returns the manifest with their versions."""

OnDamaged = Callable[[InvalidManifest], None]
"""Called with what is wrong with a snapshot's manifest; the snapshot is then left out."""


def refuse_damaged(problem: InvalidManifest) -> None:
    """Raise it: no snapshot is left out."""
    raise problem


def ignore_damaged(problem: InvalidManifest) -> None:
    """Do nothing: the other snapshots are enough."""


class SnapshotDirectory:
    """Snapshots in a directory, `there`."""

    def __init__(self, there: Destination | Path) -> None:
        self.there = local_place(there) if isinstance(there, Path) else there
        self._still_ours: Callable[[], None] = lambda: None

    @property
    def where(self) -> str:
        """The directory's path or URI for messages."""
        return self.there.text

    def named(self, name: str) -> str:
        """A snapshot's path or URI for messages."""
        return str(self.place(name))

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Exclude other exports, and complete what earlier ones decided. ExportNotWritable, ExportBusy."""
        if self.there.local is None:
            self.there.write(_TRIAL, b"")
            self.there.remove_file(_TRIAL)
        with writing_at(self.there) as still_ours:
            self._still_ours = still_ours
            for name in (removals := self.there.below(REMOVED).names()):
                self._finish_removal(name)
            if not removals:  # one that was killed at its end leaves the directory
                self.there.below(REMOVED).remove()
            for name in self.unfinished_names():
                if self.unfinished(name).holds(COMMIT):
                    self._complete(name, self.unfinished(name).read(COMMIT))
                elif not self.unfinished(name).holds(PLAN):
                    self.discard(name)
            yield

    def place(self, name: str) -> Destination:
        """The directory of a complete snapshot's manifest."""
        return self.there.below(f"{PREFIX}{name}")

    def unfinished(self, name: str) -> Destination:
        """The directory of a snapshot while it is written."""
        return self.there.below(UNFINISHED, name)

    def unfinished_names(self) -> list[str]:
        """The names of exports that were started and have not finished."""
        return self.there.below(UNFINISHED).names()

    def decided(self) -> list[Manifest]:
        """The snapshots of exports that were killed once decided, which the next one completes. InvalidManifest."""
        found = []
        for name in self.unfinished_names():
            place = self.unfinished(name)
            if place.holds(COMMIT):
                with contextlib.suppress(DestinationNotReadable):  # its export goes on, and has just ended
                    found.append(decode_manifest(place.read(COMMIT), f"{place}/{COMMIT}"))
        return found

    def snapshots(self, on_damaged: OnDamaged = refuse_damaged) -> list[Manifest]:
        """All complete snapshots, by their point in time; errors as of `snapshots_in`."""
        return snapshots_in(self.there, on_damaged)

    def find(self, name: str) -> Manifest | None:
        """The complete snapshot of that name."""
        return read_manifest(self.place(name)) if self.place(name).holds(MANIFEST) else None

    def check_format(self, file_format: str) -> None:
        """Look whether the tables of a format can take a snapshot.

        Raises FormatNotInstalled, DestinationNotLocal, and ExportError if they are of something else.
        """
        if file_format in CHECKS:
            CHECKS[file_format](self.there)

    def publish(self, name: str, manifest: bytes) -> None:
        """Give the files of an unfinished snapshot their final names, then write its manifest.

        Raises ExportError if files are missing, or others are in the way, ExportBusy if another export has taken over;
        nothing is then visible, unless that one completes the snapshot. Also raises what `check_format` raises.
        """
        self._still_ours()
        decided = decode_manifest(manifest, self.named(name))
        self.check_format(decided.request.file_format)
        wanted = _sizes(decided)
        tables = self.unfinished(name).below(TABLES_AT)
        found = tables.sizes()
        missing = [path for path, size in wanted.items() if found.get(unfinished_path(path)) != size]
        if missing:
            raise ExportError(
                f"{tables}/{unfinished_path(missing[0])} is missing or has another size: use a destination that all "
                "workers reach at the same path, and run the export again"
            )
        for table in _tables(wanted):
            if self._partition(table, name):
                raise ExportError(
                    f"{self.there}/{partition(table, name)} is there already, but no snapshot {name} that it belongs "
                    "to: remove it, or use another --name"
                )
        self._still_ours()
        self.unfinished(name).write(COMMIT, manifest)
        try:
            self._still_ours()
        except ExportBusy:
            if not self._can_complete(name, wanted):  # written too late: the other one has discarded the files
                self.unfinished(name).remove_file(COMMIT)
            raise
        try:
            self._complete(name, manifest)
        except ExportBusy:
            raise
        except ExportError:
            self._still_ours()  # else its files have been moved away, and that is what to say
            raise

    def discard(self, name: str) -> None:
        """Remove an unfinished export; first its plan, so that none takes it up if the rest is cut off."""
        self.unfinished(name).remove_file(PLAN)
        self.unfinished(name).remove()
        if not self.unfinished_names():
            self.there.below(UNFINISHED).remove()

    def remove(self, name: str) -> None:
        """Remove a complete snapshot: it disappears with its manifest, then its files are deleted.

        Raises FormatNotInstalled if there are Delta or Iceberg tables and their package is missing, ExportBusy if
        another export has taken over; nothing is then removed.
        """
        if has_delta(self.there, TABLES):
            check_delta(self.there)
        if has_iceberg(self.there):
            check_iceberg(self.there)
        self._still_ours()
        found = self.find(name)
        tables: Iterable[str] = TABLES if found is None else found.tables
        inside = found is not None and found.format == INSIDE
        self.there.below(REMOVED).write(name, encode_removal(() if inside else tables))
        self._finish_removal(name)

    def _complete(self, name: str, manifest: bytes) -> None:
        decided = decode_manifest(manifest, f"{self.unfinished(name)}/{COMMIT}")
        wanted = _sizes(decided)
        reveal = self._rename if self.there.renames else self._copy
        reveal(name, wanted)
        self._check(name, wanted)
        if self.there.local is not None:
            for path in {path.rpartition("/")[0] for path in wanted}:
                sync_directory(Path(self.there.path, path))
                sync_directory(Path(self.there.path, path).parent)
        commit = COMMITS.get(decided.request.file_format)
        if commit is not None:
            manifest = encode_manifest(commit(self.there, decided))
        self._reveal(name, manifest, wanted)
        if self.there.local is not None:
            sync_directory(self.there.path)
        self.discard(name)

    def _reveal(self, name: str, manifest: bytes, wanted: Mapping[str, int]) -> None:
        """Write the manifest. ExportBusy if another export has taken over, which then has completed the snapshot."""
        self._still_ours()
        if self.there.local is not None:
            for left in self.place(name).names():
                if left.startswith(f".{MANIFEST}."):  # of an export that was killed while it wrote
                    self.place(name).remove_file(left)
        self.place(name).write(MANIFEST, manifest)
        try:
            self._still_ours()
        except ExportBusy:
            if self._wrong_file(name, wanted):  # written too late: the snapshot was removed since
                self.place(name).remove_file(MANIFEST)
            raise

    def _can_complete(self, name: str, wanted: Mapping[str, int]) -> bool:
        there = self.unfinished(name).below(TABLES_AT).sizes()
        there |= {unfinished_path(path): size for path, size in self._in_place(name, wanted).items()}
        return all(there.get(unfinished_path(path)) == size for path, size in wanted.items())

    def _rename(self, name: str, wanted: Mapping[str, int]) -> None:
        """Rename the partition of each table, which holds exactly the files of the manifest.

        All partitions are made ready first: then nothing but the renames comes between that of the first table and
        that of the last.
        """
        ready = self.unfinished(name).below("ready")
        there = self.unfinished(name).below(TABLES_AT).sizes()
        for table in _tables(wanted):
            left = [path for path in wanted if path.startswith(f"{table}/") and unfinished_path(path) in there]
            if left:
                ready.below(table).create_directory()
            for path in left:
                self.unfinished(name).below(TABLES_AT, table).move(_last(path), ready.below(table), _last(path))
        tables = [table for table in _tables(wanted) if table in ready.names()]
        for table in tables:
            self.there.below(table).create_directory()
            self.there.below(*partition(table, name).split("/")).remove()
        for table in tables:
            ready.move(table, self.there.below(table), f"{PREFIX}{name}")

    def _copy(self, name: str, wanted: Mapping[str, int]) -> None:
        """Have the object store copy the files that are not yet in place, and remove others."""
        tables = self.unfinished(name).below(TABLES_AT)
        there = self._in_place(name, wanted)
        for extra in there.keys() - wanted.keys():
            self.there.remove_file(extra)
        left = [path for path, size in wanted.items() if there.get(path) != size]
        with ThreadPoolExecutor(COPIES_AT_ONCE) as threads:
            for _ in threads.map(lambda path: tables.copy(unfinished_path(path), self.there, path), left):
                pass

    def _check(self, name: str, wanted: Mapping[str, int]) -> None:
        if wrong := self._wrong_file(name, wanted):
            raise ExportError(
                f"{self.there}/{wrong} is missing or has another size: make sure that nothing else writes to "
                f"{self.there}, remove {self.unfinished(name)}, and run the export again"
            )

    def _wrong_file(self, name: str, wanted: Mapping[str, int]) -> str:
        """A file in the partitions that is missing, has another size or is not wanted; empty if there is none."""
        there = self._in_place(name, wanted)
        return min((path for path in there.keys() | wanted.keys() if there.get(path) != wanted.get(path)), default="")

    def _in_place(self, name: str, wanted: Mapping[str, int]) -> dict[str, int]:
        return {path: size for table in _tables(wanted) for path, size in self._partition(table, name).items()}

    def _partition(self, table: str, name: str) -> dict[str, int]:
        inner = partition(table, name)
        return {f"{inner}/{path}": size for path, size in self.there.below(*inner.split("/")).sizes().items()}

    def _finish_removal(self, name: str) -> None:
        self.place(name).remove_file(MANIFEST)
        self.place(name).remove()
        tables = decode_removal(self.there.below(REMOVED).read(name))
        forget_in_delta(self.there, tables, name, self.snapshots(ignore_damaged))
        forget_in_iceberg(self.there, name)
        for table in tables:
            self._remove_partition(table, name)
        self.there.below(LEAVING).remove()
        self.there.below(REMOVED).remove_file(name)
        if not self.there.below(REMOVED).names():
            self.there.below(REMOVED).remove()

    def _remove_partition(self, table: str, name: str) -> None:
        inner = self.there.below(*partition(table, name).split("/"))
        if self.there.renames and inner.is_there():  # no reader sees a part of it
            leaving = self.there.below(LEAVING, table)
            leaving.remove()
            leaving.create_directory()
            self.there.below(table).move(f"{PREFIX}{name}", leaving, f"{PREFIX}{name}")
            leaving.remove()
        self.there.below(table, f".{PREFIX}{name}").remove()  # an earlier release's
        inner.remove()


def snapshot_directory(text: str) -> SnapshotDirectory:
    """The directory of snapshots at a path or URI. DestinationNotReadable."""
    here = local_path(text)
    return SnapshotDirectory(place_at(text) if here is None else here)


def snapshots_in(place: Destination, on_damaged: OnDamaged = refuse_damaged) -> list[Manifest]:
    """All complete snapshots in a directory, by their point in time.

    Raises SnapshotNotFound if the directory does not exist, DestinationNotReadable, and what `on_damaged` raises.
    """
    if not place.is_there():
        raise SnapshotNotFound(f"{place} is not a directory of snapshots: `mledger snapshot export` creates one")
    inner = [place.below(name) for name in place.names() if name.startswith(PREFIX)]
    found = [
        manifest for each in inner if each.holds(MANIFEST) and (manifest := _manifest_in(each, on_damaged)) is not None
    ]
    return sorted(found, key=lambda each: (each.time_ms, each.name))


def _manifest_in(place: Destination, on_damaged: OnDamaged) -> Manifest | None:
    """The manifest of a snapshot; None if it is damaged, or the snapshot was removed meanwhile."""
    try:
        manifest = read_manifest(place)
        if place.path.rpartition("/")[2] != f"{PREFIX}{manifest.name}":
            raise InvalidManifest(
                f"{place}/{MANIFEST} is of the snapshot {manifest.name}: give the directory its name back, or remove "
                "it if it is a copy"
            )
    except InvalidManifest as error:
        on_damaged(error)
        return None
    except DestinationNotReadable:
        if place.holds(MANIFEST):
            raise
        return None
    return manifest


def find_snapshot(text: str, on_damaged: OnDamaged = refuse_damaged) -> FoundSnapshot:
    """The snapshot at a path or URI, and the directory where the paths of its files begin.

    The path is that of the snapshot's manifest, or a directory of snapshots, of which the newest is taken
    that is not from the future. `on_damaged` is as for `snapshots_in`.

    Raises SnapshotNotFound, InvalidManifest, DestinationNotReadable.
    """
    place = place_at(text)
    if place.holds(MANIFEST):
        manifest = read_manifest(place)
        if manifest.format == INSIDE:
            return place, manifest
        if place.path.rpartition("/")[2] != f"{PREFIX}{manifest.name}":
            raise InvalidManifest(
                f"{place}/{MANIFEST} is of the snapshot {manifest.name}, whose tables are beside its directory "
                f"{PREFIX}{manifest.name}: move or copy all of the directory of snapshots"
            )
        return place.above(), manifest
    return plan_newest(find_snapshots(text, on_damaged), wall_clock_ms())


def find_snapshots(text: str, on_damaged: OnDamaged = refuse_damaged) -> list[FoundSnapshot]:
    """All snapshots at a path or URI, oldest first, each as `find_snapshot` returns it; errors as there."""
    place = place_at(text)
    if place.holds(MANIFEST):
        return [find_snapshot(text)]
    found = snapshots_in(place, on_damaged)
    if not found:
        raise SnapshotNotFound(f"{place} has no complete snapshot: `mledger snapshot export {place}` writes one")
    return [(place.below(f"{PREFIX}{each.name}") if each.format == INSIDE else place, each) for each in found]


def snapshot_place(root: Destination, manifest: Manifest) -> Destination:
    """The directory of a snapshot's manifest, from what `find_snapshot` returns."""
    return root if manifest.format == INSIDE else root.below(f"{PREFIX}{manifest.name}")


def read_manifest(place: Destination) -> Manifest:
    """The manifest of the snapshot in `place`; InvalidManifest, DestinationNotReadable."""
    return decode_manifest(place.read(MANIFEST), f"{place}/{MANIFEST}")


def unfinished_path(path: str) -> str:
    """Where a worker writes the file that will be at `path`."""
    return f"{path.partition('/')[0]}/{_last(path)}"


def _sizes(manifest: Manifest) -> dict[str, int]:
    return {file.path: file.bytes for table in manifest.tables.values() for file in table.files}


def _tables(paths: Mapping[str, int]) -> list[str]:
    return sorted({path.partition("/")[0] for path in paths})


def _last(path: str) -> str:
    return path.rpartition("/")[2]
