"""What of a topic is left to acknowledge, by the live figures of its broker."""

import pytest

from mledger.admin.served_topics import acknowledged_in, plan_backlog
from mledger.metastore.records.position import Position, PositionRange

POSITIONS = [Position(ledger, entry) for ledger in (3, 5) for entry in range(4)]
HOLES = (PositionRange(Position(3, 1), Position(3, 2)), PositionRange(Position(3, 3), Position(5, 1)))


@pytest.mark.parametrize("text", ["[(3:1..3:2],(3:3..5:1]]", "[(3:1‥3:2],(3:3‥5:1]]"])
def test_the_ranges_that_brokers_print_are_read(text):
    assert acknowledged_in(text) == HOLES
    assert acknowledged_in("[]") == ()


def test_the_backlog_has_what_is_neither_below_mark_delete_nor_in_a_range():
    found = plan_backlog(POSITIONS, Position(3, 0), HOLES)
    assert list(found) == [Position(3, 1), Position(3, 3), Position(5, 2), Position(5, 3)]


def test_without_ranges_everything_above_mark_delete_is_backlog():
    assert list(plan_backlog(POSITIONS, Position(5, 1), ())) == [Position(5, 2), Position(5, 3)]
