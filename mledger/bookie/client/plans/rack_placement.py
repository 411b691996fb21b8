"""Chooses a bookie for each place of an ensemble, so that every write set spans many racks: no I/O (Q1).

A write set is Wq consecutive places, wrapping around the end. The search fills the places one by one and first tries
racks that the neighbours do not use. It looks for a better choice as long as there may be one, within a bound.
"""

from collections.abc import Sequence

from mledger.bookie.client.plans.topology import Topology

_MOST_STEPS = 200  # to improve on a choice that was found
_MOST_STEPS_IN_VAIN = 5_000  # to find any choice that meets the enforced racks
_REGION = 1_000


def plan_places(
    members: Sequence[str | None], candidates: Sequence[str], write_quorum: int, topology: Topology
) -> tuple[str, ...] | None:
    """Fill each place of `members` that is None with a bookie of `candidates` (the preferred ones first).

    Each write set spans as many racks as there are, regions before racks. None: there are too few candidates, or with
    enforced racks a write set with a new member would span too few.
    """
    if topology.policy.enforce_min_racks:
        candidates = [each for each in candidates if topology.rack_of(each) != topology.default_rack]
    empty = [index for index, bookie in enumerate(members) if bookie is None]
    if len(candidates) < len(empty):
        return None
    chosen = _Search(members, candidates, write_quorum, topology).run(empty)
    return None if chosen is None else tuple(bookie or chosen[index] for index, bookie in enumerate(members))


class _Search:
    """The cost is the number of times that a rack recurs within a write set; regions weigh more."""

    def __init__(
        self, members: Sequence[str | None], candidates: Sequence[str], write_quorum: int, topology: Topology
    ) -> None:
        self._policy = topology.policy
        self._racks = [None if bookie is None else topology.rack_of(bookie) for bookie in members]
        self._regions: dict[str, str] = {}
        self._left: dict[str, list[str]] = {}
        for bookie in [*candidates, *(member for member in members if member is not None)]:
            self._regions[topology.rack_of(bookie)] = topology.region_of(bookie)
        for bookie in candidates:
            self._left.setdefault(topology.rack_of(bookie), []).append(bookie)
        self._rank = {bookie: rank for rank, bookie in enumerate(candidates)}
        size = len(members)
        self._windows = sorted({tuple(sorted((at + i) % size for i in range(write_quorum))) for at in range(size)})
        self._needed = min(self._policy.min_racks, write_quorum) if self._policy.enforce_min_racks else 0
        self._chosen: dict[int, str] = {}
        self._best: dict[int, str] | None = None
        self._best_cost, self._steps = 0, 0

    def run(self, empty: Sequence[int]) -> dict[int, str] | None:
        """The bookies for the places `empty`."""
        self._windows = [window for window in self._windows if set(window) & set(empty)]
        if len(self._regions) == 1 and not self._needed:
            (bookies,) = self._left.values()
            return dict(zip(empty, bookies, strict=False))
        self._descend(empty, 0, self._least())
        return self._best

    def _least(self) -> int:
        """A lower bound of every choice's cost."""
        regions = len(set(self._regions.values())) if self._policy.region_aware else len(self._windows[0])
        least = 0
        for window in self._windows:
            racks = [rack for index in window if (rack := self._racks[index]) is not None]
            already = len(racks) - len(set(racks))
            least += max(0, len(window) - len(self._regions) - already)
            if self._policy.region_aware:
                already = len(racks) - len({self._regions[rack] for rack in racks})
                least += _REGION * max(0, len(window) - regions - already)
        return least

    def _descend(self, empty: Sequence[int], cost: int, least: int) -> None:
        if not empty:
            if self._fits():
                self._best, self._best_cost = self._chosen.copy(), cost
            return
        index = empty[0]
        choices = sorted(
            (cost + self._added(index, rack), -len(bookies), self._rank[bookies[0]], rack)
            for rack, bookies in self._left.items()
            if bookies
        )
        for then, _, _, rack in choices:
            self._steps += 1
            if self._best is not None and (
                then >= self._best_cost or self._best_cost <= least or self._steps > _MOST_STEPS
            ):
                break
            if self._steps > _MOST_STEPS_IN_VAIN:
                break
            self._racks[index] = rack
            self._chosen[index] = self._left[rack].pop(0)
            self._descend(empty[1:], then, least)
            self._left[rack].insert(0, self._chosen.pop(index))
            self._racks[index] = None

    def _added(self, index: int, rack: str) -> int:
        """The cost that a bookie on `rack` at `index` adds to those that are placed."""
        added = 0
        for window in self._windows:
            if index not in window:
                continue
            others = [other for at in window if (other := self._racks[at]) is not None]
            added += rack in others
            if self._policy.region_aware:
                region = self._regions[rack]
                added += _REGION * any(self._regions[other] == region for other in others)
        return added

    def _fits(self) -> bool:
        """Whether each write set with a new member spans as many racks as are enforced."""
        return all(len({self._racks[index] for index in window}) >= self._needed for window in self._windows)
