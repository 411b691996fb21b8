"""Which consumer of an exclusive or failover subscription is the active one (D2)."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.keys.key_hash import murmur3_32

_POINTS = 100  # of a consumer on the ring
_RING = 1 << 31  # the hashes there are
_REMEMBERED = 8192


def plan_active(
    consumers: Sequence[DispatchConsumer], topic: str, partition: int = -1, consistent_hashing: bool = False
) -> DispatchConsumer | None:
    """The active one of `consumers`; None if there are none (D2).

    Those with the lowest priority number come into question, in the order of their names. Partition n of a topic
    takes the n-th of them, counted round; a topic without partitions (-1), and every topic with
    `consistent_hashing`, takes the one that follows the topic's name on a ring of hashes. So the partitions of a
    topic are spread evenly, and every broker chooses alike.
    """
    if not consumers:
        return None
    best = min(consumer.priority for consumer in consumers)
    ranked = sorted((c for c in consumers if c.priority == best), key=lambda c: c.name)
    if partition >= 0 and not consistent_hashing:
        return ranked[partition % len(ranked)]
    chosen = ranked[0]
    if len(ranked) == 1:
        return chosen
    place, nearest = murmur3_32(topic.encode()), 2 * _RING
    for consumer in ranked:
        points = _points(consumer.name)
        at = bisect_left(points, place)
        point = points[at] if at < _POINTS else points[0] + _RING
        if point <= nearest:
            nearest, chosen = point, consumer
    return chosen


@lru_cache(_REMEMBERED)
def _points(name: str) -> "array[int]":
    """The points of a consumer of that name, in order; kept, since all are asked whenever one comes or goes."""
    return array("L", sorted(murmur3_32(f"{name}{point}".encode()) for point in range(_POINTS)))
