"""Covering arrays of pairs: few rows in which any two values of any two dimensions occur together. No I/O, no chance.

A constraint is a predicate on rows that may lack dimensions: it says no as soon as what is there cannot be completed.
Pairs that no whole row may have are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

Row = dict[str, object]
Pair = tuple[tuple[str, object], tuple[str, object]]
Allowed = Callable[[Row], bool]


def covering_array(dimensions: Mapping[str, Sequence[object]], allowed: Allowed = lambda _: True) -> list[Row]:
    """Rows, each with a value for every dimension, that cover every pair that some allowed row has."""
    left = possible_pairs(dimensions, allowed)
    rows: list[Row] = []
    while left:
        row = _row_with(next(iter(left)), left, dimensions, allowed)
        left = {pair: None for pair in left if not _has(row, pair)}
        rows.append({name: row[name] for name in dimensions})
    return rows


def possible_pairs(dimensions: Mapping[str, Sequence[object]], allowed: Allowed) -> dict[Pair, None]:
    """Every pair that a whole allowed row can have, in the order of the dimensions."""
    found: dict[Pair, None] = {}
    for one, other in combinations(dimensions, 2):
        for value in dimensions[one]:
            for another in dimensions[other]:
                pair = ((one, value), (other, another))
                if _complete(dict(pair), dimensions, allowed) is not None:
                    found[pair] = None
    return found


def _has(row: Row, pair: Pair) -> bool:
    return all(row.get(name, _NOTHING) == value for name, value in pair)


_NOTHING = object()


def _complete(row: Row, dimensions: Mapping[str, Sequence[object]], allowed: Allowed) -> Row | None:
    """The first whole allowed row that has all of `row`."""
    if not allowed(row):
        return None
    name = next((name for name in dimensions if name not in row), None)
    if name is None:
        return row
    completed = (_complete({**row, name: value}, dimensions, allowed) for value in dimensions[name])
    return next((row for row in completed if row is not None), None)


def _row_with(pair: Pair, left: dict[Pair, None], dimensions: Mapping[str, Sequence[object]], allowed: Allowed) -> Row:
    """A whole row that has the pair, and by each further value as many of the pairs that are left as one can have."""
    row = dict(pair)
    for name in sorted(dimensions, key=lambda name: -len(dimensions[name])):
        if name in row:
            continue
        gains = {
            value: sum(_gains(name, value, row, other, held, left) for other, held in row.items())
            for value in dimensions[name]
        }
        by_gain = sorted(dimensions[name], key=lambda value: -gains[value])
        row[name] = next(value for value in by_gain if _complete({**row, name: value}, dimensions, allowed) is not None)
    return row


def _gains(name: str, value: object, row: Row, other: str, held: object, left: dict[Pair, None]) -> bool:
    return ((name, value), (other, held)) in left or ((other, held), (name, value)) in left
