"""Which snapshots of a directory are meant: the newest, the one to compare with, those that are too many; pure.

A directory may have snapshots of several clusters, and of several parts of one. Some may be from the future: their
export's clock, or ZooKeeper's, was ahead. Those are the newest of nothing until the clock has passed them.
"""

from collections.abc import Iterable, Sequence

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.manifest import Manifest

AHEAD_MS = 3_600_000
"""A snapshot whose time is so far ahead of the clock is from the future: clocks of machines differ by less."""

FoundSnapshot = tuple[Destination, Manifest]
"""A snapshot, and where the paths of its files begin."""


def is_ahead(manifest: Manifest, now_ms: int) -> bool:
    """Whether a snapshot is from the future."""
    return manifest.time_ms > now_ms + AHEAD_MS


def is_of_same_place(one: Manifest, other: Manifest) -> bool:
    """Whether two snapshots were read from the same place; a directory may have snapshots of several clusters.

    Places that have the same name and are known to be of different clusters are those of different machines.
    """
    return one.request.origin == other.request.origin and may_be_same_cluster(one, other)


def may_be_same_cluster(one: Manifest, other: Manifest) -> bool:
    """Whether two snapshots are not known to be of different clusters."""
    return None in (one.cluster, other.cluster) or one.cluster == other.cluster


def is_of_same_part(one: Manifest, other: Manifest) -> bool:
    """Whether two snapshots have the same part of the same cluster, which is told by the place it was read from."""
    return is_of_same_place(one, other) and one.request.scope == other.request.scope


def plan_past(found: Sequence[FoundSnapshot], now_ms: int) -> list[FoundSnapshot]:
    """The snapshots that are not from the future; all if the clock is behind all of them."""
    return [each for each in found if not is_ahead(each[1], now_ms)] or list(found)


def plan_pair(
    found: Sequence[FoundSnapshot], before: Sequence[FoundSnapshot], now_ms: int
) -> tuple[FoundSnapshot, FoundSnapshot | None]:
    """The newest snapshot in `found`, and the one in `before` to compare it with; none if `before` is empty.

    Where one of them is a single snapshot and the other a choice, the choice falls on the same part of the same
    cluster, if that has any, and for `before` on an older one.
    """
    newest = plan_newest(found, now_ms, before[0][1] if len(before) == 1 else None)
    if not before:
        return newest, None
    wanted = newest[1]
    older = [each for each in before if (each[1].time_ms, each[1].name) < (wanted.time_ms, wanted.name)]
    same = [each for each in older if is_of_same_part(each[1], wanted)]
    return newest, plan_newest(same or before, now_ms, wanted)


def plan_newest(found: Sequence[FoundSnapshot], now_ms: int, like: Manifest | None = None) -> FoundSnapshot:
    """The newest snapshot that is not from the future; of the part of the cluster that `like` has, if there is one."""
    same = [each for each in found if like is None or is_of_same_part(each[1], like)]
    return max(plan_past(same or found, now_ms), key=lambda each: (each[1].time_ms, each[1].name))


def plan_retention(
    manifests: Iterable[Manifest], keep: int, now_ms: int, coming: str | None = None
) -> tuple[Manifest, ...]:
    """The snapshots to remove so that the newest `keep` remain, oldest first.

    `coming` is the name of a snapshot that is about to be written; it remains, whatever its point in time. Those from
    the future neither count nor go: a clock that was ahead would have each of them outlive all others, and a clock
    that is behind would have the newest go.
    """
    past = (each for each in manifests if each.name != coming and not is_ahead(each, now_ms))
    others = sorted(past, key=lambda each: (each.time_ms, each.name))
    stay = keep - (coming is not None)
    return tuple(others[: max(0, len(others) - stay)])
