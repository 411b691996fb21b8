"""Where reading the compacted view begins."""

import pytest

from mledger.broker.topics.compaction.compacted_reads import plan_start
from mledger.cursors.positions import EARLIEST
from mledger.metastore.records.position import Position

FIRST = Position(5, 0)


@pytest.mark.parametrize(
    ("cursor", "read_position", "asked", "expected"),
    [
        ("sub", FIRST, EARLIEST, EARLIEST),
        ("sub", FIRST, None, FIRST),
        ("sub", FIRST, Position(3, 2), Position(3, 2)),
        ("sub", FIRST, Position(7, 0), FIRST),
        ("sub", Position(5, 1), EARLIEST, Position(5, 1)),
        ("__compaction", Position(5, 1), EARLIEST, EARLIEST),
    ],
)
def test_a_cursor_that_has_consumed_nothing_and_compaction_begin_before_what_the_topic_still_has(
    cursor, read_position, asked, expected
):
    assert plan_start(cursor, read_position, FIRST, asked) == expected
