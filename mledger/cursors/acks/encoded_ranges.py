"""The ranges of a cursor's state as protobuf encodes them, of a hundred thousand in some milliseconds; no I/O.

Each is a MessageRange: `1a SIZE 0a SIZE 08 LEDGER 10 BELOW 12 SIZE 08 LEDGER 10 LAST`, the numbers as varints.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mledger.cursors.acks.entry_bits import EdgeArrays

if TYPE_CHECKING:
    import numpy as np  # imported only for states with holes: read-only commands start sooner without it

    Columns = np.ndarray[Any, Any]


def encoded_ranges(edges: Sequence[EdgeArrays]) -> bytes:
    """The field `individualDeletedMessages` of a PositionInfo with the runs of these ledgers, in order."""
    counts = [len(each.firsts) for each in edges]
    if not counts:
        return b""
    import numpy as np

    ledger, ledger_size = _varints(np.repeat(np.array([each.ledger_id for each in edges]), counts))
    below, below_size = _varints(np.concatenate([each.firsts for each in edges]).astype(np.int64) - 1)
    last, last_size = _varints(np.concatenate([each.lasts for each in edges]).astype(np.int64))
    lower, upper = 2 + ledger_size + below_size, 2 + ledger_size + last_size
    parts = [
        *_head(0x1A, 4 + lower + upper),
        *_head(0x0A, lower),
        *_number(0x08, ledger, ledger_size),
        *_number(0x10, below, below_size),
        *_head(0x12, upper),
        *_number(0x08, ledger, ledger_size),
        *_number(0x10, last, last_size),
    ]
    columns = np.column_stack([column for column, _ in parts])
    encoded: bytes = columns[np.column_stack([there for _, there in parts])].tobytes()
    return encoded


def _varints(numbers: "Columns") -> "tuple[Columns, Columns]":
    """The varints of the numbers in as many columns as the longest takes, and how many bytes each takes."""
    import numpy as np

    left, sizes, columns = numbers.astype(np.uint64), np.ones(len(numbers), dtype=np.int64), []
    while True:
        columns.append((left & np.uint64(0x7F)).astype(np.uint8))
        left >>= np.uint64(7)
        goes_on = left != 0
        if not goes_on.any():
            return np.column_stack(columns), sizes
        sizes += goes_on
        columns[-1] |= goes_on.astype(np.uint8) << np.uint8(7)


def _number(tag: int, varints: "Columns", sizes: "Columns") -> "list[tuple[Columns, Columns]]":
    """A tag and the varints behind it: their columns, and where each has a byte."""
    import numpy as np

    return [*_constant(tag, len(sizes)), (varints, np.arange(varints.shape[1]) < sizes[:, None])]


def _head(tag: int, sizes: "Columns") -> "list[tuple[Columns, Columns]]":
    """A tag and the size of what follows, which is below 128."""
    import numpy as np

    return [*_constant(tag, len(sizes)), (sizes.astype(np.uint8)[:, None], np.ones((len(sizes), 1), dtype=bool))]


def _constant(byte: int, count: int) -> "list[tuple[Columns, Columns]]":
    import numpy as np

    return [(np.full((count, 1), byte, dtype=np.uint8), np.ones((count, 1), dtype=bool))]
