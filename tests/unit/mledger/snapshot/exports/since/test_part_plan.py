"""Files without changes stay, large ones are written anew one by one, small ones are merged."""

from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.exports.since.part_plan import SMALL_ROWS, PartPlan, plan_parts


def file(name, rows):
    return FileRecord(name, rows, 10, "")


LARGE, OTHER = file("large", SMALL_ROWS), file("other", SMALL_ROWS)
SMALL, TINY = file("small", 5), file("tiny", 1)


def test_without_changes_all_stay():
    assert plan_parts([LARGE, SMALL, TINY], (), new_rows=False) == PartPlan((LARGE, SMALL, TINY), (), ())


def test_a_large_file_is_rewritten_by_itself():
    assert plan_parts([LARGE, OTHER, SMALL], {"large"}, new_rows=False) == PartPlan((OTHER, SMALL), (LARGE,), ())


def test_new_rows_are_merged_with_all_small_files():
    assert plan_parts([LARGE, SMALL, TINY], (), new_rows=True) == PartPlan((LARGE,), (), (SMALL, TINY))


def test_a_small_file_with_changes_takes_the_others_with_it():
    assert plan_parts([LARGE, SMALL, TINY], {"tiny"}, new_rows=False) == PartPlan((LARGE,), (), (SMALL, TINY))
