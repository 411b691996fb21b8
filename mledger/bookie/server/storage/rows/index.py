"""The index of entries: RocksDB without its own log, over the journal's files (bookie-storage.md).

A row locates one run of adds of a ledger in the journal. It is written when its record is synced, and every batch says
from which record on a restart must replay. Atomic flush keeps all column families at one such point.
"""

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from rocksdict import Rdict, RdictIter, WriteBatch, WriteOptions

from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.storage.directories.disk import says_full, says_unusable, though_full
from mledger.bookie.server.storage.rows.deleted_ledgers import DeletedLedgers
from mledger.bookie.server.storage.rows.index_damage import is_damaged, note_damage
from mledger.bookie.server.storage.rows.index_options import (
    FILES_SIZE,
    IndexConfig,
    files_of,
    plan_joining,
    rocksdb_options,
    whole_compaction,
)
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.bookie.server.storage.rows.row_keys import entry_key, ledger_key
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.rocksdb_iterators import at_row, scan, scan_until

log = get_logger(__name__)

ENTRIES, REPEATS, LEDGERS, BOOKIE = "entries", "repeats", "ledgers", "bookie"

_SEQUENCE = b"j"
_FILE = b"f"
_SIZE = b"e"
_KNOWN_FROM = b"b"  # before _SEQUENCE: `flush` looks for that at the end of files
_NUMBER = struct.Struct(">Q")
_ROW = struct.Struct(">QQIq")
_KEY_MAX = (1 << 63) - 1
_ERRORS = "rocksdb.background-errors"
"""Counted for the default family, whichever family an error concerns."""
_UNWRITTEN = "rocksdb.num-immutable-mem-table"
_FLUSHES = 3
_RECORDS_A_COMMIT = 10_000


class Row(Struct, frozen=True):
    """A run of adds in the journal: its ledger, its first and last entry, and the place of its frames."""

    ledger: int
    first: int
    last: int
    file: int
    offset: int
    length: int

    def value(self) -> bytes:
        """Encode as the value under the row's key."""
        return _ROW.pack(self.file, self.offset, self.length, self.last)


