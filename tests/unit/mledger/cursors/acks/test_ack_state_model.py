"""AckState against a simple model, a set of positions, through random calls on random topics (C1, C2)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mledger.cursors.acks.ack_records import state_record
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog, count_from
from mledger.cursors.positions import next_valid, position_after_n_undeleted
from mledger.errors import AckStateTooLarge
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.codec import encode_position_info
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import LedgerInfo

entry_counts = st.lists(st.integers(0, 140), min_size=1, max_size=5)
steps = st.integers(1, 1000)


def build(counts: list[int], step: int) -> LedgerList:
    infos = [LedgerInfo(7 + step * index, count) for index, count in enumerate(counts)]
    infos[-1] = LedgerInfo(infos[-1].ledger_id)
    return LedgerList(infos, current=infos[-1].ledger_id, live_entries=counts[-1])


def entries_of(ledgers: LedgerList) -> list[Position]:
    return [Position(ledger, entry) for ledger in ledgers for entry in range(ledgers.entries(ledger))]


class AckStateMachine(RuleBasedStateMachine):
    """Random acknowledgements; `deleted` holds every acknowledged entry, `left` the batch indexes still open."""

    @initialize(counts=entry_counts, step=steps)
    def start(self, counts: list[int], step: int) -> None:
        self.ledgers = build(counts, step)
        self.entries = entries_of(self.ledgers)
        self.acks = AckState(self.ledgers.first_position)
        self.deleted: set[Position] = set()
        self.left: dict[Position, int] = {}
        self.low = self.ledgers.first_position

    def model_mark_delete(self, after: Position) -> Position:
        reached = after
        for position in self.entries:
            if position > after:
                if position not in self.deleted:
                    break
                reached = position
        return reached

    def delete(self, positions: list[Position]) -> None:
        self.deleted |= {position for position in positions if position > self.low}
        self.low = self.model_mark_delete(self.low)
        self.forget()

    def forget(self) -> None:
        self.left = {at: bits for at, bits in self.left.items() if at > self.low and at not in self.deleted}

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        positions = data.draw(st.lists(st.sampled_from(self.entries), max_size=20))
        new = {position for position in positions if position > self.low} - self.deleted
        assert self.acks.acknowledge(positions, self.ledgers) == len(new)
        self.delete(positions)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def acknowledge_run(self, data: st.DataObject) -> None:
        first, last = sorted(data.draw(st.tuples(st.sampled_from(self.entries), st.sampled_from(self.entries))))
        run = [at for at in self.entries if at.ledger_id == first.ledger_id and first <= at <= last]
        self.acks.acknowledge_run(first.ledger_id, first.entry_id, run[-1].entry_id, self.ledgers)
        self.delete(run)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def acknowledge_all_but_some(self, data: st.DataObject) -> None:
        kept = data.draw(st.sets(st.sampled_from(self.entries), max_size=4))
        positions = [at for at in self.entries if at not in kept]
        self.acks.acknowledge(reversed(positions), self.ledgers)
        self.delete(positions)

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), bits=st.integers(0, 2**70 - 1))
    def acknowledge_batch(self, data: st.DataObject, bits: int) -> None:
        at = data.draw(st.sampled_from(self.entries))
        words = [_signed(bits & (2**64 - 1)), bits >> 64]
        if at in self.deleted or at <= self.low:
            assert not self.acks.acknowledge_batch(at, words, self.ledgers)
            return
        self.acks.acknowledge_batch(at, words, self.ledgers)
        left = self.left.get(at, bits) & bits
        if left:
            self.left[at] = left
        else:
            self.delete([at])

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def acknowledge_cumulative(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.entries))
        if position < self.low:
            return
        self.acks.acknowledge_cumulative(position, self.ledgers)
        self.low = position
        self.delete([])

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        self.low = data.draw(st.sampled_from([self.ledgers.first_position, *self.entries]))
        self.acks.reset(self.low)
        self.deleted = set()
        self.left = {}

    @rule()
    def write_and_read_back(self) -> None:
        record = state_record(self.acks)
        again, warnings = AckState.recover(
            record.position,
            self.ledgers,
            ranges=record.ranges,
            ledger_bits=record.ledger_bits,
            batch_deletions=record.batch_deletions,
        )
        assert not warnings
        assert again == self.acks
        self.acks = again

    @rule()
    def copy(self) -> None:
        self.acks = self.acks.copy()

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "acks"):
            return
        above = [at for at in self.entries if at > self.low]
        live = [at for at in above if at not in self.deleted]
        assert self.acks.mark_delete == self.low
        assert backlog(self.ledgers, self.acks) == len(live)
        assert self.acks.deleted_count == len(above) - len(live)
        assert {batch.position: _bits(batch.words) for batch in self.acks.batch_deletions()} == self.left

    @invariant()
    def walks_agree(self) -> None:
        if not hasattr(self, "acks") or not self.entries:
            return
        live = [at for at in self.entries if at > self.low and at not in self.deleted]
        for n in (1, 2, len(live) // 2 + 1, len(live)):
            if 1 <= n <= len(live):
                assert position_after_n_undeleted(self.ledgers, self.acks, n) == live[n - 1]
        middle = self.entries[len(self.entries) // 2]
        assert count_from(self.ledgers, self.acks, middle) == sum(at >= middle for at in live)
        runs = [
            Position(ledger, entry)
            for ledger in self.ledgers
            for first, last in self.acks.live_runs(ledger, 0, self.ledgers.entries(ledger) - 1)
            for entry in range(first, last + 1)
        ]
        assert runs == live

    @invariant()
    def ranges_agree(self) -> None:
        if not hasattr(self, "acks"):
            return
        ranges = self.acks.ranges()
        assert ranges == sorted(ranges)
        assert len(ranges) == self.acks.range_count
        spread = [
            Position(lower.ledger_id, entry)
            for lower, upper in ranges
            for entry in range(lower.entry_id + 1, upper.entry_id + 1)
        ]
        assert spread == sorted(at for at in self.deleted if at > self.low)
        ends = [upper for _, upper in ranges]
        starts = [lower for lower, _ in ranges]
        assert not set(ends) & set(starts), "two ranges of a ledger touch"


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


def _bits(words: tuple[int, ...]) -> int:
    return sum((word & (2**64 - 1)) << (64 * index) for index, word in enumerate(words))


AckStateMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCursor = AckStateMachine.TestCase


@settings(deadline=None, max_examples=60)
@given(counts=entry_counts, step=st.integers(1, 2**40), data=st.data())
def test_the_size_of_a_record_is_known_before_it_is_built(counts, step, data):
    ledgers = build(counts, step)
    acks = AckState(ledgers.first_position)
    every = entries_of(ledgers)
    acks.acknowledge(data.draw(st.lists(st.sampled_from(every), max_size=100)) if every else [], ledgers)
    properties = data.draw(st.lists(st.tuples(st.text(max_size=200), st.integers(-(2**63), 2**63 - 1)), max_size=3))
    for position in every[:3]:
        acks.acknowledge_batch(position, [data.draw(st.integers(-(2**63), 2**63 - 1)), 1], ledgers)
    size = len(encode_position_info(state_record(acks, tuple(properties))))
    assert len(encode_position_info(state_record(acks, tuple(properties), limit=size))) == size
    with pytest.raises(AckStateTooLarge, match="an entry holds"):
        state_record(acks, tuple(properties), limit=size - 1)


@given(counts=entry_counts, data=st.data())
def test_next_valid_positions_visit_every_entry_in_order(counts, data):
    ledgers = build(counts, 3)
    entries = entries_of(ledgers)
    position = Position(ledgers.first_position.ledger_id, NO_ENTRY)
    for entry in entries:
        position = next_valid(ledgers, position)
        assert position == entry
    end = next_valid(ledgers, position)
    assert end == Position(ledgers.current, ledgers.entries(ledgers.current))
    assert next_valid(ledgers, end) == end
