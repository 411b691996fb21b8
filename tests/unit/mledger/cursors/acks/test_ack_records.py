"""The records of a cursor's state: the smaller of two forms, never truncated (C3, C5)."""

import tracemalloc

import pytest

from mledger.config import CURSOR_ZNODE_LIMIT
from mledger.cursors.acks.ack_records import ranges_size, state_record, words_size, znode_record
from mledger.cursors.acks.ack_state import AckState
from mledger.errors import AckStateTooLarge
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.codec import decode_position_info, encode_managed_cursor_info, encode_position_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo


def holes(ledgers: LedgerList, every: int, ledger_count: int) -> AckState:
    """A state that has acknowledged one entry of `every` in the first `ledger_count` ledgers."""
    acks = AckState(ledgers.first_position)
    for ledger_id in ledgers.ids[:ledger_count]:
        entries = range(1, ledgers.entries(ledger_id), every)
        acks.acknowledge([Position(ledger_id, entry) for entry in entries], ledgers)
    return acks


DENSE = LedgerList([LedgerInfo(7 * index, 50_000) for index in range(1, 41)])
WIDE = LedgerList([LedgerInfo(7 * index, 5_000_000) for index in range(1, 21)])


def test_few_ranges_are_written_as_ranges():
    record = state_record(holes(DENSE, 20_000, 1), (("a", 5),))
    assert record.ranges == (
        PositionRange(Position(7, 0), Position(7, 1)),
        PositionRange(Position(7, 20_000), Position(7, 20_001)),
        PositionRange(Position(7, 40_000), Position(7, 40_001)),
    )
    assert (record.ledger_bits, record.properties) == ((), (("a", 5),))


def test_many_ranges_are_written_as_words_without_trailing_zeros():
    record = state_record(holes(DENSE, 2, 1))
    assert record.ranges == ()
    (bits,) = record.ledger_bits
    assert len(bits.words) == 782
    assert bits.words[-1] != 0


def test_exactly_one_form_is_written():
    acks = holes(DENSE, 40, 3)
    assert words_size(acks) < ranges_size(acks)
    record = state_record(acks)
    assert bool(record.ranges) != bool(record.ledger_bits)


def test_a_million_holes_fit_one_entry_and_are_read_back():
    acks = holes(DENSE, 2, 40)
    assert acks.range_count == 1_000_000
    data = encode_position_info(state_record(acks))
    assert len(data) < 400_000
    record = decode_position_info(data).value
    again, warnings = AckState.recover(record.position, DENSE, ranges=record.ranges, ledger_bits=record.ledger_bits)
    assert again == acks
    assert not warnings


def test_a_thousand_holes_over_a_hundred_million_entries_take_less_than_64_kib():
    acks = holes(WIDE, 100_000, 20)
    assert acks.range_count == 1000
    assert len(encode_position_info(state_record(acks))) < 64 * 1024


@pytest.mark.parametrize(("every", "form"), [(1_000_000, "ranges"), (100, "ledger_bits")])
def test_a_record_of_long_runs_is_made_without_listing_their_entries(every, form):
    acks, ledger_id = AckState(Position(7, -1)), WIDE.ids[0]
    for first in range(1, WIDE.entries(ledger_id), every):
        acks.acknowledge_run(ledger_id, first, first + every - 2, WIDE)
    state_record(holes(DENSE, 2, 1))  # loads what it needs
    tracemalloc.start()
    try:
        record = state_record(acks)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert getattr(record, form)
    assert most < 4 * acks.deleted_count


def test_a_state_that_fits_no_entry_is_an_error_and_never_truncated():
    acks = holes(WIDE, 100, 20)
    with pytest.raises(AckStateTooLarge, match=r"1,000,000 entries acknowledged above it takes .* bytes"):
        state_record(acks)
    assert acks.range_count == 1_000_000


def close(acks: AckState, **options):
    return znode_record(acks, (("a", 1),), (("b", "c"),), 77, **options)


def test_a_small_state_closes_into_the_znode():
    record = close(holes(DENSE, 20_000, 1))
    assert (record.cursors_ledger_id, record.mark_delete, len(record.ranges)) == (-1, Position(7, -1), 3)
    assert (record.properties, record.cursor_properties, record.last_active) == ((("a", 1),), (("b", "c"),), 77)


def test_more_ranges_than_allowed_stay_in_a_cursor_ledger():
    assert close(holes(DENSE, 50, 1)).ranges
    assert close(holes(DENSE, 49, 1)) is None
    assert close(holes(DENSE, 20_000, 1), max_ranges=2) is None


def test_batch_indexes_stay_in_a_cursor_ledger():
    acks = AckState(Position(7, -1))
    acks.acknowledge_batch(Position(7, 3), [1], DENSE)
    assert close(acks) is None


def test_a_large_record_stays_in_a_cursor_ledger():
    acks = AckState(Position(7, -1))
    properties = (("name", "x" * (CURSOR_ZNODE_LIMIT - 100)),)
    fits = znode_record(acks, (), properties, 0)
    assert len(encode_managed_cursor_info(fits)) < CURSOR_ZNODE_LIMIT
    assert znode_record(acks, (), (("name", "x" * CURSOR_ZNODE_LIMIT),), 0) is None
