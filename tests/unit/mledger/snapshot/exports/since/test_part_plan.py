"""New rows are merged with files that are not much larger, so that files stay few and large ones stay as they are."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.exports.since.part_plan import FEW_ROWS, GROWTH, plan_merge


def file(rows):
    return FileRecord(f"part-{rows}", rows, 10, "")


TINY, SMALL, LARGE = file(1), file(FEW_ROWS), file(100 * FEW_ROWS)


def test_without_new_rows_nothing_is_merged():
    assert plan_merge([LARGE, SMALL, TINY], 0) == ()


def test_files_with_few_rows_are_merged_with_any_new_ones():
    assert plan_merge([LARGE, SMALL, TINY], 1) == (TINY, SMALL)


def test_the_file_of_the_night_before_is_merged_with_as_many_new_rows():
    before = file(10 * FEW_ROWS)
    assert plan_merge([LARGE, before], 10 * FEW_ROWS) == (before,)


def test_a_large_file_is_merged_with_as_many_rows_as_it_has():
    assert plan_merge([LARGE], LARGE.rows) == (LARGE,)


@given(st.lists(st.integers(1, 1_000_000), min_size=1, max_size=200))
def test_over_the_nights_files_do_not_become_many(nights):
    files = []
    for new_rows in nights:
        merged = plan_merge(files, new_rows)
        files = [each for each in files if each not in merged]
        files.append(FileRecord(f"part-{len(files)}", new_rows + sum(each.rows for each in merged), 10, ""))
    sizes = sorted(each.rows for each in files)
    assert all(more > GROWTH * fewer for fewer, more in pairwise(sizes))
