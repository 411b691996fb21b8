"""Dropping ledgers from a topic's record."""

from mledger.cli.topics.drop_ledgers import without_ledgers
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo


def test_dropping_ledgers_keeps_the_rest_of_the_record():
    info = ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept")
    assert without_ledgers(info, frozenset({2, 9})) == ManagedLedgerInfo(
        (LedgerInfo(1), LedgerInfo(3)), properties=(("a", "b"),), unknown=b"kept"
    )
