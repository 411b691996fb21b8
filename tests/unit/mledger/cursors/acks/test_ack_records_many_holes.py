"""Every form of a state with many holes preserves each hole: ranges, words and records (C1, C5)."""

import gc

from hypothesis import given
from hypothesis import strategies as st

from mledger.cursors.acks.ack_records import encoded_state, state_record
from mledger.cursors.acks.ack_state import AckState
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.codec import decode_position_info, encode_position_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, PositionInfo
from mledger.metastore.runtime.processes.gc_pause import collector_paused

ENTRIES = 300
LEDGERS = (3, 4, 9)
LIST = LedgerList([LedgerInfo(ledger_id, ENTRIES, 1, 1) for ledger_id in LEDGERS])

entry_ids = st.integers(0, ENTRIES - 1)
stretches = st.tuples(st.sampled_from(LEDGERS), entry_ids, st.integers(1, 40), st.integers(1, 3))


def positions_of(found):
    return {
        Position(ledger_id, entry)
        for ledger_id, first, count, step in found
        for entry in range(first, min(first + count * step, ENTRIES), step)
    } - {Position(LEDGERS[0], 0)}


def ranges_one_by_one(positions):
    ranges = []
    for ledger_id, entry in sorted(positions):
        if ranges and ranges[-1][1] == (ledger_id, entry - 1):
            ranges[-1] = (ranges[-1][0], (ledger_id, entry))
        else:
            ranges.append(((ledger_id, entry - 1), (ledger_id, entry)))
    return ranges


@given(st.lists(stretches, max_size=12), st.sets(entry_ids, max_size=3))
def test_the_bytes_of_a_state_are_those_of_its_record(found, batches):
    state, properties = AckState(Position(LEDGERS[0], -1)), (("a", 5), ("b", -1))
    state.acknowledge(positions_of(found), LIST)
    for entry in batches:
        state.acknowledge_batch(Position(LEDGERS[-1], entry), [0b10], LIST)
    assert encoded_state(state, properties) == encode_position_info(state_record(state, properties))


@given(st.lists(stretches, max_size=12))
def test_every_form_of_a_state_has_the_same_holes(found):
    positions = positions_of(found)
    state = AckState(Position(LEDGERS[0], -1))
    state.acknowledge(positions, LIST)
    ranges = state.ranges()
    assert ranges == ranges_one_by_one(positions)
    assert all(type(each) is PositionRange and type(each.lower) is type(each.upper) is Position for each in ranges)
    assert state.range_count == len(ranges)
    assert state.ranges(2) == ranges[:2]
    as_ranges = PositionInfo(state.mark_delete, ranges=tuple(ranges))
    as_words = PositionInfo(state.mark_delete, ledger_bits=state.ledger_bits())
    for record in (as_ranges, as_words, state_record(state)):
        read = decode_position_info(encode_position_info(record)).value
        assert read == record
        recovered, warnings = AckState.recover(
            read.position, LIST, ranges=read.ranges, ledger_bits=read.ledger_bits, batch_deletions=read.batch_deletions
        )
        assert (recovered, warnings) == (state, ())
        entries = [Position(ledger_id, entry) for ledger_id in LEDGERS for entry in range(ENTRIES)]
        assert {entry for entry in entries if state.is_deleted(entry)} == positions


def test_a_hundred_thousand_holes_are_read_back_and_the_collector_runs_on():
    count = 100_000
    ledgers = LedgerList([LedgerInfo(5, 2 * count, 1, 1)])
    state = AckState(Position(5, -1))
    state.acknowledge((Position(5, 2 * number + 1) for number in range(count)), ledgers)
    ranges = state.ranges()
    assert (len(ranges), ranges[0], ranges[-1]) == (
        count,
        ((5, 0), (5, 1)),
        ((5, 2 * count - 2), (5, 2 * count - 1)),
    )
    read = decode_position_info(encode_position_info(PositionInfo(state.mark_delete, ranges=tuple(ranges)))).value
    assert AckState.recover(read.position, ledgers, ranges=read.ranges) == (state, ())
    assert gc.isenabled()


def test_a_program_that_runs_without_the_collector_keeps_it_off():
    gc.disable()
    try:
        with collector_paused(1_000_000):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
