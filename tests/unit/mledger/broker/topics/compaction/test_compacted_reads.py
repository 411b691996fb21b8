"""Where reading the compacted view begins."""

import pytest

from mledger.broker.topics.compaction.compacted_reads import plan_start
from mledger.cursors.positions import EARLIEST
from mledger.metastore.records.position import Position

FIRST = Position(5, 0)


@pytest.mark.parametrize(
    ("read_position", "from_earliest", "expected"),
    [
        (FIRST, True, EARLIEST),
        (FIRST, False, FIRST),
        (Position(5, 1), True, Position(5, 1)),
    ],
)
def test_a_cursor_that_has_consumed_nothing_begins_before_what_the_topic_still_has(
    read_position, from_earliest, expected
):
    assert plan_start(read_position, FIRST, from_earliest=from_earliest) == expected
