"""Which adds a ledger takes, and how the adds of a run are divided into spans: each repeated entry alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.ledgers import (
    LARGEST_RUN,
    LedgerDescriptor,
    Ledgers,
    check_add,
    check_master_key,
    plan_spans,
)
from mledger.bookie.server.storage.rows.ledger_data import NOT_BEGUN, LedgerData

KEY = b"k" * 20


def run_of(numbers, size=0):
    """A run of adds to ledger 1."""
    frames = [wire.encode_add(KEY, wire.ENTRY_HEAD.pack(1, number, -1, 0) + bytes(size)) for number in numbers]
    data = bytearray(b"".join(frames))
    (run,) = request_frames.scan(data, 0, len(data)).requests
    return run


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30), st.integers(-1, 30))
def test_spans_keep_the_order_and_separate_new_entries_from_repeated_ones(numbers, highest):
    spans = list(plan_spans(highest, run_of(numbers)))
    assert [at for span in spans for at in range(span.first, span.last)] == list(range(len(numbers)))
    for span in spans:
        entries = numbers[span.first : span.last]
        before = max([highest, *numbers[: span.first]])
        assert span.repeated == (entries[0] <= before)
        assert not span.repeated or len(entries) == 1
        assert entries == sorted(set(entries))


@given(st.integers(1, 60), st.integers(0, 60_000))
def test_a_span_of_new_entries_is_no_larger_than_a_run_may_be(count, size):
    run = run_of(range(count), size)
    for span in plan_spans(-1, run):
        length = run.starts[span.last] - run.starts[span.first]
        assert length <= LARGEST_RUN or span.last == span.first + 1


def test_a_ledger_without_a_master_key_takes_the_first_one():
    state = LedgerDescriptor(1, LedgerData.without_key(fenced=False, limbo=True), -1, False)
    assert (check_add(state, run_of([0])), check_master_key(state, b"x" * 20)) == (Code.OK, Code.OK)
    state.record = state.keyed(KEY)
    assert state.record == LedgerData(KEY, limbo=True, lacking=True)
    assert (check_add(state, run_of([0])), check_master_key(state, b"x" * 20)) == (Code.OK, Code.UNAUTHORIZED)


def test_a_fenced_ledger_without_a_master_key_takes_recovery_adds_only():
    state = LedgerDescriptor(1, LedgerData.without_key(fenced=True, limbo=True), -1, False)
    assert check_add(state, run_of([0])) == Code.FENCED
    assert check_add(state, replace(run_of([0]), flags=int(wire.Flag.RECOVERY_ADD))) == Code.OK


@pytest.mark.parametrize(
    "record", [None, LedgerData(KEY, lacking=True), LedgerData.without_key(fenced=False, limbo=True)]
)
def test_what_a_ledger_lacks_ends_where_its_owner_begins_to_write_here(record):
    """Entries that were replicated here before tell nothing of that."""
    state = LedgerDescriptor(1, record, -1, False, may_lack=True)
    state.record = state.keyed(KEY, replace(run_of([3, 4]), flags=int(wire.Flag.RECOVERY_ADD)))
    assert state.record.lacking
    assert state.record.whole_from == NOT_BEGUN
    for entries in ([7, 8], [9]):
        state.record = state.keyed(KEY, run_of(entries))
        assert (state.record.lacking, state.record.whole_from) == (True, 7)


class CountedCommit:
    """A turn that counts how often it is asked whether it is synced."""

    def __init__(self) -> None:
        self.asked, self.done = 0, False

    @property
    def synced(self) -> bool:
        self.asked += 1
        return self.done


class EmptyIndex:
    """An index without ledgers."""

    known_from = 0

    def ledger(self, _: int) -> None:
        """There is none."""

    def was_fenced(self, _: int) -> bool:
        return False


def test_ledgers_that_wait_for_a_turn_are_not_looked_at_for_each_further_one():
    ledgers, commit = Ledgers(EmptyIndex(), 64), CountedCommit()
    for ledger in range(64 + 256):
        ledgers.get(ledger).commit = commit
    assert commit.asked <= 2 * 256


def test_the_memory_of_many_ledgers_is_given_back_once_their_turn_is_synced():
    ledgers, commit = Ledgers(EmptyIndex(), 64), CountedCommit()
    for ledger in range(1024):
        ledgers.get(ledger).commit = commit
    commit.done = True
    for ledger in range(1024, 1024 + 512):
        ledgers.get(ledger)
    assert len(ledgers._states) <= 64
