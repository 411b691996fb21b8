"""What a record of the journal says of its changes: read back as written, and how each is entered into the index."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.server.storage.journal import JournalPosition
from mledger.bookie.server.storage.records.journal_changes import (
    ChangeKind,
    JournalChange,
    decode_changes,
    encode_changes,
    enter,
)
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

RECORD = LedgerData(b"k" * 20, fenced=True)


@pytest.fixture
def index(tmp_path):
    """An empty index."""
    index = Index(str(tmp_path / "store"))
    yield index
    index.close()


def commit(index, *changes, payload):
    """Enter the changes of one record, and commit."""
    enter(index, changes, payload)
    index.commit(index.sequence + 1, payload.file)


ids = st.integers(0, (1 << 63) - 1)
rows = st.tuples(st.sampled_from([ChangeKind.RUN, ChangeKind.REPEAT]), ids, ids, ids, st.binary(max_size=40))


@given(st.lists(rows, max_size=8), st.booleans(), st.booleans())
def test_changes_are_read_back_as_written(found, moved, fenced):
    changes, chunks, at = [], [], 0
    for kind, ledger, first, last, chunk in found:
        changes.append(
            JournalChange(kind, ledger, first, last, at, len(chunk), source=JournalPosition(3, at) if moved else None)
        )
        chunks.append(chunk)
        at += len(chunk)
    if fenced and not moved:
        value = RECORD.encode()
        changes.append(JournalChange(ChangeKind.LEDGER, 7, 0, 0, at, len(value), RECORD))
        chunks.append(value)
    payload = b"".join((*chunks, encode_changes(changes, moved=moved)))
    assert decode_changes(payload, moved=moved) == changes


@pytest.mark.parametrize("payload", [b"", b"abc", b"\0\0\0\1", b"x" * 33 + b"\0\0\0\1", b"too much" + bytes(4)])
def test_a_payload_with_bytes_after_its_changes_is_refused(payload):
    with pytest.raises(ValueError, match=r"\d"):
        decode_changes(payload, moved=False)


def test_a_moved_row_is_entered_if_the_index_has_exactly_that_row(index):
    commit(index, JournalChange(ChangeKind.RUN, 1, 0, 9, 0, 100), payload=JournalPosition(1, 16))
    commit(
        index,
        JournalChange(ChangeKind.RUN, 1, 0, 9, 8, 100, source=JournalPosition(1, 16)),
        payload=JournalPosition(2, 4112),
    )
    assert list(index.runs(1)) == [Row(1, 0, 9, 2, 4120, 100)]
    assert index.live == {1: 0, 2: 100}


@pytest.mark.parametrize(
    "moved",
    [
        JournalChange(ChangeKind.RUN, 1, 0, 4, 0, 50, source=JournalPosition(1, 16)),
        JournalChange(ChangeKind.RUN, 1, 0, 9, 0, 100, source=JournalPosition(1, 4112)),
        JournalChange(ChangeKind.RUN, 1, 1, 9, 0, 90, source=JournalPosition(1, 26)),
        JournalChange(ChangeKind.REPEAT, 1, 0, 0, 0, 10, source=JournalPosition(1, 16)),
        JournalChange(ChangeKind.RUN, 2, 0, 9, 0, 100, source=JournalPosition(1, 16)),
    ],
)
def test_a_moved_row_that_differs_from_the_index_changes_nothing(index, moved):
    commit(index, JournalChange(ChangeKind.RUN, 1, 0, 9, 0, 100), payload=JournalPosition(1, 16))
    commit(index, moved, payload=JournalPosition(2, 4112))
    assert list(index.runs(1)) == [Row(1, 0, 9, 1, 16, 100)]
    assert index.live == {1: 100}


def test_a_repeat_replaces_the_place_and_the_bytes_of_the_one_before_even_within_one_record(index):
    first, second = JournalChange(ChangeKind.REPEAT, 1, 5, 5, 0, 70), JournalChange(ChangeKind.REPEAT, 1, 5, 5, 70, 80)
    commit(index, first, second, payload=JournalPosition(1, 16))
    commit(index, JournalChange(ChangeKind.REPEAT, 1, 5, 5, 0, 90), payload=JournalPosition(2, 16))
    assert list(index.repeats(1)) == [Row(1, 5, 5, 2, 16, 90)]
    assert index.live == {1: 0, 2: 90}
