"""Lists of entries are condensed, and name exactly the entries that exist."""

import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.entries_available import encode_available, plan_groups


def entries_in(encoded):
    """The entries in a list, as Java reads it."""
    version, count = struct.unpack_from(">ii", encoded)
    assert (version, encoded[8:64], len(encoded)) == (0, bytes(56), 64 + 24 * count)
    found = []
    for at in range(64, len(encoded), 24):
        first, last, size, period = struct.unpack_from(">qqii", encoded, at)
        for start in range(first, last + 1, period or 1):
            found += range(start, start + size)
    return found


@given(st.sets(st.integers(0, 60)))
def test_every_entry_is_listed_and_no_other(entries):
    rising = sorted(entries)
    assert entries_in(encode_available(numpy.array(rising, numpy.int64))) == rising


@pytest.mark.parametrize(
    ("entries", "groups"),
    [
        ([], []),
        (range(18), [(0, 0, 18, 0)]),
        ([5], [(5, 5, 1, 0)]),
        (range(0, 3000, 3), [(0, 2997, 1, 3)]),
        ([n for n in range(3000) if n % 3 != 2], [(0, 2997, 2, 3)]),
        ([0, 1, 3, 4, 6], [(0, 3, 2, 3), (6, 6, 1, 0)]),
    ],
)
def test_sequences_at_one_distance_are_one_group(entries, groups):
    assert plan_groups(numpy.array(list(entries), numpy.int64)) == groups
