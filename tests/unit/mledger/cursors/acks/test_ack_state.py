"""Acknowledgements by example: mark-delete moves over what is deleted (C2); states are read back by ledger (R7)."""

import tracemalloc

import pytest
from pyroaring import BitMap

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.acks.entry_bits import EntryRun
from mledger.cursors.backlog import backlog
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import BatchDeletion, LedgerBits, LedgerInfo


def ledgers(*counts: int, first: int = 10, step: int = 3) -> LedgerList:
    """Ledgers 10, 13, 16, … with these numbers of entries; the last one is open."""
    infos = [LedgerInfo(first + step * index, count) for index, count in enumerate(counts[:-1])]
    current = first + step * (len(counts) - 1)
    return LedgerList([*infos, LedgerInfo(current)], current=current, live_entries=counts[-1])


def at(*pairs: tuple[int, int]) -> list[Position]:
    return [Position(*pair) for pair in pairs]


THREE = ledgers(5, 5, 3)  # 10, 13, 16


def test_an_entry_out_of_order_leaves_mark_delete_and_makes_a_hole_before_it():
    acks = AckState(Position(10, -1))
    assert acks.acknowledge(at((10, 2)), THREE) == 1
    assert acks.mark_delete == Position(10, -1)
    assert acks.describe_ranges() == "[(10:1..10:2]]"
    assert backlog(THREE, acks) == 12


def test_filling_the_hole_moves_mark_delete_over_it():
    acks = AckState(Position(10, -1))
    acks.acknowledge(at((10, 1), (10, 2), (10, 4)), THREE)
    acks.acknowledge(at((10, 0)), THREE)
    assert acks.mark_delete == Position(10, 2)
    assert acks.describe_ranges() == "[(10:3..10:4]]"


def test_mark_delete_moves_across_the_end_of_a_ledger():
    acks = AckState(Position(10, 3))
    acks.acknowledge(at((13, 0), (13, 1), (10, 4)), THREE)
    assert acks.mark_delete == Position(13, 1)
    assert acks.ranges() == []


def test_mark_delete_stays_at_the_last_entry_of_a_consumed_ledger():
    acks = AckState(Position(10, 3))
    acks.acknowledge(at((10, 4), (13, 1)), THREE)
    assert acks.mark_delete == Position(10, 4)


def test_mark_delete_moves_across_empty_ledgers():
    spread = ledgers(2, 0, 0, 4)
    acks = AckState(Position(10, 0))
    acks.acknowledge(at((19, 0), (19, 1)), spread)
    acks.acknowledge(at((10, 1)), spread)
    assert acks.mark_delete == Position(19, 1)


def test_mark_delete_in_a_deleted_ledger_moves_into_the_next_one():
    acks = AckState(Position(9, 7))
    acks.acknowledge(at((10, 0)), THREE)
    assert acks.mark_delete == Position(10, 0)


def test_acknowledging_twice_changes_nothing():
    acks = AckState(Position(10, 1))
    assert acks.acknowledge(at((10, 3), (10, 1), (10, 0)), THREE) == 1
    assert acks.acknowledge(at((10, 3)), THREE) == 0
    assert acks.deleted_count == 1


def test_a_position_past_the_last_entry_is_refused_and_changes_nothing():
    acks = AckState(Position(10, -1))
    with pytest.raises(InvalidPosition, match="16:3 is past the last confirmed entry 16:2"):
        acks.acknowledge(at((10, 0), (16, 3)), THREE)
    assert acks.mark_delete == Position(10, -1)


@pytest.mark.parametrize("nowhere", [(11, 0), (10, 7), (10, -1), (12, -1)])
def test_a_position_without_an_entry_changes_nothing(nowhere):
    acks = AckState(Position(10, 1))
    assert acks.acknowledge(at(nowhere), THREE) == 0
    assert acks == AckState(Position(10, 1))


def test_cumulative_acknowledgement_drops_what_it_passes_and_continues_over_adjacent_ranges():
    acks = AckState(Position(10, -1))
    acks.acknowledge(at((10, 2), (13, 1), (13, 2), (16, 1)), THREE)
    assert acks.acknowledge_cumulative(Position(13, 0), THREE)
    assert acks.mark_delete == Position(13, 2)
    assert acks.describe_ranges() == "[(16:0..16:1]]"


