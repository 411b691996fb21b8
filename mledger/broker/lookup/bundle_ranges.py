"""How a namespace is split into bundles: ranges of the CRC-32 of its topics' full names. No I/O.

A bundle is named by its range, `0x40000000_0x80000000`: the first hash in it, and the first after it.
The last bundle of a namespace contains the last hash too.
"""

import json
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import Node

HASHES = 1 << 32
LAST_HASH = HASHES - 1
ONE_BUNDLE = (0, LAST_HASH)


def topic_hash(topic: TopicName) -> int:
    """The place of a topic in its namespace's bundles."""
    return zlib.crc32(str(topic).encode())


def bundle_name(first: int, end: int) -> str:
    """A bundle's name in paths of nodes."""
    return f"0x{first:08x}_0x{end:08x}"


def bundle_names(boundaries: Sequence[int]) -> list[str]:
    """The names of a namespace's bundles, in order."""
    return [bundle_name(*pair) for pair in pairwise(boundaries)]


def hashes_of(bundle: str) -> tuple[int, int]:
    """The first hash in the bundle of this name, and the first after it."""
    first, end = bundle.split("_")
    return int(first, 16), int(end, 16)


def plan_boundaries(bundles: int) -> tuple[int, ...]:
    """The boundaries of a namespace that is split evenly: `bundles` + 1 hashes, the first 0 and the last LAST_HASH."""
    if not 0 < bundles < HASHES:
        raise ValueError(f"a namespace has from 1 to {HASHES - 1} bundles, not {bundles}")
    size = HASHES // bundles
    return *(size * each for each in range(bundles)), LAST_HASH


def plan_bundle(topic: TopicName, boundaries: Sequence[int]) -> str:
    """The bundle of its namespace that contains the topic."""
    index = min(bisect_right(boundaries, topic_hash(topic)), len(boundaries) - 1)
    return bundle_name(boundaries[index - 1], boundaries[index])


def plan_namespace(local: Node | None, policies: Node | None, path: str, default: int) -> tuple[int, ...]:
    """The boundaries of a namespace's bundles.

    Its local policies say which, since brokers split bundles there; else the policies it was created
    with, at `path`. A namespace without either is split evenly into `default` bundles, one whose
    policies name no bundles is a single one.

    Raises:
        RecordError: the policies do not parse.
    """
    for node in (local, policies):
        if node is not None and node.data:
            return decode_boundaries(node.data, path)
    return plan_boundaries(default)


def decode_boundaries(data: bytes, path: str) -> tuple[int, ...]:
    """The boundaries in policies, global or local.

    Raises:
        RecordError: the policies do not parse, or their bundles leave a gap.
    """
    try:
        bundles = json.loads(data).get("bundles")
    except (ValueError, AttributeError, RecursionError) as error:
        raise _unreadable(path, error) from None
    return boundaries_of(bundles, path) if bundles else ONE_BUNDLE


def boundaries_of(bundles: Any, path: str) -> tuple[int, ...]:
    """The boundaries in the bundles of policies; errors as of `decode_boundaries`."""
    try:
        found = tuple(int(each, 16) for each in bundles["boundaries"])
    except (ValueError, TypeError, KeyError) as error:
        raise _unreadable(path, error) from None
    ordered = all(one < other for one, other in pairwise(found))
    if len(found) < 2 or (found[0], found[-1]) != ONE_BUNDLE or not ordered:
        raise RecordError(f"the bundles of the namespace of {path} do not cover each hash once", path)
    return found


def _unreadable(path: str, error: Exception) -> RecordError:
    return RecordError(f"the bundles of the namespace of {path} cannot be read: {error!r}", path)
