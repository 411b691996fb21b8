"""A stand-in for rocksdict with RocksDB's promises: batches are atomic, and what was not flushed is gone after a crash.

The flushed state of a database belongs to its host's disk; what was written since belongs to the process. A flush keeps
all column families at one point, as atomic flush does.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from mledger.bookie.server.storage.rows.index import _ROW
from mledger.bookie.server.storage.rows.runs import parse_run
from mledger.bookie.wire import MalformedFrame
from tests.sim.system.disk import SimDisk, SimSystem

_KEY = struct.Struct(">QQ")


class SimFamily:
    """One column family."""

    def __init__(self, name: str, rows: dict[bytes, bytes]) -> None:
        self.name = name
        self.rows = rows
        self._order: list[bytes] | None = None
        self.shared = False
        """Whether an iterator may still look at `rows`."""
        self.database: Rdict

    @property
    def order(self) -> list[bytes]:
        """The keys, rising."""
        if self._order is None:
            self._order = sorted(self.rows)
        return self._order

    def change(self) -> dict[bytes, bytes]:
        """The rows, to change them; iterators keep what they have seen."""
        if self.shared:
            self.rows, self.shared = dict(self.rows), False
        self._order = None
        return self.rows

    # As rocksdict's column family

    def get(self, key: bytes) -> bytes | None:
        """As Rdict.get."""
        return self.rows.get(key)

    def iter(self, options: object = None) -> "SimIterator":
        """As Rdict.iter."""
        self.shared = True
        return SimIterator(self.rows, self.order)

    def compact_range(self, begin: object, end: object, options: object = None) -> None:
        """As Rdict.compact_range: flushes every family, as atomic flush does."""
        self.database.flush_all()

    def property_int_value(self, name: str) -> int:
        """There are no background errors, and files take no room."""
        return 0

    def property_value(self, name: str) -> str:
        """There are no files."""
        return "0"

    def set_options(self, options: Mapping[str, str]) -> None:
        """As Rdict.set_options: nothing is compacted here."""

    def close(self) -> None:
        """As Rdict.close."""


class SimIterator:
    """An iterator over one state of a family."""

    def __init__(self, rows: Mapping[bytes, bytes], order: list[bytes]) -> None:
        self._rows, self._order, self._at = rows, order, -1

    def seek(self, key: bytes) -> None:
        """To the first row at or behind `key`."""
        self._at = bisect_left(self._order, key)

    def seek_for_prev(self, key: bytes) -> None:
        """To the last row at or before `key`."""
        self._at = bisect_right(self._order, key) - 1

    def seek_to_first(self) -> None:
        """To the first row."""
        self._at = 0

    def valid(self) -> bool:
        """Whether it stands at a row."""
        return 0 <= self._at < len(self._order)

    def status(self) -> None:
        """There is no damage."""

    def key(self) -> bytes:
        """The row's key."""
        return self._order[self._at]

    def value(self) -> bytes:
        """The row's value."""
        return self._rows[self._order[self._at]]

    def next(self) -> None:
        """To the next row."""
        self._at += 1


class WriteBatch:
    """Changes that are applied together."""

    def __init__(self, raw_mode: bool = False) -> None:
        self.changes: list[tuple[SimFamily, bytes, bytes | None, bytes | None]] = []

    def put(self, key: bytes, value: bytes, family: SimFamily) -> None:
        """As rocksdict."""
        self.changes.append((family, key, value, None))

    def delete(self, key: bytes, family: SimFamily) -> None:
        """As rocksdict."""
        self.changes.append((family, key, None, None))

    def delete_range(self, start: bytes, end: bytes, family: SimFamily) -> None:
        """As rocksdict."""
        self.changes.append((family, start, None, end))