def test_cumulative_acknowledgement_moves_neither_back_nor_past_the_end():
    acks = AckState(Position(13, 1))
    with pytest.raises(InvalidPosition, match="below mark-delete 13:1"):
        acks.acknowledge_cumulative(Position(13, 0), THREE)
    with pytest.raises(InvalidPosition, match="past the last confirmed entry 16:2"):
        acks.acknowledge_cumulative(Position(16, 3), THREE)
    assert not acks.acknowledge_cumulative(Position(13, 1), THREE)


def test_cumulative_acknowledgement_through_what_is_no_position_is_refused_and_changes_nothing():
    acks = AckState(Position(10, 0))
    acks.acknowledge(at((10, 2)), THREE)
    before = acks.copy()
    with pytest.raises(InvalidPosition, match="13:-2 is no position"):
        acks.acknowledge_cumulative(Position(13, -2), THREE)
    assert acks == before


def test_cumulative_acknowledgement_of_a_batch_before_the_first_entry_passes_the_ledgers_before():
    acks = AckState(Position(10, -1))
    assert acks.acknowledge_cumulative(Position(13, -1), THREE, [0b10])
    assert acks.mark_delete == Position(13, -1)


def test_the_place_before_the_next_ledger_is_past_the_last_entry_until_mark_delete_moved_there():
    full = ledgers(5, 0)
    acks = AckState(Position(10, 4))
    with pytest.raises(InvalidPosition):
        acks.acknowledge_cumulative(Position(13, -1), full)
    acks.move_mark_delete(Position(13, -1))
    assert not acks.acknowledge_cumulative(Position(13, -1), full)


def test_a_run_of_entries_is_clipped_to_the_ledger():
    acks = AckState(Position(10, 1))
    assert acks.acknowledge_run(13, 0, 40, THREE) == 5
    assert acks.describe_ranges() == "[(13:-1..13:4]]"


def test_batch_indexes_are_combined_by_and_until_none_is_left():
    acks = AckState(Position(10, -1))
    assert acks.acknowledge_batch(Position(10, 1), [0b1110], THREE)
    assert not acks.acknowledge_batch(Position(10, 1), [0b1111], THREE)
    assert acks.acknowledge_batch(Position(10, 1), [0b0111], THREE)
    assert acks.batch_words(Position(10, 1)) == (0b0110,)
    assert not acks.is_deleted(Position(10, 1))
    assert acks.acknowledge_batch(Position(10, 1), [0b1001], THREE)
    assert acks.batch_words(Position(10, 1)) is None
    assert acks.is_deleted(Position(10, 1))


def test_an_empty_ack_set_deletes_the_entry():
    acks = AckState(Position(10, -1))
    assert acks.acknowledge_batch(Position(10, 0), [], THREE)
    assert acks.mark_delete == Position(10, 0)


def test_a_batch_is_dropped_with_its_entry():
    acks = AckState(Position(10, -1))
    for entry in (1, 2, 3):
        acks.acknowledge_batch(Position(10, entry), [1], THREE)
    acks.acknowledge(at((10, 2)), THREE)
    acks.acknowledge_cumulative(Position(10, 1), THREE)
    assert acks.batch_deletions() == (BatchDeletion(Position(10, 3), (1,)),)
    assert acks.mark_delete == Position(10, 2)


def test_cumulative_acknowledgement_of_a_batch_index_stops_before_that_entry():
    acks = AckState(Position(10, -1))
    assert acks.acknowledge_cumulative(Position(10, 3), THREE, [0b1100])
    assert acks.mark_delete == Position(10, 2)
    assert acks.batch_words(Position(10, 3)) == (0b1100,)
    assert not acks.acknowledge_cumulative(Position(10, 3), THREE, [0b1100])


def test_cumulative_acknowledgement_of_a_batch_index_of_a_deleted_entry_continues_over_it():
    acks = AckState(Position(10, -1))
    acks.acknowledge(at((10, 3), (10, 4)), THREE)
    assert acks.acknowledge_cumulative(Position(10, 3), THREE, (0b10,))
    assert acks.mark_delete == Position(10, 4)


