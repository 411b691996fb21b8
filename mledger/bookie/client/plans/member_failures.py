"""Which members of an ensemble failed, when and why, and which of them may be asked again: no I/O (Q2).

A bookie that went away while nothing was asked of it keeps its place if it can be reached when there is something to
send. One that failed is asked again only after a while, and only where there is no other.
"""

from collections.abc import Collection, Mapping, Sequence


class MemberFailures:
    """The failures of one ensemble's members, by index."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._reasons: dict[int, str] = {}
        self.away: set[int] = set()
        """Indexes of bookies that went away while nothing was asked of them and were not looked for since."""

    def note(self, reasons: Mapping[int, str], now: float) -> None:
        """The bookies at these indexes failed at `now` (s)."""
        for index, reason in reasons.items():
            self._at[index], self._reasons[index] = now, reason

    def note_away(self, index: int) -> None:
        """The bookie at `index`, whose failure is noted too, owed nothing when it went away."""
        self.away.add(index)

    def take_away(self, down: Collection[int]) -> set[int]:
        """Those of the indexes `down` that only went away, to be looked for now; they are forgotten as such."""
        away, self.away = self.away, set()
        return away.intersection(down)

    def may_return(self, down: Collection[int], since: float) -> list[int]:
        """Those of the indexes `down` that failed at `since` or before: they may be asked again."""
        return [index for index in down if self._at[index] <= since]

    def not_enough(self, ledger_id: int, needed: int, ensemble: Sequence[str], down: Collection[int]) -> str:
        """Why the ledger cannot be written on: fewer than `needed` bookies of a write set are left."""
        failed = "; ".join(f"{ensemble[index]}: {self._reasons[index]}" for index in sorted(down))
        return (
            f"ledger {ledger_id}: {needed} bookies of a write set are needed and too few are left ({failed}), "
            "with none to take their place; start bookies and write to a new ledger"
        )
