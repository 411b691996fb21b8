"""Positions and words as callers give them become what records hold, or are refused."""

import numpy as np
import pytest

from mledger.cursors.acks.exact_positions import entries_by_ledger, exact_position, exact_words
from mledger.errors import InvalidPosition
from mledger.metastore.records.position import Position


@pytest.mark.parametrize("integer", [int, np.int64, np.int32, np.uint64])
def test_a_position_has_plain_integers(integer):
    exact = exact_position(Position(integer(7), integer(3)))
    assert exact == (7, 3)
    assert set(map(type, exact)) == {int}


@pytest.mark.parametrize(
    "position", [Position(7, 3.0), Position("7", "3"), Position(7, 1 << 63), Position(None, 3), (7, 3), "Latest", None]
)
def test_what_no_record_holds_is_no_position(position):
    with pytest.raises(InvalidPosition):
        exact_position(position)


@pytest.mark.parametrize("integer", [int, np.int64])
def test_entries_are_plain_integers_by_ledger(integer):
    positions = [Position(integer(7), 3), Position(8, integer(0)), Position(7, integer(4))]
    found = entries_by_ledger(positions)
    assert found == {7: [3, 4], 8: [0]}
    assert {type(each) for each in (*found, *found[7], *found[8])} == {int}


@pytest.mark.parametrize("position", [Position(7, 3.0), Position("7", 3)])
def test_an_entry_that_is_no_integer_is_refused(position):
    with pytest.raises(InvalidPosition, match="is not an integer"):
        entries_by_ledger([Position(7, 2), position])


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ([5, -1], [5, -1]),
        ([(1 << 64) - 1, 1 << 63], [-1, -(1 << 63)]),
        ([np.uint64((1 << 64) - 2), np.int64(-2)], [-2, -2]),
        ([True], [1]),
        ([], []),
    ],
)
def test_words_are_signed_integers_of_64_bits(given, exact):
    words = exact_words(given)
    assert list(words) == exact
    assert {type(word) for word in words} <= {int}


@pytest.mark.parametrize("words", [[1 << 64], [-(1 << 63) - 1], [1.5], ["1"]])
def test_what_are_no_words_is_refused(words):
    with pytest.raises(InvalidPosition):
        exact_words(words)
