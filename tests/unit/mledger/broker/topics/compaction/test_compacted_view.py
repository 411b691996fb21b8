"""Entries of a compacted ledger, put together in runs."""

from mledger.broker.topics.compaction.compacted_view import runs_of
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position


def test_entries_that_followed_each_other_in_the_topic_make_one_run():
    entries = [(Position(1, 3), b"a"), (Position(1, 4), b"b"), (Position(1, 6), b"c"), (Position(2, 7), b"d")]
    assert runs_of(entries) == [PayloadRun(1, 3, [b"a", b"b"]), PayloadRun(1, 6, [b"c"]), PayloadRun(2, 7, [b"d"])]


def test_no_entries_make_no_run():
    assert runs_of([]) == []
