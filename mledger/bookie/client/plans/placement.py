"""Chooses the bookies that hold a ledger's entries; no I/O.

- An ensemble is E distinct bookies, all of them writable, E >= Wq >= Aq >= 1 (M6).
- Bookies that failed lately are taken only when there are too few others.
- The bookies of each write set stand on as many racks as there are (Q1, `rack_placement`).
- A replacement is not in the ensemble yet and not among the failed (Q2).
- Chance comes from the `random.Random` that the caller hands in: with a seed the choice is always the same.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from mledger.bookie.client.plans.rack_placement import plan_places
from mledger.bookie.client.plans.topology import ONE_RACK, Topology
from mledger.bookie.errors import InvalidQuorum, LedgerConflict, NotEnoughBookies, NotEnoughRacks
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise InvalidQuorum unless ensemble size >= write quorum >= ack quorum >= 1 (M6)."""
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise InvalidQuorum(
            f"ensemble size {ensemble_size}, write quorum {write_quorum}, ack quorum {ack_quorum}: "
            "choose them so that ensemble size >= write quorum >= ack quorum >= 1"
        )


def plan_ensemble(
    size: int,
    writable: Collection[str],
    failed: Collection[str],
    rng: random.Random,
    *,
    write_quorum: int = 1,
    topology: Topology = ONE_RACK,
) -> tuple[str, ...]:
    """`size` distinct bookies of `writable`, those in `failed` only where the others do not suffice.

    Every write set spans as many racks as there are (Q1); apart from that the order is random.

    Raises:
        NotEnoughBookies: fewer than `size` bookies are writable. NotEnoughRacks: they are on too few racks.
    """
    good, doubtful = _preferred(writable, failed, rng)
    if len(good) + len(doubtful) < size:
        raise NotEnoughBookies(
            f"an ensemble of {size} bookies is asked for and {len(good) + len(doubtful)} are registered and writable: "
            "start more bookies or choose a smaller ensemble"
        )
    for candidates in (good, good + doubtful):
        places = plan_places([None] * size, candidates, write_quorum, topology)
        if places is not None:
            return places
    raise NotEnoughRacks(_why_not_enough_racks(size, write_quorum, writable, topology))


def _why_not_enough_racks(size: int, write_quorum: int, writable: Collection[str], topology: Topology) -> str:
    racks = Counter(map(topology.rack_of, writable))
    without = racks.pop(topology.default_rack, 0)
    found = ", ".join(f"{rack} ({count})" for rack, count in sorted(racks.items())) or "none"
    return (
        f"an ensemble of {size} bookies is asked for, with {min(topology.policy.min_racks, write_quorum)} racks in "
        f"each write quorum of {write_quorum}; the racks of writable bookies are {found}, and {without} have "
        "none: start bookies on other racks, or name their racks in /bookies"
    )


def plan_replacements(
    ensemble: Sequence[str],
    failing: Collection[int],
    writable: Collection[str],
    failed: Collection[str],
    rng: random.Random,
    *,
    write_quorum: int = 1,
    topology: Topology = ONE_RACK,
) -> dict[int, str]:
    """A bookie for as many of the indexes `failing` of `ensemble` as there are bookies to take their place.

    Bookies in `failed` come last, and none is taken that is in the ensemble already. Racks as of `plan_ensemble`, those
    of the members that stay given. Indexes without a replacement are absent from the result.
    """
    good, doubtful = _preferred(set(writable) - set(ensemble), failed, rng)
    for indexes in _subsets(sorted(failing), len(good) + len(doubtful)):
        members = [None if index in indexes else bookie for index, bookie in enumerate(ensemble)]
        for candidates in (good, good + doubtful):
            places = plan_places(members, candidates, write_quorum, topology)
            if places is not None:
                return {index: places[index] for index in indexes}
    return {}


def _subsets(indexes: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """What to try: as many of `indexes` at once as there are bookies for, then each alone."""
    if most and indexes:
        yield indexes[:most]
        if len(indexes) > 1:
            yield from ([index] for index in indexes)


def replace_members(ensemble: Sequence[str], replacements: Mapping[int, str]) -> tuple[str, ...]:
    """`ensemble` with the bookies of `replacements` at their indexes."""
    return tuple(replacements.get(index, bookie) for index, bookie in enumerate(ensemble))


def _preferred(writable: Collection[str], failed: Collection[str], rng: random.Random) -> tuple[list[str], list[str]]:
    good = sorted(set(writable) - set(failed))
    doubtful = sorted(set(writable) & set(failed))
    rng.shuffle(good)
    rng.shuffle(doubtful)
    return good, doubtful


def with_ensemble(metadata: LedgerMetadata, first_entry: int, ensemble: tuple[str, ...]) -> LedgerMetadata:
    """`metadata` with `ensemble` in force from `first_entry` on (Q2).

    A segment that begins at the same entry holds no acknowledged entry and is replaced.

    Raises:
        LedgerConflict: the last segment begins after `first_entry`.
    """
    last = metadata.segments[-1]
    if last.first_entry > first_entry:
        raise LedgerConflict(
            f"an ensemble from entry {first_entry} on cannot follow one that begins at entry {last.first_entry}: "
            "another client changed the ledger; open it again"
        )
    kept = metadata.segments[:-1] if last.first_entry == first_entry else metadata.segments
    return replace(metadata, segments=(*kept, Segment(first_entry, ensemble)))
