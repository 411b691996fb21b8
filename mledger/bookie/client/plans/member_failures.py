"""The failed members of an ensemble, with times and reasons, and which of them may be tried again: no I/O (Q2).

A bookie that was lost while it owed nothing keeps its place if it can be reached when there is something to send. A
bookie that failed is tried again only after a while, and only if there is no other.
"""

from collections.abc import Collection, Mapping, Sequence


class MemberFailures:
    """The failures of one ensemble's members, by index."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self.away: set[int] = set()
        """Indexes of bookies that were lost while they owed nothing, and that nobody has tried to reach since."""

    def note(self, reasons: Mapping[int, str], now: float) -> None:
        """Note that the bookies at these indexes failed at `now` (s)."""
        for index, reason in reasons.items():
            self._at[index], self._reasons[index] = now, reason

    def note_away(self, index: int) -> None:
        """Note that the bookie at `index`, whose failure is noted too, owed nothing when it was lost."""
        self.away.add(index)

    def take_away(self, down: Collection[int]) -> set[int]:
        """Take out those of the indexes `down` that were lost while they owed nothing, to be reconnected now."""
        away, self.away = self.away, set()
        return away.intersection(down)

    def may_return(self, down: Collection[int], since: float) -> list[int]:
        """Those of the indexes `down` that failed at `since` or before, and so may be tried again."""
        return [index for index in down if self._at[index] <= since]

    def not_enough(self, ledger_id: int, needed: int, ensemble: Sequence[str], down: Collection[int]) -> str:
        """Why writing must stop: fewer than `needed` bookies of a write set are left."""
        failed = "; ".join(f"{ensemble[index]}: {self._reasons[index]}" for index in sorted(down))
        return (
            f"ledger {ledger_id}: {needed} bookies of a write set are needed and too few are left ({failed}), "
            "with none to take their place; start bookies and write to a new ledger"
        )


def too_many(ledger_id: int, changes: int) -> str:
    """Why writing must stop: the ensemble has changed `changes` times already."""
    return f"ledger {ledger_id}: bookies failed {changes} times; see their logs, and write to a new ledger"
