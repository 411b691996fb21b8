"""The demo's recount finds what a wrong recovery would leave behind."""

import pytest

from demo.recount import deleted_rows, recount
from demo.subscriptions import DemoSubscription
from mledger.metastore.records.position import Position, PositionRange

POSITIONS = [Position(1, entry) for entry in range(6)] + [Position(4, entry) for entry in range(4)]


def ranges(*ends: tuple[int, int, int]) -> list[PositionRange]:
    return [PositionRange(Position(ledger, low), Position(ledger, high)) for ledger, low, high in ends]


def test_entries_up_to_mark_delete_and_in_ranges_are_deleted() -> None:
    deleted = deleted_rows(POSITIONS, Position(1, 1), ranges((4, 0, 2), (1, 3, 5)))
    assert list(deleted) == [1, 1, 0, 0, 1, 1, 0, 1, 1, 0]


def test_mark_delete_before_a_ledger_deletes_all_before_it() -> None:
    assert deleted_rows(POSITIONS, Position(4, -1), []).count(1) == 6


def test_exactly_what_was_acknowledged_is_no_difference() -> None:
    subscription = DemoSubscription("s", "", 2, range(2, 6), hole_every=3)
    found = recount(subscription, bytearray([1, 1, 1, 0, 1, 1, 0, 0, 0, 0]), 5)
    assert (found.backlog, found.differences) == (5, ())


@pytest.mark.parametrize(
    ("deleted", "backlog", "difference"),
    [
        ([1, 1, 0, 0], 3, "backlog is 3, counted 2"),
        ([1, 0, 0, 0], 3, "row 1 was acknowledged durably, but is not deleted"),
        ([1, 1, 0, 1], 1, "row 3 was never acknowledged, but is deleted"),
    ],
)
def test_a_difference_is_named(deleted: list[int], backlog: int, difference: str) -> None:
    assert recount(DemoSubscription("s", "", 2), bytearray(deleted), backlog).differences == (difference,)


def test_acknowledgements_in_flight_may_or_may_not_count_but_in_order() -> None:
    subscription = DemoSubscription("s", "", 1, in_flight=1)
    assert recount(subscription, bytearray([1, 0, 0]), 2).differences == ()
    assert recount(subscription, bytearray([1, 1, 0]), 1).differences == ()
    assert recount(subscription, bytearray([1, 0, 1]), 1).differences != ()


def test_a_destroyed_cursor_ledger_falls_back_to_the_snapshot_and_no_further() -> None:
    subscription = DemoSubscription("s", "", 3, fallback=1)
    assert recount(subscription, bytearray([1, 0, 0, 0]), 3).differences == ()
    assert recount(subscription, bytearray([0, 0, 0, 0]), 4).differences != ()
    assert recount(subscription, bytearray([1, 1, 1, 1]), 0).differences != ()
