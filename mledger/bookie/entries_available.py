"""The entries of a ledger that a bookie has, in the compact form of BookKeeper's list of entries. No I/O.

A sequence is a run of entry ids without a gap. Sequences of the same size at equal distances, as striping leaves them,
form one group: 8 bytes first start, 8 bytes last start, 4 bytes size, 4 bytes distance.
"""

import struct

import numpy
from numpy.typing import NDArray

_HEADER = struct.Struct(">ii56x")
"""Version, number of groups, reserved."""
_GROUP = struct.Struct(">qqii")
_VERSION = 0
_LARGEST = (1 << 31) - 1


def encode_available(entries: NDArray[numpy.int64]) -> bytes:
    """Encode entry ids, which are unique and ascending."""
    groups = plan_groups(entries)
    return _HEADER.pack(_VERSION, len(groups)) + b"".join([_GROUP.pack(*group) for group in groups])


def plan_groups(entries: NDArray[numpy.int64]) -> list[tuple[int, int, int, int]]:
    """First start, last start, size and distance of each group of sequences; a single sequence has distance 0."""
    if not len(entries):
        return []
    cuts = numpy.flatnonzero(numpy.diff(entries) != 1) + 1
    starts = entries[numpy.concatenate(([0], cuts))].tolist()
    sizes = numpy.diff(numpy.concatenate(([0], cuts, [len(entries)]))).tolist()
    groups: list[tuple[int, int, int, int]] = []
    for start, size in zip(starts, sizes, strict=True):
        if groups:
            first, last, before, period = groups[-1]
            distance = start - last
            if size == before and distance <= _LARGEST and period in (0, distance):
                groups[-1] = first, start, size, distance
                continue
        groups.append((start, start, size, 0))
    return groups
