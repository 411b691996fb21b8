"""Runs, edges and words of deleted entries agree with the set of entries, whatever it is."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from mledger.cursors.acks.entry_bits import (
    MAX_ENTRY,
    and_words,
    bits_of_words,
    edges_of,
    ranges_of,
    run,
    run_end,
    runs,
    trim_words,
    words_of,
)

_STRETCHES = st.tuples(st.integers(0, 300) | st.sampled_from([2**16 - 70, 2**16]), st.integers(1, 200))
ENTRIES = st.lists(_STRETCHES, min_size=1, max_size=8).map(
    lambda found: {entry for first, count in found for entry in range(first, first + count)}
)
WORDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)


@given(ENTRIES)
def test_runs_are_maximal_and_cover_exactly_the_entries(entries):
    found = list(runs(BitMap(entries)))
    assert [entry for each in found for entry in range(each.first, each.last + 1)] == sorted(entries)
    assert all(before.last + 1 < after.first for before, after in itertools.pairwise(found))


@given(ENTRIES)
def test_ranges_are_open_below_and_closed_above(entries):
    bits = BitMap(entries)
    expected = [((ledger, each.first - 1), (ledger, each.last)) for ledger in (5, 9) for each in runs(bits)]
    assert ranges_of([edges_of(5, bits), edges_of(9, bits)]) == expected
    assert ranges_of([]) == []


@given(ENTRIES)
def test_the_end_of_a_run_is_its_last_entry(entries):
    bits = BitMap(entries)
    assert [run_end(bits, each.first) for each in runs(bits)] == [each.last for each in runs(bits)]


@given(ENTRIES)
def test_words_are_read_back_as_the_same_entries(entries):
    words = words_of(5, BitMap(entries)).all_words()
    assert words[-1] != 0
    assert set(bits_of_words(words)) == entries


@given(WORDS, WORDS)
def test_a_conjunction_has_the_common_indexes_and_no_trailing_zeros(one, other):
    both = and_words(one, other)
    assert both == trim_words(both)
    assert set(bits_of_words(both)) == set(bits_of_words(one)) & set(bits_of_words(other))


def test_a_run_is_clipped_to_entries_that_a_bitmap_can_hold():
    assert list(run(-3, 2)) == [0, 1, 2]
    assert list(run(MAX_ENTRY - 1, MAX_ENTRY + 5)) == [MAX_ENTRY - 1, MAX_ENTRY]
    assert list(runs(run(MAX_ENTRY - 1, MAX_ENTRY))) == [(MAX_ENTRY - 1, MAX_ENTRY)]
    assert not run(5, 4)
    assert not list(runs(BitMap()))
