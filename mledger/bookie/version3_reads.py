"""Plain reads of BookKeeper's protocol version 3, parsed many at once: frames in, frames out. No I/O.

A plain read asks for one entry; it neither fences nor waits. Clients encode it in only one way, so it is parsed without
protobuf. Reads in any other encoding are left to protobuf's parser.
"""

import functools
import itertools
import operator
import re
from collections.abc import Sequence

from msgspec import Struct

from mledger.bookie import wire
from mledger.bookie.version3_layout import varint

OPERATION = b"\x08\x03\x10\x01"
"""Version and operation: the start of a read's header."""
LONGEST = 43
"""The most bytes of a plain read's frame."""

_HEADER = OPERATION + b"\x18"
_VARINT = rb"([\x80-\xff]{0,8}[\x00-\x7f])"
_READ = re.compile(
    rb"....\n(.)" + _HEADER + _VARINT + rb"\xa2\x06(.)\x08" + _VARINT + rb"\x10" + _VARINT,
    re.DOTALL,
)
_LEDGER = operator.itemgetter(3)
_FIXED = 16
"""Bytes of a plain read's frame besides its three numbers."""

short_varint = functools.lru_cache(4096)(varint)
"""Cache of varints of sizes and positions, most of which recur."""


class ReadRun(Struct, frozen=True):
    """Neighbouring plain reads of one ledger; numbers that the response repeats are kept as varints, too.

    `starts` are the places of the frames in the buffer, then the end of the last one.
    """

    ledger: int
    ledger_bytes: bytes
    starts: Sequence[int]
    entries: Sequence[int]
    entry_bytes: Sequence[bytes]
    transactions: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.entries)

    def responses(self, first: int, found: Sequence[bytes], last_confirmed: int) -> bytes:
        """The responses to the reads from number `first` on, with the entries found for them."""
        parts: list[bytes] = []
        tail = b"\x28" + short_varint(last_confirmed)
        shape, before, between, behind = (0, 0, -1), b"", b"", b""
        last = first + len(found)
        asked = zip(self.transactions[first:last], self.entry_bytes[first:last], found, strict=True)
        for transaction, number, entry in asked:
            now = len(transaction), len(number), len(entry)
            if now != shape:
                shape = now
                before, between, behind = _around(*now, self.ledger_bytes, len(tail))
            parts += (before, transaction, between, number, behind, entry, tail)
        return b"".join(parts)


@functools.lru_cache(256)
def _around(transaction: int, number: int, entry: int, ledger: bytes, tail: int) -> tuple[bytes, bytes, bytes]:
    """The parts of a response before its transaction, before its entry's number, and before its entry.

    `transaction`, `number`, `entry` and `tail` are the sizes of those fields.
    """
    behind = b"\x22" + short_varint(entry)
    body = b"\x08\x00\x10" + ledger + b"\x18"
    size = len(body) + number + len(behind) + entry + tail
    between = b"\x10\x00\xa2\x06" + short_varint(size) + body
    before = bytes((10, len(_HEADER) + transaction)) + _HEADER
    length = len(before) + transaction + len(between) - len(body) + size
    return wire.LENGTH.pack(length) + before, between, behind


def find_reads(buffer: bytes | bytearray, starts: Sequence[int]) -> list[ReadRun]:
    """Parse the frames between `starts` as plain reads; empty if any of them is anything else."""
    at, end, count = starts[0], starts[-1], len(starts) - 1
    if end - at > LONGEST * count:
        return []
    found = _READ.findall(buffer, at, end)
    if len(found) != count:
        return []
    for place, (head, transaction, size, ledger, entry) in enumerate(found, 1):
        at += _FIXED + len(transaction) + len(ledger) + len(entry)  # where each must end if nothing else is between
        if at != starts[place] or head[0] != 5 + len(transaction) or size[0] != 2 + len(ledger) + len(entry):
            return []
    runs, first = [], 0
    for ledger, group in itertools.groupby(found, _LEDGER):
        _, transactions, _, _, entries = zip(*group, strict=True)
        last = first + len(entries)
        places, numbers = starts[first : last + 1], [_number(entry) for entry in entries]
        runs.append(ReadRun(_number(ledger), ledger, places, numbers, entries, transactions))
        first = last
    return runs


def _number(varint_bytes: bytes) -> int:
    size = len(varint_bytes)
    if size == 1:
        return varint_bytes[0]
    if size == 2:
        return varint_bytes[0] & 0x7F | varint_bytes[1] << 7
    value = 0
    for byte in reversed(varint_bytes):
        value = value << 7 | byte & 0x7F
    return value
