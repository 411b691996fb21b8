"""Positions over the ledgers of a topic: the next valid one (R8), n entries on (C6), resets and searches (C7)."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.positions import (
    EARLIEST,
    LATEST,
    ResetPlan,
    end,
    find_newest,
    next_valid,
    plan_reset,
    position_after_n,
    position_after_n_undeleted,
    position_after_skip,
    previous,
)
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

# ledgers of 4 entries, none, 3, and 2 in the one being written
LEDGERS = LedgerList([LedgerInfo(10, 4), LedgerInfo(13), LedgerInfo(16, 3), LedgerInfo(19)], current=19, live_entries=2)
EMPTY_END = LedgerList([LedgerInfo(10, 4), LedgerInfo(13)], current=13)


def test_next_valid_moves_over_the_end_of_a_ledger_and_empty_ones():
    assert next_valid(LEDGERS, Position(10, 3)) == Position(16, 0)
    assert next_valid(LEDGERS, Position(16, -1)) == Position(16, 0)
    assert next_valid(LEDGERS, Position(14, 7)) == Position(16, 0)


def test_next_valid_after_an_id_below_minus_one_is_the_ledgers_first_entry():
    for entry_id in (-2, -(2**63)):
        assert next_valid(LEDGERS, Position(16, entry_id)) == Position(16, 0)
        assert plan_reset(LEDGERS, Position(16, entry_id)) == ResetPlan(Position(10, 3), Position(16, 0))


def test_next_valid_at_the_end_is_where_the_next_entry_will_be():
    assert next_valid(LEDGERS, Position(19, 1)) == end(LEDGERS) == Position(19, 2)
    assert next_valid(EMPTY_END, Position(10, 3)) == end(EMPTY_END) == Position(13, 0)


def test_the_end_of_a_topic_without_a_writer_is_after_its_last_entry():
    closed = LedgerList([LedgerInfo(10, 4)])
    assert next_valid(closed, Position(10, 3)) == Position(10, 4)
    assert end(LedgerList([], terminated=Position(8, -1))) == Position(8, 0)


def test_previous_moves_over_empty_ledgers():
    assert previous(LEDGERS, Position(16, 0)) == Position(10, 3)
    assert previous(LEDGERS, Position(16, 2)) == Position(16, 1)
    assert previous(LEDGERS, Position(10, 0)) == Position(10, -1)


def test_position_after_n_counts_over_ledgers_and_ends_at_the_last_entry():
    start = Position(10, -1)
    found = [position_after_n(LEDGERS, start, n, start_included=False) for n in (0, 1, 4, 5, 9, 10, 1000)]
    assert [str(position) for position in found] == ["10:-1", "10:0", "10:3", "16:0", "19:1", "19:1", "19:1"]


def test_position_after_n_of_a_topic_without_entries_is_its_end():
    assert position_after_n(LedgerList([LedgerInfo(5)], current=5), Position(5, -1), 3, start_included=False) == (5, -1)


def acks_at(mark_delete: tuple[int, int], *deleted: tuple[int, int]) -> AckState:
    acks = AckState(Position(*mark_delete))
    acks.acknowledge([Position(*each) for each in deleted], LEDGERS)
    return acks


def test_skip_counts_deleted_entries_or_not():
    acks = acks_at((10, -1), (10, 1), (10, 2), (16, 1))
    counted = [str(position_after_skip(LEDGERS, acks, n, count_deleted=True)) for n in (1, 3, 6, 50)]
    assert counted == ["10:0", "10:2", "16:1", "19:1"]
    undeleted = [str(position_after_skip(LEDGERS, acks, n, count_deleted=False)) for n in (1, 2, 3, 4, 5, 50)]
    assert undeleted == ["10:0", "10:3", "16:0", "16:2", "19:0", "19:1"]


def test_skipping_zero_entries_does_not_move():
    assert position_after_n_undeleted(LEDGERS, acks_at((10, 1)), 0) == Position(10, 1)


def test_reset_to_earliest_latest_an_entry_and_nowhere():
    assert plan_reset(LEDGERS, EARLIEST) == ResetPlan(Position(10, -1), Position(10, 0))
    assert plan_reset(LEDGERS, LATEST) == ResetPlan(Position(19, 1), Position(19, 2))
    assert plan_reset(LEDGERS, Position(16, 0)) == ResetPlan(Position(10, 3), Position(16, 0))
    assert plan_reset(LEDGERS, Position(10, 99)) == ResetPlan(Position(10, 3), Position(16, 0))
    assert plan_reset(LEDGERS, Position(40, 0)) == ResetPlan(Position(19, 1), Position(19, 2))


def test_a_forced_reset_takes_the_position_as_it_is():
    assert plan_reset(LEDGERS, Position(10, 99), force=True) == ResetPlan(Position(10, 98), Position(10, 99))


def test_latest_of_a_topic_whose_last_ledger_is_empty():
    assert plan_reset(EMPTY_END, LATEST) == ResetPlan(Position(10, 3), Position(13, 0))


def search(
    ledgers: LedgerList, lower: Position, upper: Position | None, newest: Position
) -> tuple[Position | None, int]:
    steps, asked = find_newest(ledgers, lower, upper), 0
    try:
        position = next(steps)
        while True:
            asked += 1
            position = steps.send(position <= newest)
    except StopIteration as stop:
        return stop.value, asked


@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=5), data=st.data())
def test_the_search_finds_the_newest_match_within_its_bounds_with_few_reads(counts, data):
    infos = [LedgerInfo(3 * index, count) for index, count in enumerate(counts)]
    ledgers = LedgerList(infos)
    every = [Position(ledger, entry) for ledger in ledgers for entry in range(ledgers.entries(ledger))]
    places = [Position(-1, -1), *every, Position(99, 0)]
    lower, upper, newest = (data.draw(st.sampled_from(places)) for _ in range(3))
    found, asked = search(ledgers, lower, upper, newest)
    matching = [at for at in every if lower < at <= upper and at <= newest]
    assert found == (matching[-1] if matching else None)
    assert asked <= 2 + len(every).bit_length()
