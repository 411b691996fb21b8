"""Positions and words of batches as callers give them, made the plain integers that records hold; no I/O.

A position from a table has integers of numpy. Kept in a cursor's state, they would let no later state become durable.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import index

from mledger.errors import InvalidPosition
from mledger.metastore.records.position import Position

_PLAIN = frozenset({int})
_WORD = 1 << 64
_SIGNED = range(-(1 << 63), 1 << 63)


def exact_position(position: Position) -> Position:
    """The position with plain integers. InvalidPosition if its ids are no integers of 64 bits."""
    ids = [_exact(part) for part in position] if isinstance(position, Position) else []
    if len(ids) != 2 or not all(part in _SIGNED for part in ids):
        raise InvalidPosition(f"{position!r:.100} is not a position: give a Position of two integers")
    return Position(*ids)


def entries_by_ledger(positions: Iterable[Position]) -> dict[int, list[int]]:
    """The entries of positions by ledger, all plain integers. InvalidPosition if an id is not an integer."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for ledger_id, entry_id in positions:
        found[ledger_id].append(entry_id)
    if _PLAIN.issuperset(map(type, found)) and all(_PLAIN.issuperset(map(type, each)) for each in found.values()):
        return found
    exact: defaultdict[int, list[int]] = defaultdict(list)
    for ledger_id, entries in found.items():
        exact[_exact(ledger_id)] += map(_exact, entries)
    return exact


def exact_words(words: Sequence[int]) -> Sequence[int]:
    """The words of a bit set as signed integers; unsigned ones become those with the same bits. InvalidPosition."""
    if all(type(word) is int and word in _SIGNED for word in words):
        return words
    exact = [_exact(word) for word in words]
    if not all(word in _SIGNED or 0 <= word < _WORD for word in exact):
        raise InvalidPosition(f"{list(words)!r:.100} are not words of a bit set: give integers of 64 bits")
    return [word if word in _SIGNED else word - _WORD for word in exact]


def _exact(number: object) -> int:
    try:
        return int(index(number))  # type: ignore[arg-type]  # that is what is asked
    except TypeError:
        raise InvalidPosition(
            f"{number!r:.100} is not an integer: positions and words of batches have integers"
        ) from None
