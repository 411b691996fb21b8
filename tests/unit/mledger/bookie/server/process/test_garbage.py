"""Which ledgers are garbage and which files a bookie compacts."""

from mledger.bookie.server.process.garbage import (
    Compaction,
    plan_absent,
    plan_due,
    plan_emptying,
    plan_freeing,
    plan_index_compaction,
)


def test_a_ledger_is_due_after_an_unbroken_absence_for_the_grace_period():
    since, due = plan_absent([1, 2], {}, 10.0, 60.0)
    assert (since, due) == ({1: 10.0, 2: 10.0}, [])
    since, due = plan_absent([2, 3], since, 30.0, 60.0)
    assert (since, due) == ({2: 10.0, 3: 30.0}, [])
    since, due = plan_absent([1, 2, 3], since, 70.0, 60.0)
    assert (since, due) == ({1: 70.0, 2: 10.0, 3: 30.0}, [2])
    assert plan_absent([1], {}, 10.0, 0.0)[1] == [1]


def test_files_with_little_live_data_are_compacted_the_emptiest_first():
    sizes, live = {1: 100, 2: 100, 3: 100, 4: 100, 5: 100}, {1: 60, 2: 40, 3: 10, 5: 10}
    assert plan_emptying(sizes, live, 5, [Compaction(0.5)]) == [3, 2]
    assert plan_emptying(sizes, live, 5, [Compaction(0.2)]) == [3]
    assert plan_emptying(sizes, live, 5, [Compaction(0.2), Compaction(0.5)]) == [3, 2]
    assert plan_emptying(sizes, live, 5, []) == []
    assert plan_freeing(sorted(sizes), live, current=5) == [4]


def test_a_file_that_would_hardly_shrink_is_not_compacted():
    sizes, live, due = {1: 100, 2: 100, 5: 100}, {1: 40, 2: 40, 5: 10}, [Compaction(0.5)]
    assert plan_emptying(sizes, live, 5, due, kept={1: 9, 2: 10}) == [1]


def test_files_that_will_soon_be_empty_are_not_compacted_before_their_deletions_have_ended():
    sizes, live = {1: 100, 2: 100, 3: 100, 5: 100}, {1: 60, 2: 40, 3: 70, 5: 10}
    due = [Compaction(0.5), Compaction(0.85, settled=True)]
    assert plan_emptying(sizes, live, 5, due, settled=()) == [2]
    assert plan_emptying(sizes, live, 5, due, settled={3, 5}) == [2, 3]


def test_a_compaction_is_due_when_its_interval_has_passed():
    minor, major = kinds = (Compaction(0.2, 3600), Compaction(0.8, 86400))
    assert plan_due(kinds, [0, 0], 3599) == []
    assert plan_due(kinds, [0, 0], 3600) == [minor]
    assert plan_due(kinds, [90000, 0], 90000) == [major]
    assert plan_due((Compaction(),), [7.0], 7.0) == [Compaction()]


def test_the_index_is_compacted_for_half_of_what_is_left_or_for_many_ledgers():
    live = {1: 60, 2: 40}
    assert [plan_index_compaction(1, hidden, live) for hidden in (0, 49, 50)] == [False, False, True]
    assert [plan_index_compaction(hidden, 1, live) for hidden in (9_999, 10_000)] == [False, True]
    assert plan_index_compaction(1, 1, {})
