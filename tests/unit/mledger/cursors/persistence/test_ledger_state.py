"""States read from a cursor ledger (R3).

Chunks and checkpoint markers are built by hand from the public source (CursorWal of Pulsar's managed-ledger, newer than
4.2), because no golden record has them.
"""

import pytest
from pyroaring import BitMap

from mledger.cursors.persistence.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerUnavailable,
    EntryLost,
    EntryOutcome,
    EntryUnavailable,
    StateFound,
    StateUnreadable,
    parse_entry,
    read_state,
)
from mledger.metastore.records.codec import encode_position_info
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import BatchDeletion, LedgerBits, PositionInfo, StateChunk

LEDGER = 70
OLDER = 65


def plain(entry: int, **fields) -> PositionInfo:
    return PositionInfo(Position(5, entry), **fields)


def chunks(state: PositionInfo, parts: int) -> list[PositionInfo]:
    """`state` in `parts` chunks and the chunk that commits them, as the newest Pulsar writes them."""
    data = encode_position_info(state)
    size = -(-len(data) // parts)
    split = [
        PositionInfo(state.position, chunk=StateChunk(index, parts, data[index * size : (index + 1) * size]))
        for index in range(parts)
    ]
    return [*split, PositionInfo(state.position, chunk=StateChunk(parts, parts))]


def data_entry(ledger_id: int, *entries: int, **fields) -> PositionInfo:
    bits = LedgerBits(ledger_id, bitmap=BitMap(entries).serialize())
    return plain(0, ledger_bits=(bits,), properties=(("entry-type", 1),), **fields)


def marker(entry: int, *named: tuple[int, int, int], properties: tuple = ()) -> PositionInfo:
    """A checkpoint marker naming (data ledger, cursor ledger, entry)."""
    bits = tuple(LedgerBits(data, words=(cursor, at)) for data, cursor, at in named)
    return plain(entry, ledger_bits=bits, properties=(*properties, ("entry-type", 2)))


def find(entries: list[PositionInfo | bytes | EntryOutcome], older: dict[int, PositionInfo] | None = None, **options):
    """The result for a cursor ledger of these entries, and the positions that were read, in order."""
    asked: list[Position] = []

    def outcome(at: Position) -> EntryOutcome:
        asked.append(at)
        content = entries[at.entry_id] if at.ledger_id == LEDGER else (older or {}).get(at.entry_id)
        if content is None:
            return EntryLost("no such entry")
        if isinstance(content, PositionInfo):
            content = encode_position_info(content)
        return parse_entry(content, at) if isinstance(content, bytes) else content

    reading = read_state(LEDGER, len(entries) - 1, **options)
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send([outcome(at) for at in wanted.positions])
    except StopIteration as stop:
        return stop.value, asked


def test_the_last_entry_is_the_state_and_nothing_else_is_read():
    found, asked = find([plain(1), plain(2), plain(3)])
    assert found == StateFound(plain(3), Position(LEDGER, 2))
    assert asked == [Position(LEDGER, 2)]


def test_an_empty_cursor_ledger_holds_no_state():
    assert find([]) == (CursorLedgerEmpty(LEDGER), [])


@pytest.mark.parametrize("last", [b"\x08\x05", EntryLost("no such entry")])
def test_the_last_state_before_an_invalid_entry_is_found(last):
    found, _ = find([*(plain(entry) for entry in range(26)), last])
    assert (found.state, found.at) == (plain(25), Position(LEDGER, 25))
    assert found.passed_over.at == Position(LEDGER, 26)
    assert found.describe() == "entry 25 of cursor ledger 70, an older state"


def test_a_ledger_without_a_valid_state_holds_none():
    found, _ = find([b"\x08\x05"] * 250)
    assert isinstance(found, StateUnreadable)
    assert found.at == Position(LEDGER, 249)


def test_an_older_state_that_cannot_be_read_now_is_not_skipped():
    found, _ = find([plain(1), EntryUnavailable("bookies away"), b"\x08\x05"])
    assert found == CursorLedgerUnavailable(LEDGER, "bookies away")


def test_the_tail_of_an_invalid_group_is_skipped_with_it():
    found, _ = find([plain(1), *chunks(STATE, 3)[:-1], b"\x08\x05"])
    assert (found.at, found.passed_over.at) == (Position(LEDGER, 0), Position(LEDGER, 4))


def test_an_entry_that_cannot_be_read_now_is_not_taken_for_lost():
    found, _ = find([plain(1), EntryUnavailable("bookies away")])
    assert found == CursorLedgerUnavailable(LEDGER, "bookies away")


def test_what_a_peek_could_not_prove_is_marked_unconfirmed():
    found, _ = find([plain(1)], unconfirmed=True)
    assert found.unconfirmed
    assert found.describe() == "entry 0 of cursor ledger 70, unconfirmed"


STATE = plain(9, ranges=tuple(PositionRange(Position(6, 3 * n), Position(6, 3 * n + 1)) for n in range(40)))


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_chunks_are_joined_by_the_chunk_that_commits_them(parts):
    found, asked = find([plain(1), *chunks(STATE, parts)])
    assert found == StateFound(STATE, Position(LEDGER, parts + 1))
    assert len(asked) == parts + 1


def test_uncommitted_chunks_are_skipped_back_to_the_last_state():
    found, _ = find([plain(1), plain(2), *chunks(STATE, 5)[:-1]])
    assert found.state == plain(2)
    assert found.at == Position(LEDGER, 1)
    assert found.warnings == ("5 uncommitted entries at the end of cursor ledger 70 skipped",)


def test_an_uncommitted_tail_of_any_length_is_skipped_back_to_a_committed_group():
    tail = chunks(STATE, 250)[:-1]
    found, _ = find([*chunks(STATE, 3), *tail])
    assert found.state == STATE
    assert found.at == Position(LEDGER, 3)


def test_a_state_before_an_uncommitted_tail_was_committed_and_is_confirmed():
    found, _ = find([plain(1), *chunks(STATE, 2)[:-1]], unconfirmed=True)
    assert not found.unconfirmed


def test_a_ledger_of_only_uncommitted_chunks_holds_no_state():
    found, _ = find(chunks(STATE, 4)[:-1])
    assert found == StateUnreadable(Position(LEDGER, 3), "no entry of the ledger commits a state")


def test_a_group_with_a_chunk_out_of_order_is_invalid():
    first, second, third, commit = chunks(STATE, 3)
    found, _ = find([first, third, second, commit])
    assert found == StateUnreadable(Position(LEDGER, 3), "entry 70:1 should be chunk 1 of 3 but is chunk 2 of 3")


def test_a_group_of_another_length_is_invalid():
    found, _ = find([plain(1), *chunks(STATE, 2)[:-1], PositionInfo(Position(5, 9), chunk=StateChunk(3, 3))])
    assert (found.at, found.passed_over.at) == (Position(LEDGER, 0), Position(LEDGER, 3))


def test_a_commit_of_more_chunks_than_entries_is_invalid():
    found, _ = find([plain(1), PositionInfo(Position(5, 9), chunk=StateChunk(3, 3))])
    assert found.passed_over == StateUnreadable(
        Position(LEDGER, 1), "it commits 3 chunks, but only 1 entries precede it"
    )


def test_a_chunk_that_cannot_be_read_now_is_not_taken_for_lost():
    first, _, commit = chunks(STATE, 2)
    found, _ = find([first, EntryUnavailable("time-out"), commit])
    assert found == CursorLedgerUnavailable(LEDGER, "time-out")


def test_a_checkpoint_marker_is_merged_from_the_entries_that_it_names():
    batch = BatchDeletion(Position(6, 8), (3,))
    entries = [
        data_entry(6, 1, 2, batch_deletions=(batch,)),
        data_entry(7, 0),
        marker(4, (6, LEDGER, 0), (7, LEDGER, 1)),
    ]
    found, _ = find(entries)
    assert found.at == Position(LEDGER, 2)
    assert found.state.position == Position(5, 4)
    assert [(bits.ledger_id, sorted(BitMap.deserialize(bits.bitmap))) for bits in found.state.ledger_bits] == [
        (6, [1, 2]),
        (7, [0]),
    ]
    assert found.state.batch_deletions == (batch,)


def test_a_marker_s_entries_may_be_in_older_cursor_ledgers_and_chunked():
    old = dict(enumerate(chunks(data_entry(6, *range(0, 900, 7)), 3)))
    found, _ = find([data_entry(7, 0), marker(4, (6, OLDER, 3), (7, LEDGER, 0))], old)
    assert [len(BitMap.deserialize(bits.bitmap)) for bits in found.state.ledger_bits] == [129, 1]


def test_a_chunked_marker_is_merged_too():
    named = [(6 + n, LEDGER, 0) for n in range(40)]
    found, _ = find([data_entry(6, 5), *chunks(marker(4, *named), 3)])
    assert len(found.state.ledger_bits) == 40


def test_a_marker_keeps_the_cursor_s_properties_but_not_its_own_mark():
    found, _ = find([marker(4, properties=(("epoch", 12),))])
    assert found.state.properties == (("epoch", 12),)


def test_data_entries_without_a_marker_after_them_are_an_uncommitted_tail():
    found, _ = find([data_entry(6, 1), marker(4, (6, LEDGER, 0)), data_entry(6, 1, 2), data_entry(7, 0)])
    assert found.at == Position(LEDGER, 1)
    assert [sorted(BitMap.deserialize(bits.bitmap)) for bits in found.state.ledger_bits] == [[1]]


def test_a_data_entry_in_chunks_without_a_marker_after_it_is_no_state():
    uncommitted = chunks(data_entry(6, *range(0, 900, 7)), 3)
    found, _ = find([data_entry(6, 1), marker(4, (6, LEDGER, 0)), *uncommitted])
    assert (found.at, found.state.position) == (Position(LEDGER, 1), Position(5, 4))
    assert found.warnings == (f"4 uncommitted entries at the end of cursor ledger {LEDGER} skipped",)
    assert found.passed_over is None


def test_a_marker_s_pointers_are_never_taken_for_deleted_entries():
    found, _ = find([marker(4, (6, OLDER, 3))])
    assert found.state.ledger_bits == ()


def test_an_entry_lost_under_a_marker_leaves_out_its_deletions_with_a_warning():
    found, _ = find([data_entry(7, 0), marker(4, (6, OLDER, 3), (7, LEDGER, 0))])
    assert [bits.ledger_id for bits in found.state.ledger_bits] == [7]
    assert found.warnings == ("entry 65:3, which the checkpoint marker names, is lost (no such entry): omitted",)


def test_an_entry_under_a_marker_that_cannot_be_read_now_is_not_taken_for_lost():
    found, _ = find([EntryUnavailable("bookies away"), marker(4, (6, LEDGER, 0))])
    assert found == CursorLedgerUnavailable(LEDGER, "bookies away")


def test_a_marker_that_names_an_uncommitted_chunk_leaves_it_out():
    found, _ = find([*chunks(STATE, 2), marker(4, (6, LEDGER, 0))])
    assert found.state.ledger_bits == ()
    assert "uncommitted chunk" in found.warnings[0]


def test_a_marker_with_half_a_pointer_leaves_that_part_out():
    broken = plain(4, ledger_bits=(LedgerBits(6, words=(LEDGER,)),), properties=(("entry-type", 2),))
    found, _ = find([broken])
    assert found.state.ledger_bits == ()
    assert len(found.warnings) == 1