def test_cumulative_acknowledgement_of_the_first_entry_s_batch_index_stays_before_the_ledger():
    acks = AckState(Position(10, 4))
    assert acks.acknowledge_cumulative(Position(13, 0), THREE, [0b10])
    assert acks.mark_delete == Position(13, -1)
    assert backlog(THREE, acks) == 8


def test_reset_drops_every_acknowledgement_above():
    acks = AckState(Position(13, 0))
    acks.acknowledge(at((13, 3)), THREE)
    acks.acknowledge_batch(Position(13, 4), [1], THREE)
    acks.reset(Position(10, 1))
    assert acks == AckState(Position(10, 1))


def test_reset_to_a_batch_index_keeps_earlier_indexes_deleted():
    acks = AckState(Position(13, 0))
    acks.reset(Position(10, 1), BatchDeletion(Position(10, 2), (0b1000, 0)))
    assert acks.batch_words(Position(10, 2)) == (0b1000,)


def test_live_runs_leave_out_deleted_entries():
    acks = AckState(Position(13, 0))
    acks.acknowledge(at((13, 2), (13, 3)), THREE)
    assert acks.live_runs(13, 0, 4) == [EntryRun(1, 1), EntryRun(4, 4)]
    assert acks.live_runs(13, 2, 3) == []
    assert acks.live_runs(10, 0, 4) == []
    assert acks.live_runs(16, 1, 2) == [EntryRun(1, 2)]


def test_a_copy_is_independent():
    acks = AckState(Position(10, -1))
    acks.acknowledge(at((10, 2)), THREE)
    acks.acknowledge_batch(Position(10, 4), [1], THREE)
    copy = acks.copy()
    acks.acknowledge(at((10, 3), (10, 4)), THREE)
    assert copy.describe_ranges() == "[(10:1..10:2]]"
    assert copy.has_batches


def test_only_the_first_of_many_ranges_are_shown():
    acks = AckState(Position(10, -1))
    acks.acknowledge(at((10, 1), (10, 3), (13, 1), (16, 1)), THREE)
    assert acks.describe_ranges(limit=2) == "[(10:0..10:1],(10:2..10:3],… 2 more]"
    assert acks.describe_ranges(limit=4).count("]") == 5


def recover(mark_delete, **record):
    return AckState.recover(Position(*mark_delete), THREE, **record)


def span(lower: tuple[int, int], upper: tuple[int, int]) -> PositionRange:
    return PositionRange(Position(*lower), Position(*upper))


def test_a_range_across_ledgers_is_split_by_ledger():
    acks, warnings = recover((10, 1), ranges=[span((10, 3), (16, 1))])
    assert acks.describe_ranges() == "[(10:3..10:4],(13:-1..13:4],(16:-1..16:1]]"
    assert warnings == ()


def test_ranges_over_missing_ledgers_are_dropped_with_a_warning():
    acks, warnings = recover((10, 1), ranges=[span((16, 0), (99, 3)), span((7, 1), (7, 3)), span((11, 0), (13, 0))])
    assert acks.describe_ranges() == "[(13:-1..13:0],(16:0..16:2]]"
    assert warnings == (
        "range (16:0..99:3] covers missing ledger 99: that part dropped",
        "range (11:0..13:0] covers missing ledger 11: that part dropped",
    )


def test_many_ranges_over_one_missing_ledger_give_one_warning():
    acks, warnings = recover((10, 1), ranges=[span((99, at), (99, at + 1)) for at in range(0, 3000, 2)])
    assert acks.describe_ranges() == "[]"
    assert warnings == ("range (99:0..99:1] covers missing ledger 99: that part dropped (1,499 more like it)",)


def test_ranges_past_the_end_of_a_ledger_are_dropped_with_a_warning():
    acks, warnings = recover((10, 1), ranges=[span((13, 2), (13, 40))])
    assert acks.describe_ranges() == "[(13:2..13:4]]"
    assert warnings == ("range (13:2..13:40] extends past the end of ledger 13: that part dropped",)


