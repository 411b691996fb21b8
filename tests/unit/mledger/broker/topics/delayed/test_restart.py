"""Where a dispatcher begins that has buckets: what is not acknowledged in their ledgers."""

from mledger.broker.dispatch.waiting.delayed_bucket import StoredBucket
from mledger.broker.topics.delayed.restart import end_of, unacknowledged
from mledger.cursors.acks.ack_state import AckState
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo

LEDGERS = LedgerList((LedgerInfo(3, 4, 40), LedgerInfo(5, 4, 40), LedgerInfo(8, 4, 40)))


def test_reading_goes_on_behind_the_last_ledger_of_a_bucket_that_exists():
    assert end_of(LEDGERS, [StoredBucket(1, 3, ()), StoredBucket(4, 6, ())]) == Position(5, 3)
    assert end_of(LEDGERS, [StoredBucket(1, 2, ())]) is None
    assert end_of(LEDGERS, []) is None


def test_entries_up_to_there_that_are_not_acknowledged_are_found():
    acks = AckState(Position(3, 1))
    acks.acknowledge([Position(5, 0), Position(5, 2), Position(8, 0)], LEDGERS)
    assert list(unacknowledged(LEDGERS, acks, Position(5, 3))) == [(3, 2), (3, 3), (5, 1), (5, 3)]