class Rdict:
    """A database of column families, below a path of a simulated host."""

    system: SimSystem

    def __init__(self, path: str, options: "SimOptions", column_families: Mapping[str, object]) -> None:
        self._disk: SimDisk = self.system._disk(path)
        self._path = path
        self._system = self.system
        if path not in self._disk.databases:
            if not options.create:
                raise Exception(f"{path}/CURRENT: does not exist")
            self._disk.tick()
            self._disk.databases[path] = {}
            self._system.makedirs(path)
            descriptor = self._system.open(f"{path}/CURRENT", self._system.O_CREAT | self._system.O_RDWR)
            self._system.fsync(descriptor)
            self._disk.sync_directory(path)
        flushed = self._disk.databases[path]
        self._families = {name: SimFamily(name, dict(flushed.get(name, {}))) for name in column_families}
        for family in self._families.values():
            family.database = self

    def get_column_family(self, name: str) -> SimFamily:
        """As rocksdict."""
        return self._families[name]

    def get_column_family_handle(self, name: str) -> SimFamily:
        """As rocksdict."""
        return self._families[name]

    def write(self, batch: WriteBatch, options: object) -> None:
        """Apply a batch, in memory."""
        disk = self._disk
        if disk.failing_batches:
            disk.failing_batches -= 1
            disk.went_bad = True
            raise Exception("IO error: writes are stopped: an earlier flush failed")
        for family, key, value, end in batch.changes:
            if end is not None:
                order = family.order
                gone = order[bisect_left(order, key) : bisect_left(order, end)]
                if gone:
                    rows = family.change()
                    for each in gone:
                        del rows[each]
            elif value is None:
                family.change().pop(key, None)
            else:
                family.change()[key] = value

    def flush(self) -> None:
        """As Rdict.flush: of the default family only, which has no rows."""

    def property_int_value(self, name: str) -> int:
        """There are no background errors."""
        return 0

    def flush_all(self) -> None:
        """Make everything durable."""
        disk = self._system._disk(self._path)
        disk.tick()
        disk.databases[self._path] = {name: dict(family.rows) for name, family in self._families.items()}

    def live_files(self) -> list[dict[str, Any]]:
        """The end keys of what was flushed: one file per family."""
        flushed = self._disk.databases[self._path]
        return [{"end_key": max(rows)} for rows in flushed.values() if rows] + [
            {"end_key": key} for key in sorted(flushed.get("bookie", {})) if key[:1] == b"j"
        ]

    def close(self) -> None:
        """What was not flushed is gone."""


def counted(index: Any) -> dict[int, int]:
    """The bytes of each journal file that an index's rows name."""
    found: dict[int, int] = {}
    for family in (index._entries, index._repeats):
        for value in family.rows.values():
            file, _, length, _ = _ROW.unpack(value)
            found[file] = found.get(file, 0) + length
    return found


def unreadable(index: Any, disk: SimDisk, journal: str) -> Iterator[str]:
    """The rows of an index that name no whole frames of their entries, in words."""
    for family in (index._entries, index._repeats):
        for key, value in family.rows.items():
            ledger, first = _KEY.unpack(key)
            number, offset, length, last = _ROW.unpack(value)
            file = disk.names.get(f"{journal}/{number:08d}.journal")
            try:
                entries = parse_run(b"" if file is None else file.read(offset, length)).entries
                whole = (int(entries[0]), int(entries[-1])) == (first, last)
            except (MalformedFrame, IndexError, ValueError):
                whole = False
            if not whole:
                yield f"entries {first} to {last} of ledger {ledger}, in file {number}"


def held(index: Any) -> set[tuple[int, int]]:
    """Ledger and number of every entry that an index has."""
    found: set[tuple[int, int]] = set()
    for key, value in index._entries.rows.items():
        ledger, first = _KEY.unpack(key)
        found.update((ledger, entry) for entry in range(first, _ROW.unpack(value)[3] + 1))
    found.update(_KEY.unpack(key) for key in (*index._repeats.rows, *index._put_repeats))
    return found


class SimOptions:
    """What the index asks of its options."""

    def __init__(self, *_: object, **__: object) -> None:
        self.create = True
        self.disable_wal = False

    def create_if_missing(self, value: bool) -> None:
        """As rocksdict."""
        self.create = value
