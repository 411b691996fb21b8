"""Which entries an append accepts."""

import array
from collections import deque

import pytest

from mledger.bookie.client.plans.entry_sizes import checked_batch, checked_size
from mledger.bookie.errors import EntryTooLarge


def test_the_size_is_that_of_all_payloads():
    assert checked_size([b"", b"12", b"345"], 3, "", "max_frame") == 5


def test_an_entry_over_the_limit_is_refused_with_what_to_do():
    with pytest.raises(EntryTooLarge) as refused:
        checked_size([b"12", b"3456"], 3, "ledger 7: ", "max_frame here and on the bookies")
    assert str(refused.value) == (
        "ledger 7: an entry of 4 bytes passes the limit of 3: split it, or raise max_frame here and on the bookies"
    )


@pytest.mark.parametrize("entry", ["text", None, 7, memoryview(array.array("i", [1, 2]))])
def test_what_is_not_bytes_is_refused(entry):
    with pytest.raises(TypeError, match=f"an entry is bytes, not {type(entry).__name__}"):
        checked_batch([b"0", entry], 100)


@pytest.mark.parametrize("batch", [[], (), deque()])
def test_a_batch_of_no_entries_is_refused(batch):
    with pytest.raises(ValueError, match="an empty batch"):
        checked_batch(batch, 100)


def test_what_has_bytes_is_accepted():
    assert checked_batch([b"0", bytearray(b"1"), memoryview(b"2")], 100) == (b"0", b"1", b"2")


def test_a_batch_stays_as_it_was_given():
    entry = bytearray(b"1")
    entries = deque([b"0", entry])
    batch = checked_batch(entries, 100)
    entries.clear()
    entry[:] = b"2"
    assert batch == (b"0", b"1")
