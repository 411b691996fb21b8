"""A topic's list of ledgers as its owner changes it: R10."""

from types import SimpleNamespace

from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.topics.topic_ledgers import ListListener, TopicLedgers
from tests.support.aio import run
from tests.support.metadata.counted_id import CountedId


class _Record:
    def __init__(self, info):
        self.info = info

    def on_settled(self, _):
        pass

    async def update(self, plan):
        change = plan(self.info)
        self.info, self.deletions = change.info, change.deletions
        return self.info


def test_many_ledgers_are_dropped_without_comparing_each_with_each():
    ids = [CountedId(number) for number in range(500)]
    record = _Record(ManagedLedgerInfo(tuple(LedgerInfo(each, entries=1, size=1, timestamp=1) for each in ids)))
    factory = SimpleNamespace(in_hand=set(), deletion=lambda ledger_id: ledger_id)
    listener = ListListener(*[lambda *_: None] * 5)
    ledgers = TopicLedgers(record, factory, None, LedgerList(record.info.ledgers), listener, lambda: 0)
    CountedId.compared = 0
    run(ledgers.drop(ids[:-1]))
    assert ledgers.list.ids == (499,)
    assert record.deletions == tuple(ids[:-1])
    assert CountedId.compared < 10 * len(ids)


def test_a_terminated_topic_ends_where_it_did_after_its_last_ledger_was_dropped():
    end = Position(3, 1)
    record = _Record(ManagedLedgerInfo((LedgerInfo(3, entries=2, size=2, timestamp=1),), terminated=end))
    factory = SimpleNamespace(in_hand=set(), deletion=lambda ledger_id: ledger_id)
    listener = ListListener(*[lambda *_: None] * 5)
    ledgers = TopicLedgers(record, factory, None, LedgerList(record.info.ledgers, terminated=end), listener, lambda: 0)
    run(ledgers.drop([3]))
    assert ledgers.list.last_position == end
