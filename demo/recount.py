"""Counts backlogs from scratch: entry by entry, from a cursor's position and ranges alone.

Nothing here uses the cursor's own count. What a subscription acknowledged is known by row, and the i-th entry of the
topic holds row i.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo.subscriptions import DemoSubscription
from mledger import Position, PositionRange


@dataclass(frozen=True, slots=True)
class Recount:
    """The result of counting: the entries not deleted, and what is wrong (empty if nothing)."""

    backlog: int
    differences: tuple[str, ...]


def deleted_rows(positions: Sequence[Position], mark_delete: Position, ranges: Sequence[PositionRange]) -> bytearray:
    """For each entry, 1 if the cursor's state says that it is deleted; `positions` are in ascending order."""
    deleted = bytearray(len(positions))
    ordered = sorted(ranges)
    at = 0
    for row, position in enumerate(positions):
        while at < len(ordered) and ordered[at].upper < position:
            at += 1
        in_range = at < len(ordered) and ordered[at].lower < position
        deleted[row] = position <= mark_delete or in_range
    return deleted


def recount(subscription: DemoSubscription, deleted: bytearray, backlog: int) -> Recount:
    """Compare what is deleted with what was acknowledged, and the counted backlog with the cursor's."""
    counted = deleted.count(0)
    found = list(_wrong_rows(subscription, deleted))
    if counted != backlog:
        found.append(f"backlog is {backlog}, counted {counted}")
    return Recount(counted, tuple(found))


def _wrong_rows(subscription: DemoSubscription, deleted: bytearray) -> Iterator[str]:
    durable, issued = _acknowledged(subscription, len(deleted))
    lost = _first(deleted, durable, 0, 1)
    if lost is not None:
        yield f"row {lost} was acknowledged durably, but is not deleted"
    gone = _first(deleted, issued, 1, 0)
    if gone is not None:
        yield f"row {gone} was never acknowledged, but is deleted"
    start = len(deleted) if subscription.in_flight is None else subscription.in_flight
    if b"\0\1" in deleted[start:]:
        yield f"acknowledgements in flight after row {start} came back with a gap"


def _acknowledged(subscription: DemoSubscription, rows: int) -> tuple[bytearray, bytearray]:
    """The rows that must be acknowledged, and those that may be."""
    issued = bytearray(rows)
    issued[: subscription.cumulative] = b"\1" * subscription.cumulative
    for row in subscription.individual_rows():
        issued[row] = 1
    durable = bytearray(issued)
    if subscription.fallback is not None:
        durable = bytearray(rows)
        durable[: subscription.fallback] = b"\1" * subscription.fallback
    if subscription.in_flight is not None:
        issued[subscription.in_flight :] = b"\1" * (rows - subscription.in_flight)
    return durable, issued


def _first(found: bytearray, expected: bytearray, one: int, other: int) -> int | None:
    """The first row where `found` is `one` and `expected` is `other`."""
    if found == expected:
        return None
    pairs = zip(found, expected, strict=True)
    return next((row for row, pair in enumerate(pairs) if pair == (one, other)), None)
