"""What the compactions of a topic did, in all and last."""

from mledger.broker.topics.compaction.compaction_counts import CompactionCounts, CompactionWork


def test_totals_rise_and_the_last_compaction_is_measured():
    counts = CompactionCounts()
    assert not counts.any
    counts.ended(CompactionWork(read_bytes=100, written_bytes=50, kept=2, removed=3, done=True), 0.5, succeeded=True)
    counts.ended(CompactionWork(read_bytes=10, removed=1), 0.25, succeeded=False)
    assert (counts.succeeded, counts.failed, counts.removed) == (1, 1, 4)
    assert (counts.duration_ms, counts.per_second(counts.last.read_bytes)) == (250, 40)
    assert (counts.entries, counts.size) == (2, 50)  # the ledger stays


def test_a_compaction_that_was_not_needed_leaves_the_compacted_ledger():
    counts = CompactionCounts()
    counts.ended(CompactionWork(written_bytes=50, kept=2, done=True), 0.0, succeeded=True)
    counts.ended(CompactionWork(), 0.0, succeeded=True)
    assert (counts.succeeded, counts.entries, counts.per_second(7)) == (2, 2, 0)
