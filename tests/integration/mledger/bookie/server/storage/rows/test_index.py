"""What garbage collection asks the index: pages of ledgers, what a ledger needs, and whether a row still exists.

And what compactions may take of the disk and of the loop's time.
"""

import os

import pytest

from mledger.bookie.server.storage.rows import index as index_module
from mledger.bookie.server.storage.rows import index_options
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

RECORD = LedgerData(b"k" * 20)


@pytest.fixture
def index(tmp_path):
    """An empty index."""
    opened = Index(str(tmp_path / "store"))
    yield opened
    opened.close()


def put(index, *rows, repeats=()):
    for row in rows:
        index.put_run(row)
    for row in repeats:
        index.put_repeat(row)
    index.commit(index.sequence + 1, 1)


def test_ledgers_are_listed_in_pages(index):
    for ledger in (0, 3, 5, 1 << 40, (1 << 63) - 1):
        index.put_ledger(ledger, RECORD)
    index.commit(1, 1)
    assert index.ledger_ids(0, 2) == [0, 3]
    assert index.ledger_ids(4, 2) == [5, 1 << 40]
    assert index.ledger_ids((1 << 40) + 1, 2) == [(1 << 63) - 1]
    assert index.ledger_ids(6) == [1 << 40, (1 << 63) - 1]


def test_a_ledger_s_needs_are_counted_by_file_and_deleting_it_frees_just_those(index):
    put(index, Row(1, 0, 9, 1, 0, 100), Row(1, 10, 19, 2, 0, 50), Row(2, 0, 9, 2, 50, 7))
    put(index, repeats=[Row(1, 3, 3, 2, 100, 5)])
    assert index.needed_bytes(1) == {1: 100, 2: 55}
    index.delete_ledger(1, index.needed_bytes(1))
    index.commit(index.sequence + 1, 1)
    assert (index.live, index.needed_bytes(1)) == ({1: 0, 2: 7}, {})


def test_a_row_is_found_by_its_first_entry_only(index):
    row, again = Row(1, 0, 9, 1, 0, 100), Row(1, 3, 3, 1, 100, 5)
    put(index, row, repeats=[again])
    assert [index.found(1, entry, repeated=False) for entry in (0, 3)] == [row, None]
    assert [index.found(1, entry, repeated=True) for entry in (0, 3)] == [None, again]


def test_a_search_for_a_ledger_s_rows_ends_with_the_ledger(index, monkeypatch):
    """Behind it, every deleted ledger up to the next row would have to be passed: again for each that is looked for."""
    put(index, Row(1, 0, 9, 1, 0, 100), Row(9, 0, 9, 1, 0, 100), repeats=[Row(9, 3, 3, 1, 100, 5)])
    index.delete_ledger(1, index.needed_bytes(1))
    index.commit(index.sequence + 1, 1)
    found = []

    def at_row(rows):
        found.append(rows.valid())
        return found[-1]

    monkeypatch.setattr(index_module, "at_row", at_row)
    assert [list(index.runs(1)), list(index.repeats(1)), index.needed_bytes(1)] == [[], [], {}]
    assert found == [False] * 4


def put_large(index, times):
    """Write the records of the same ledgers again and again, each time to a file of its own."""
    for _ in range(times):
        for ledger in range(100):
            index.put_ledger(ledger, LedgerData(b"k" * 20, explicit_lac=os.urandom(8_000)))
        index.commit(index.sequence + 1, 1)
        index.flush()


def test_the_files_of_an_index_are_small_so_that_a_compaction_takes_little_room(tmp_path, monkeypatch):
    monkeypatch.setattr(index_options, "LARGEST_COMPACTION", 1 << 20)
    index = Index(str(tmp_path / "store"))
    put_large(index, 2)
    index.compact()
    sizes = [file["size"] for file in index._db.live_files() if file["level"]]
    index.close()
    assert sum(sizes) > 800_000 > 8 * max(sizes)


def test_no_write_waits_for_a_compaction_however_many_files_wait_for_it(index):
    put_large(index, 40)
    index._ledgers.set_options({"disable_auto_compactions": "false"})
    assert index._ledgers.property_int_value("rocksdb.is-write-stopped") == 0


def delete_one_by_one(index, ledgers, *, repeats):
    """Write ledgers and delete each, with a flush between; RocksDB compacts as it likes."""
    index.keep_compacted(True)
    for ledger in range(ledgers):
        put(index, Row(ledger, 0, 9, 1, 0, 100), repeats=[Row(ledger, 3, 3, 1, 100, 5)] if repeats else [])
        index.flush()
        index.delete_ledger(ledger, index.needed_bytes(ledger))
        index.commit(index.sequence + 1, 1)
        index.flush()


def files_of(family):
    return sum(int(family.property_value(f"rocksdb.num-files-at-level{level}")) for level in range(7))


def test_a_deleted_ledger_leaves_no_file_in_a_family_where_it_had_no_rows(index):
    delete_one_by_one(index, 12, repeats=False)
    assert files_of(index._repeats) == 0


def test_a_compaction_takes_the_files_of_which_nothing_is_left(index):
    delete_one_by_one(index, 12, repeats=True)
    index.compact()
    assert [files_of(family) for family in (index._entries, index._repeats)] == [0, 0]


def test_the_many_small_files_of_a_family_are_joined_and_keep_their_rows(index, monkeypatch):
    monkeypatch.setattr(index_options, "MANY_FILES", 5)
    rows = [Row(ledger, 0, 9, 1, 0, 100) for ledger in range(5)]
    for row in rows:
        put(index, row)
        index.flush()
    scattered = index.scattered()
    index.join_files(scattered)
    assert scattered == [index._entries]
    assert (files_of(index._entries), index.scattered()) == (1, [])
    assert [index.last_run(row.ledger) for row in rows] == rows


def test_a_flush_that_leaves_committed_rows_in_memory_is_an_error(index, monkeypatch):
    """RocksDB's compaction, which flushes, reports no error of its own."""
    put(index, Row(1, 0, 9, 1, 0, 100))
    monkeypatch.setattr(Index, "_flushed_sequence", lambda self: self.sequence - 1)
    with pytest.raises(OSError, match="the index cannot be written out"):
        index.flush()
