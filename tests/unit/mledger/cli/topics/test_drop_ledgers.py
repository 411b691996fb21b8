"""Dropping ledgers from a topic's record."""

from mledger.cli.topics.drop_ledgers import STILL_THERE, plan_warnings, without_ledgers
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo, OffloadContext


def test_dropping_ledgers_keeps_the_rest_of_the_record():
    info = ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept")
    assert without_ledgers(info, frozenset({2, 9})) == ManagedLedgerInfo(
        (LedgerInfo(1), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept"
    )


def test_the_plan_says_that_only_the_undo_file_leads_to_copies_in_tiered_storage():
    topic = TopicName.parse("persistent://t/n/x")
    info = ManagedLedgerInfo(
        (LedgerInfo(1, 5, 50, 9, offload=OffloadContext(b"")), LedgerInfo(2, 5, 50, 9), LedgerInfo(3))
    )
    assert plan_warnings(topic, info, frozenset({2})) == (STILL_THERE,)
    first, copies = plan_warnings(topic, info, frozenset({1, 2}))
    assert first == STILL_THERE
    assert copies == f"{topic}: copies in tiered storage stay, and only the undo file names them: ledger 1"
