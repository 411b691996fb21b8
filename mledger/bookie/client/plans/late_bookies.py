"""Decides whether a bookie is late with its acknowledgements; no I/O (Q11).

A bookie's time runs while it owes something and makes no progress. It owes acknowledgements, or room in its send buffer
while batches wait for that room. What is sent to a bookie waits behind the entries of other ledgers: a full send buffer
is no stall while the bookie acknowledges those.
"""

from typing import NamedTuple


class ProgressMark(NamedTuple):
    """A bookie's progress, and since when it has been there (event loop's clock, s)."""

    watermark: int
    since: float


class AddStanding(NamedTuple):
    """The state of one bookie's adds at a check."""

    mark: ProgressMark
    watermark: int
    outstanding: bool
    """It owes acknowledgements."""
    congested: bool
    """Its send buffer is full."""
    batches_wait: bool
    """Batches of this ledger are not complete."""
    acknowledged_at: float
    """When it last answered an add, of any ledger."""

    @property
    def owes(self) -> bool:
        """Whether batches wait for the bookie."""
        return self.outstanding or (self.congested and self.batches_wait)

    @property
    def starts_anew(self) -> bool:
        """Whether its time starts again: it has made progress, or owes nothing."""
        return self.watermark != self.mark.watermark or not self.owes


def plan_late(standing: AddStanding, now: float, add_timeout_s: float, stall_timeout_s: float) -> float | None:
    """The time-out that a bookie has exceeded, in seconds; None while it is in time.

    `stall_timeout_s` applies to a bookie whose send buffer is full and that answers no adds at all, `add_timeout_s` to
    every one that owes an acknowledgement.
    """
    if standing.starts_anew:
        return None
    since = standing.mark.since
    if standing.congested and now - max(since, standing.acknowledged_at) >= stall_timeout_s:
        return stall_timeout_s
    return add_timeout_s if standing.outstanding and now - since >= add_timeout_s else None
