"""Where reading the compacted view begins."""

import pytest

from mledger.broker.topics.compaction.compacted_reads import plan_start
from mledger.cursors.positions import EARLIEST
from mledger.metastore.records.position import Position

FIRST = Position(5, 0)


@pytest.mark.parametrize(
    ("cursor", "read_position", "from_earliest", "expected"),
    [
        ("sub", FIRST, True, EARLIEST),
        ("sub", FIRST, False, FIRST),
        ("sub", Position(5, 1), True, Position(5, 1)),
        ("__compaction", Position(5, 1), True, EARLIEST),
    ],
)
def test_a_cursor_that_has_consumed_nothing_and_compaction_begin_before_what_the_topic_still_has(
    cursor, read_position, from_earliest, expected
):
    assert plan_start(cursor, read_position, FIRST, from_earliest=from_earliest) == expected