class Index:
    """The RocksDB of one bookie. All but `flush`, `compact` and `join_files` runs on the loop's thread."""

    def __init__(self, path: str, config: IndexConfig | None = None, *, make: bool = True) -> None:
        """Open the index at `path`; with `make`, create it if it does not exist."""
        config = config or IndexConfig()
        options, self._memtables = rocksdb_options(config), config.memtables
        options.create_if_missing(make)
        families = dict.fromkeys(("default", ENTRIES, REPEATS, LEDGERS, BOOKIE), options)
        try:
            self._db = Rdict(path, options, column_families=families)
        except Exception as error:
            if says_full(error) or says_unusable(error):
                raise
            raise InvalidBookieDirectory(f"{path}: RocksDB cannot open it: {error}; restore the directory") from error
        self._path, self.damaged = path, is_damaged(path)
        self._entries, self._in_entries = self._family(ENTRIES)
        self._repeats, self._in_repeats = self._family(REPEATS)
        self._ledgers, self._in_ledgers = self._family(LEDGERS)
        self._bookie, self._in_bookie = self._family(BOOKIE)
        self._options = WriteOptions()
        self._options.disable_wal = True
        self._batch = WriteBatch(raw_mode=True)
        self.sequence, self.file = self._position()
        self._deleted = DeletedLedgers(self._bookie, self._in_bookie)
        self.known_from = self._known_from()
        """The first ledger id of which no former directory of the bookie had anything; see `keep_known_from`."""
        self.live = self._numbers(_FILE)
        self.hidden_ledgers = self.hidden_bytes = 0
        """Ledgers deleted since the last compaction, and bytes that their rows named: these are hidden, not gone."""
        self._changed_files: set[int] = set()
        self._put_repeats: dict[bytes, Row] = {}
        self.unflushed_deletions = 0
        """Ledgers deleted since the last flush began."""
        self.compacted = False
        """Whether it may be compacted, by RocksDB itself too: that may take as much room as the index has."""
        self.make_room: Callable[[], None] | None = None
        """Called before everything is flushed."""

    def _family(self, name: str) -> tuple[Rdict, object]:
        return self._db.get_column_family(name), self._db.get_column_family_handle(name)

    # Writing: gathered into one batch, applied by `commit`.

    def put_run(self, row: Row) -> None:
        """Put a run of entries that are all above the ledger's highest one."""
        self._batch.put(entry_key(row.ledger, row.first), row.value(), self._in_entries)
        self._count(row.file, row.length)

    def put_repeat(self, row: Row) -> None:
        """Put one entry that is not above the ledger's highest one; it replaces an earlier one with the same id.

        If that one's row cannot be read, its bytes stay counted: its file is kept.
        """
        try:
            old = self.repeat(row.ledger, row.first)
        except Exception as error:  # RocksDB's have no class of their own
            log.error("row_unreadable", ledger=row.ledger, entry=row.first, error=error, hint="the index is damaged")
            old = None
        if old is not None:
            self._drop(old)
        key = entry_key(row.ledger, row.first)
        self._batch.put(key, row.value(), self._in_repeats)
        self._put_repeats[key] = row
        self._count(row.file, row.length)

    def move(self, old: Row, new: Row, *, repeated: bool) -> None:
        """Give a row its new place; `old` is the row that the index has."""
        if repeated:
            self.put_repeat(new)
            return
        self._drop(old)
        self.put_run(new)

    def _drop(self, row: Row) -> None:
        """Count a row's bytes as no longer live: its key is overwritten or deleted."""
        self._count(row.file, -row.length)

    def put_ledger(self, ledger: int, record: LedgerData) -> None:
        """Put a ledger's record."""
        self._batch.put(ledger_key(ledger), record.encode(), self._in_ledgers)

    def put_ledgers(self, records: Iterable[tuple[int, LedgerData]]) -> None:
        """Put and commit the records of any number of ledgers; they are durable after the next `flush`."""
        count = 0
        for count, (ledger, record) in enumerate(records, 1):
            self.put_ledger(ledger, record)
            if not count % _RECORDS_A_COMMIT:
                self.commit(self.sequence, self.file)
        if count and self.sequence:  # `flush` flushes all families if this one has something new
            self._batch.put(_SEQUENCE + _NUMBER.pack(self.sequence), _NUMBER.pack(self.file), self._in_bookie)
        self.commit(self.sequence, self.file)

    def keep_known_from(self, ledger: int) -> None:
        """Put that entries of ledgers below `ledger` may be lost; as `put_ledgers`."""
        self.known_from = max(ledger, self.known_from)
        self._batch.put(_KNOWN_FROM, _NUMBER.pack(self.known_from), self._in_bookie)
        self.commit(self.sequence, self.file)

    def delete_ledger(self, ledger: int, needed: Mapping[int, int], *, left: bool = False) -> None:
        """Delete a ledger and its entries. `needed` is its `needed_bytes`.

        It is remembered if it was fenced or lacked entries, or if others have it still (`left`).
        """
        record, families = self.ledger(ledger), self._families_of(ledger)
        if left or (record is not None and (record.fenced or record.lacking)):
            self._deleted.put(ledger, self._batch)
        self._delete_rows(ledger, needed, families)
        self._batch.delete(ledger_key(ledger), self._in_ledgers)

    def delete_entries(self, ledger: int, needed: Mapping[int, int]) -> None:
        """Delete a ledger's entries, all of which are committed. `needed` is its `needed_bytes`.

        Where it has no rows nothing is written: a deletion that hides nothing may stay in a file of its own for good.
        """
        self._delete_rows(ledger, needed, self._families_of(ledger))

    def _families_of(self, ledger: int) -> list[object]:
        """The families in which a ledger has rows."""
        rows = (self._in_entries, self.runs(ledger)), (self._in_repeats, self.repeats(ledger))
        return [family for family, found in rows if next(found, None) is not None]

    def _delete_rows(self, ledger: int, needed: Mapping[int, int], families: Sequence[object]) -> None:
        for file, size in needed.items():
            self._count(file, -size)
        self.unflushed_deletions += 1
        self.hidden_ledgers += 1
        self.hidden_bytes += sum(needed.values())
        start, end = ledger_key(ledger), ledger_key(ledger + 1)
        for family in families:
            self._batch.delete_range(start, end, family)

    def commit(self, sequence: int, file: int, size: int = 0) -> None:
        """Apply what was put. A restart replays from record `sequence` on, which is in journal file `file` or later.

        `size`: the bytes of that file, which are noted if it is another one than before.
        """
        if size and file != self.file:
            self.note_size(file, size)
        if (sequence, file) != (self.sequence, self.file):
            self._batch.put(_SEQUENCE + _NUMBER.pack(sequence), _NUMBER.pack(file), self._in_bookie)
            if self.sequence not in (0, sequence):
                self._batch.delete(_SEQUENCE + _NUMBER.pack(self.sequence), self._in_bookie)
        for number in self._changed_files:
            self._batch.put(_FILE + _NUMBER.pack(number), _NUMBER.pack(self.live[number]), self._in_bookie)
        self._changed_files.clear()
        self._put_repeats.clear()
        batch, self._batch = self._batch, WriteBatch(raw_mode=True)
        try:
            self._db.write(batch, self._options)
        except Exception as error:
            note_damage(self._path, error)
            raise
        self.sequence, self.file = sequence, file  # now only: `flush`, on another thread, wants this on disk

    def note_size(self, number: int, size: int) -> None:
        """Note how many bytes a journal file has. It never gets shorter, unless it was cut off."""
        self._batch.put(_SIZE + _NUMBER.pack(number), _NUMBER.pack(size), self._in_bookie)

    def forget_file(self, number: int) -> None:
        """Stop counting a file that was removed."""
        self.live.pop(number, None)
        self._changed_files.discard(number)
        for prefix in (_FILE, _SIZE):
            self._batch.delete(prefix + _NUMBER.pack(number), self._in_bookie)

    def recount(self) -> None:
        """Count again how many bytes of each journal file the rows name."""
        counted: dict[int, int] = {}
        for family in (self._entries, self._repeats):
            rows = scan(family)
            rows.seek_to_first()
            while at_row(rows):
                file, _, length, _ = _ROW.unpack(rows.value())
                counted[file] = counted.get(file, 0) + length
                rows.next()
        for file in {*self.live, *counted}:
            self._count(file, counted.get(file, 0) - self.live.get(file, 0))

    def _count(self, file: int, size: int) -> None:
        self.live[file] = self.live.get(file, 0) + size
        self._changed_files.add(file)

    # Reading.

    def ledger(self, ledger: int) -> LedgerData | None:
        """A ledger's record."""
        value = self._ledgers.get(ledger_key(ledger))
        return None if value is None else LedgerData.decode(value)

    def was_fenced(self, ledger: int) -> bool:
        """Whether the ledger was deleted, and owners may not begin it anew, as far as the index remembers."""
        return ledger in self._deleted

    def ledger_ids(self, first: int = 0, most: int = sys.maxsize) -> list[int]:
        """At most `most` ledger ids from `first` on, in ascending order. On any thread."""
        found: list[int] = []
        rows = scan(self._ledgers)
        rows.seek(ledger_key(first))
        while at_row(rows) and len(found) < most:
            found.append(_NUMBER.unpack(rows.key())[0])
            rows.next()
        return found

    def ledgers_in_limbo(self, first: int, most: int) -> list[int]:
        """At most `most` ids of ledgers in limbo, from `first` on, in ascending order. On any thread."""
        found: list[int] = []
        rows = scan(self._ledgers)
        rows.seek(ledger_key(first))
        while at_row(rows) and len(found) < most:
            if LedgerData.limbo_in(rows.value()):
                found.append(_NUMBER.unpack(rows.key())[0])
            rows.next()
        return found

    def needed_bytes(self, ledger: int) -> dict[int, int]:
        """Bytes that a ledger's rows name in each journal file; reads every row. On any thread."""
        sizes: dict[int, int] = {}
        prefix, end, unpack = ledger_key(ledger), ledger_key(ledger + 1), _ROW.unpack
        for family in (self._entries, self._repeats):
            rows, _kept = scan_until(end, family, once=True)
            rows.seek(prefix)
            while at_row(rows) and rows.key().startswith(prefix):
                file, _, length, _ = unpack(rows.value())
                sizes[file] = sizes.get(file, 0) + length
                rows.next()
        return sizes

    def run_at(self, ledger: int, entry: int) -> Row | None:
        """The run that holds `entry` if the ledger has it: the last run that begins at or before it."""
        rows = self._entries.iter()
        rows.seek_for_prev(entry_key(ledger, entry))
        return _row(rows, ledger) if at_row(rows) else None

    def last_run(self, ledger: int) -> Row | None:
        """The run with the ledger's highest entries."""
        return self.run_at(ledger, _KEY_MAX)

    def repeat(self, ledger: int, entry: int) -> Row | None:
        """The row of a repeated add, even if it waits for `commit`."""
        key = entry_key(ledger, entry)
        if key in self._put_repeats:
            return self._put_repeats[key]
        value = self._repeats.get(key)
        return None if value is None else _decode(ledger, entry, value)

    def found(self, ledger: int, first: int, *, repeated: bool) -> Row | None:
        """The row of a repeated add, or of the run that begins with `first`."""
        if repeated:
            return self.repeat(ledger, first)
        value = self._entries.get(entry_key(ledger, first))
        return None if value is None else _decode(ledger, first, value)

    def runs(self, ledger: int, first: int = 0) -> Iterator[Row]:
        """A ledger's runs in ascending order, from the one that begins at or above `first`."""
        return _rows(self._entries, ledger, first)

    def repeats(self, ledger: int, first: int = 0) -> Iterator[Row]:
        """A ledger's repeated adds in ascending order, from `first` on."""
        return _rows(self._repeats, ledger, first)

    # What is on disk.

    def flush(self) -> None:
        """Flush all column families: a compaction of the smallest one does it, without holding the interpreter.

        A compaction reports no error. It has flushed all if the position on disk is not an earlier one and RocksDB has
        counted no error, or else if no family has a memtable left: not every commit has a position of its own. OSError
        when not everything that was committed is on disk.
        """
        if self.make_room is not None:
            self.make_room()
        self.unflushed_deletions = 0
        wanted = self.sequence
        for _ in range(_FLUSHES):  # a memtable that others fill meanwhile looks like one that could not be written
            self._bookie.compact_range(None, None)
            failed = self._db.property_int_value(_ERRORS)
            if self._flushed_sequence() >= wanted and not (failed and self._has_unwritten()):
                return
            try:
                self._db.flush()  # the default family is empty: this writes nothing, but raises what stopped RocksDB
            except Exception as error:
                note_damage(self._path, error)
                raise OSError(f"the index cannot be written out: {error}") from error
        raise OSError(f"the index cannot be written out: RocksDB counts {failed} errors, its LOG names them")

    @property
    def crowded(self) -> bool:
        """Whether as many memtables wait to be written out as there may be: `commit` may wait until one has been.

        Every turn's commit writes to this family, and all families are flushed together.
        """
        return (self._bookie.property_int_value(_UNWRITTEN) or 0) >= self._memtables

    def _has_unwritten(self) -> bool:
        return any(family.property_int_value(_UNWRITTEN) for family in self.families())

    def _flushed_sequence(self) -> int:
        """The sequence that a restart would replay from if the process ended now."""
        ends = [file["end_key"] for file in self._db.live_files()]
        positions = [end for end in ends if len(end) == len(_SEQUENCE) + _NUMBER.size and end[:1] == _SEQUENCE]
        return max((_NUMBER.unpack_from(end, 1)[0] for end in positions), default=0)

    @property
    def size(self) -> int:
        """Bytes of the index's files."""
        return sum(family.property_int_value(FILES_SIZE) or 0 for family in self.families())

    def keep_compacted(self, wanted: bool) -> None:
        """Have RocksDB compact the index from now on, or not. It is not compacted before this has been called."""
        if wanted == self.compacted:
            return
        for family in self.families():
            with though_full():  # the option is in force; the next start reads no record of it
                family.set_options({"disable_auto_compactions": "false" if wanted else "true"})
        self.compacted = wanted

    def families(self) -> tuple[Rdict, ...]:
        """The column families that are used."""
        return self._entries, self._repeats, self._ledgers, self._bookie

    def compact(self) -> None:
        """Remove the rows of deleted ledgers for good. Writes all others again, however few are removed."""
        self.join_files((self._entries, self._repeats, self._ledgers))

    def scattered(self) -> list[Rdict]:
        """The families whose many small files are to be joined."""
        return [family for family in self.families() if plan_joining(*files_of(family))]

    def join_files(self, families: Iterable[Rdict]) -> None:
        """Write families again, in as few files as they fill. On any thread."""
        for family in families:
            family.compact_range(None, None, whole_compaction())

    def close(self) -> None:
        """Close; a restart replays from the journal what was not flushed. Nothing may be read or put afterwards."""
        self._batch = WriteBatch(raw_mode=True)
        self._deleted.close()
        for name in ("_in_entries", "_in_repeats", "_in_ledgers", "_in_bookie"):
            delattr(self, name)  # they keep the database open
        for family in (*self.families(), self._db):
            family.close()

    def _position(self) -> tuple[int, int]:
        rows = self._bookie.iter()
        rows.seek_for_prev(_SEQUENCE + b"\xff" * _NUMBER.size)
        if not at_row(rows) or rows.key()[:1] != _SEQUENCE:
            return 0, 0
        return _NUMBER.unpack_from(rows.key(), 1)[0], _NUMBER.unpack(rows.value())[0]

    def _known_from(self) -> int:
        value = self._bookie.get(_KNOWN_FROM)
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def file_sizes(self) -> dict[int, int]:
        """The bytes that journal files had when they began; former versions did not note them."""
        return self._numbers(_SIZE)

    def _numbers(self, prefix: bytes) -> dict[int, int]:
        found, rows = {}, self._bookie.iter()
        rows.seek(prefix)
        while at_row(rows) and (key := rows.key())[:1] == prefix:
            found[_NUMBER.unpack_from(key, 1)[0]] = _NUMBER.unpack(rows.value())[0]
            rows.next()
        return found


def _decode(ledger: int, first: int, value: bytes) -> Row:
    file, offset, length, last = _ROW.unpack(value)
    return Row(ledger, first, last, file, offset, length)


def _row(rows: RdictIter, ledger: int) -> Row | None:
    key = rows.key()
    if not key.startswith(ledger_key(ledger)):
        return None
    return _decode(ledger, _NUMBER.unpack_from(key, 8)[0], rows.value())


def _rows(family: Rdict, ledger: int, first: int) -> Iterator[Row]:
    rows, _kept = scan_until(ledger_key(ledger + 1), family)
    rows.seek(entry_key(ledger, first))
    while at_row(rows) and (row := _row(rows, ledger)) is not None:
        yield row
        rows.next()