@pytest.mark.parametrize("wrong", [((13, 3), (13, 1)), ((16, 0), (13, 1)), ((13, -5), (13, 1)), ((13, -1), (13, -7))])
def test_an_invalid_range_is_reported_and_skipped(wrong):
    acks, warnings = recover((10, 1), ranges=[span(*wrong), span((13, 3), (13, 4))])
    assert acks.describe_ranges() == "[(13:3..13:4]]"
    assert warnings == (f"range {span(*wrong)} is invalid: skipped",)


def test_words_with_trailing_zeros_and_bits_below_mark_delete_are_read():
    bits = [LedgerBits(16, (0b110, 0, 0)), LedgerBits(13, (0b11111,)), LedgerBits(7, (1,))]
    acks, warnings = recover((13, 1), ledger_bits=bits)
    assert acks.describe_ranges() == "[(13:1..13:4],(16:0..16:2]]"
    assert acks.mark_delete == Position(13, 1)
    assert warnings == ()


def test_the_highest_bit_of_a_word_is_a_negative_number():
    long = ledgers(200, 1)
    acks, _ = AckState.recover(Position(10, -1), long, ledger_bits=[LedgerBits(10, (-(2**63), 1))])
    assert acks.describe_ranges() == "[(10:62..10:64]]"
    assert acks.ledger_bits() == (LedgerBits(10, (-(2**63), 1)),)


def test_a_roaring_bitmap_is_read():
    acks, warnings = recover((10, 1), ledger_bits=[LedgerBits(13, bitmap=BitMap([0, 3]).serialize())])
    assert acks.describe_ranges() == "[(13:-1..13:0],(13:2..13:3]]"
    assert warnings == ()


def test_an_invalid_bitmap_is_reported_and_skipped():
    acks, warnings = recover((10, 1), ledger_bits=[LedgerBits(13, bitmap=b"no bitmap"), LedgerBits(16, (1,))])
    assert acks.describe_ranges() == "[(16:-1..16:0]]"
    assert len(warnings) == 1
    assert warnings[0].startswith("bitmap of ledger 13 is invalid")


def test_bits_of_missing_ledgers_and_past_the_end_are_dropped_with_a_warning():
    acks, warnings = recover((10, 1), ledger_bits=[LedgerBits(11, (1,)), LedgerBits(16, (0b1100,))])
    assert acks.describe_ranges() == "[(16:1..16:2]]"
    assert warnings == (
        "deleted entries of missing ledger 11: dropped",
        "deleted entries past the end of ledger 16: dropped",
    )


def test_batches_are_read_back_unless_their_entry_is_deleted_or_missing():
    batches = [
        BatchDeletion(Position(10, 1), (1,)),
        BatchDeletion(Position(13, 4), (1,)),
        BatchDeletion(Position(13, 2), (0b101, 0)),
        BatchDeletion(Position(13, 1), (0, 0)),
        BatchDeletion(Position(14, 0), (1,)),
    ]
    acks, warnings = recover((10, 1), ranges=[span((13, 3), (13, 4))], batch_deletions=batches)
    assert acks.batch_deletions() == (BatchDeletion(Position(13, 2), (0b101,)),)
    assert acks.is_deleted(Position(13, 1))
    assert warnings == ("batch indexes of 14:0, which is not an entry: dropped",)


def test_a_range_that_touches_mark_delete_stays_a_range_until_the_next_acknowledgement():
    acks, _ = recover((10, 1), ranges=[span((10, 1), (10, 2))])
    assert (acks.mark_delete, acks.describe_ranges()) == (Position(10, 1), "[(10:1..10:2]]")
    acks.acknowledge(at((10, 4)), THREE)
    assert (acks.mark_delete, acks.describe_ranges()) == (Position(10, 2), "[(10:3..10:4]]")


def test_batches_that_are_acknowledged_whole_are_forgotten_though_mark_delete_stays():
    count = 20_000
    large, acks = LedgerList([LedgerInfo(10, count)]), AckState(Position(10, -1))
    for entry in range(1, count):
        acks.acknowledge_batch(Position(10, entry), [0b10], large)
        acks.acknowledge([Position(10, entry)], large)
    tracemalloc.start()
    try:
        again = acks.copy()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert again == acks
    assert held < count
