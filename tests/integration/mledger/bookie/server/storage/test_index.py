"""What garbage collection asks the index: pages of ledgers, what a ledger needs, and whether a row still exists."""

import pytest

from mledger.bookie.server.storage.index import Index, Row
from mledger.bookie.server.storage.ledger_data import LedgerData

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
