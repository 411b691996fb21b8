"""The exact counts of a cursor's entries (C8)."""

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog, count_between, count_from
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

# ledgers of 4 entries, none, 3, and 2 in the one being written
LEDGERS = LedgerList([LedgerInfo(10, 4), LedgerInfo(13), LedgerInfo(16, 3), LedgerInfo(19)], current=19, live_entries=2)


def acks_at(mark_delete: tuple[int, int], *deleted: tuple[int, int]) -> AckState:
    acks = AckState(Position(*mark_delete))
    acks.acknowledge([Position(*each) for each in deleted], LEDGERS)
    return acks


def test_backlog_counts_entries_not_places():
    assert backlog(LEDGERS, acks_at((10, 77))) == 5
    assert backlog(LEDGERS, acks_at((12, 5), (16, 0), (16, 2))) == 3
    assert backlog(LEDGERS, acks_at((19, 1))) == 0


def test_what_is_left_to_read_is_counted_from_the_read_position():
    acks = acks_at((10, 0), (16, 1))
    assert [count_from(LEDGERS, acks, Position(*at)) for at in [(10, 0), (10, 1), (16, 1), (19, 1), (19, 2)]] == [
        7,
        7,
        3,
        1,
        0,
    ]


def test_entries_between_positions_are_counted_across_ledgers():
    assert count_between(LEDGERS, Position(10, 1), Position(16, 0)) == 3
    assert count_between(LEDGERS, Position(10, 99), Position(13, 7)) == 0
    assert count_between(LEDGERS, Position(16, 0), Position(10, 1)) == 0
