"""Marks of under-replicated ledgers add up."""

from mledger.exporter.replication_marks import ReplicationMarks
from mledger.metastore.cluster.underreplication import UnderreplicatedLedger


def test_marks_count_the_missing_replicas_of_each_bookie_and_keep_the_oldest_time():
    marks = ReplicationMarks()
    for mark in (
        UnderreplicatedLedger(("a:1",), 5000),
        UnderreplicatedLedger(("a:1", "b:1"), 3000),
        UnderreplicatedLedger(("b:1",)),
    ):
        marks.add(mark)
    assert (marks.ledgers, marks.oldest_ms, dict(marks.missing)) == (3, 3000, {"a:1": 2, "b:1": 2})
