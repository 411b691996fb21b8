"""Which file each batch of an export goes to: recently changed nodes have files of their own."""

import pyarrow as pa

from mledger.snapshot.exports.recent_parts import FEW_ROWS, plan_parts


def rows(table, count):
    return table, pa.record_batch({"n": pa.array(range(count))})


def planned(*read):
    return [(part, table, len(batch)) for part, (table, batch) in plan_parts(read, "part-7")]


def test_rows_of_recently_changed_nodes_have_a_file_of_their_own():
    read = planned((False, rows("topics", FEW_ROWS)), (True, rows("topics", 3)), (False, rows("topics", 1)))
    assert sorted(read) == [
        ("part-7", "topics", 1),
        ("part-7", "topics", FEW_ROWS),
        ("part-7-recent", "topics", 3),
    ]


def test_few_other_rows_go_into_the_file_of_the_recent_ones():
    assert planned((False, rows("topics", FEW_ROWS)), (True, rows("topics", 3))) == [
        ("part-7-recent", "topics", 3),
        ("part-7-recent", "topics", FEW_ROWS),
    ]


def test_a_table_without_recent_rows_has_one_file():
    assert planned((True, rows("topics", 1)), (False, rows("ledgers", 1)), (False, rows("ledgers", FEW_ROWS))) == [
        ("part-7-recent", "topics", 1),
        ("part-7", "ledgers", 1),
        ("part-7", "ledgers", FEW_ROWS),
    ]
