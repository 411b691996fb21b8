"""Which bookies hold a ledger's entries: decisions only, no I/O.

- An ensemble is E distinct bookies, all of them writable, E >= Wq >= Aq >= 1 (M6).
- Bookies that failed lately are taken only when there are too few others.
- A replacement is not in the ensemble yet and not among the failed (Q2).
- Chance comes from the `random.Random` that the caller hands in: with a seed the choice is always the same.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from bookie.errors import InvalidQuorum, LedgerConflict, NotEnoughBookies
from metastore.ledger_metadata import LedgerMetadata, Segment


def check_quorums(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raise InvalidQuorum unless ensemble size >= write quorum >= ack quorum >= 1 (M6)."""
    if not ensemble_size >= write_quorum >= ack_quorum >= 1:
        raise InvalidQuorum(
            f"ensemble size {ensemble_size}, write quorum {write_quorum}, ack quorum {ack_quorum}: "
            "choose them so that ensemble size >= write quorum >= ack quorum >= 1"
        )


def plan_ensemble(
    size: int, writable: Collection[str], failed: Collection[str], chance: random.Random
) -> tuple[str, ...]:
    """`size` distinct bookies of `writable` in random order, those in `failed` only where the others do not suffice.

    Raises:
        NotEnoughBookies: fewer than `size` bookies are writable.
    """
    ordered = _preferred(writable, failed, chance)
    if len(ordered) < size:
        raise NotEnoughBookies(
            f"an ensemble of {size} bookies is asked for and {len(ordered)} are registered and writable: "
            "start more bookies or choose a smaller ensemble"
        )
    return tuple(ordered[:size])


def plan_replacements(
    ensemble: Sequence[str],
    failing: Collection[int],
    writable: Collection[str],
    failed: Collection[str],
    chance: random.Random,
) -> dict[int, str]:
    """A bookie for as many of the indexes `failing` of `ensemble` as there are bookies to take their place.

    Bookies in `failed` come last, and none is taken that is in the ensemble already. Indexes without a replacement
    are absent from the result.
    """
    candidates = _preferred(set(writable) - set(ensemble), failed, chance)
    return dict(zip(sorted(failing), candidates, strict=False))


def replace_members(ensemble: Sequence[str], replacements: Mapping[int, str]) -> tuple[str, ...]:
    """`ensemble` with the bookies of `replacements` at their indexes."""
    return tuple(replacements.get(index, bookie) for index, bookie in enumerate(ensemble))


def _preferred(writable: Collection[str], failed: Collection[str], chance: random.Random) -> list[str]:
    good = sorted(set(writable) - set(failed))
    doubtful = sorted(set(writable) & set(failed))
    chance.shuffle(good)
    chance.shuffle(doubtful)
    return good + doubtful


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
