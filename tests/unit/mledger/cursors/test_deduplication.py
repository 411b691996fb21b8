"""No command moves deduplication's cursor over what it has not taken in (C7)."""

import pytest

from mledger.cursors.deduplication import check_not_passed
from mledger.errors import InvalidPosition
from mledger.metastore.records.position import Position


def test_the_cursor_of_deduplication_is_moved_back_only():
    check_not_passed(Position(3, 9), Position(3, 9))
    check_not_passed(Position(3, 9), Position(3, 1))
    with pytest.raises(InvalidPosition, match="messages again"):
        check_not_passed(Position(3, 9), Position(4, 0))
