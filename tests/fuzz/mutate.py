"""Damaged variants of valid inputs, seeded: of any bytes, and of protobuf messages field by field.

The rules are those that find faults: wrong lengths, wrong counts, values at the ends of their types, parts repeated,
removed or from elsewhere, and one part so often that anything quadratic or recursive shows.
"""

import random
from collections.abc import Sequence

_EDGES = [
    0,
    1,
    -1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    1 << 20,
    0x7FFF_FFFF,
    -0x8000_0000,
    0xFFFF_FFFF,
    1 << 32,
    (1 << 63) - 1,
    -(1 << 63),
]
_MASKS = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFF_FFFF, 8: (1 << 64) - 1}
_EDGE_BYTES = {size: [(edge & mask).to_bytes(size, "big") for edge in _EDGES] for size, mask in _MASKS.items()}
_TEXTS = [b"\n", b"\t", b"0", b"-1", b"9" * 30, b"[", b"{", b'"', b"\\u0000", b"\xff\xfe", b"\xed\xa0\x80", b"\0", b":"]
LARGEST = 1 << 16
"""The most bytes of a mutated input, unless its seed has more."""
_MOST_COPIES = 3_000
_DEEPEST = 3


class Mutator:
    """Makes inputs from `seeds`, the same ones for the same `seed`."""

    def __init__(self, seeds: Sequence[bytes], seed: str, *, message: bool = False) -> None:
        """`message`: the seeds are protobuf messages, and half of the changes are made to their fields."""
        if not seeds:
            raise ValueError(f"no seed to begin with for {seed}")
        self._seeds = seeds
        self.random = random.Random(seed)
        self._message = message
        self._changes = (
            self._flip,
            self._flip,
            self._edge,
            self._edge,
            self._byte,
            self._cut,
            self._remove,
            self._repeat,
            self._insert,
            self._splice,
            self._text,
        )

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return int(self.random.random() * limit)

    def pick(self) -> bytes:
        """One of the seeds, unchanged."""
        return self._seeds[self.below(len(self._seeds))]

    def make(self) -> bytes:
        """The next input: a seed with one to four changes."""
        data = self.pick()
        for _ in range(1 + self.below(4)):
            if self._message and self.random.random() < 0.5:
                data = self._change_fields(data, 0)
            else:
                data = self._changes[self.below(len(self._changes))](data)
        return data

    def change(self, data: bytes) -> bytes:
        """`data` with one change that ignores its form."""
        return self._changes[self.below(len(self._changes))](data)

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\x01"
        at = self.below(len(data))
        return b"%b%c%b" % (data[:at], data[at] ^ (1 << self.below(8)), data[at + 1 :])

    def _byte(self, data: bytes) -> bytes:
        at = self.below(len(data) + 1)
        return b"%b%c%b" % (data[:at], self.below(256), data[at + 1 :])

    def _edge(self, data: bytes) -> bytes:
        size = (1, 2, 4, 8)[self.below(4)]
        value = _EDGE_BYTES[size][self.below(len(_EDGES))]
        at = self.below(max(1, len(data) - size + 1))
        return data[:at] + value + data[at + size :]

    def _cut(self, data: bytes) -> bytes:
        return data[: self.below(len(data) + 1)]

    def _span(self, data: bytes) -> tuple[int, int]:
        first = self.below(len(data) + 1)
        longest = len(data) - first if self.random.random() < 0.1 else min(16, len(data) - first)
        return first, first + self.below(longest + 1)

    def _remove(self, data: bytes) -> bytes:
        first, last = self._span(data)
        return data[:first] + data[last:]

    def _repeat(self, data: bytes) -> bytes:
        first, last = self._span(data)
        copies = 1 + self.below(_MOST_COPIES if self.random.random() < 0.01 else 4)
        copies = min(copies, LARGEST // max(1, last - first))
        return data[:last] + data[first:last] * copies + data[last:]

    def _insert(self, data: bytes) -> bytes:
        at = self.below(len(data) + 1)
        return data[:at] + self.random.randbytes(1 + self.below(8)) + data[at:]

    def _splice(self, data: bytes) -> bytes:
        other = self.pick()
        return data[: self.below(len(data) + 1)] + other[self.below(len(other) + 1) :]

    def _text(self, data: bytes) -> bytes:
        at, text = self.below(len(data) + 1), _TEXTS[self.below(len(_TEXTS))]
        copies = _MOST_COPIES * 2 if self.random.random() < 0.01 else 1
        return data[:at] + text * copies + data[at:]

    def _change_fields(self, data: bytes, depth: int) -> bytes:
        """One field of a message changed, with the lengths around it corrected."""
        fields = message_fields(data)
        if not fields:
            return self.change(data)
        tag_at, value_at, end, kind = fields[self.below(len(fields))]
        field = data[tag_at:end]
        match self.below(6):
            case 0:
                return data[:tag_at] + data[end:]
            case 1:
                copies = _MOST_COPIES if self.random.random() < 0.01 else 1
                return data[:end] + field * min(copies, 1 + LARGEST // len(field)) + data[end:]
            case 2:
                at = fields[self.below(len(fields))][0]
                return data[:at] + field + data[at:]
            case 3:
                return data[:tag_at] + bytes([data[tag_at] & 0xF8 | self.below(8)]) + data[tag_at + 1 :]
        if kind == 0:
            return data[:value_at] + varint(_EDGES[self.below(len(_EDGES))]) + data[end:]
        if kind == 2:
            return data[:tag_at] + self._change_inner(field, value_at - tag_at, depth) + data[end:]
        return data[:value_at] + self.change(data[value_at:end])[: end - value_at] + data[end:]

    def _change_inner(self, field: bytes, value_at: int, depth: int) -> bytes:
        tag_size = 1
        while field[tag_size - 1] >= 0x80:
            tag_size += 1
        inner = field[value_at:]
        inner = self._change_fields(inner, depth + 1) if depth < _DEEPEST else self.change(inner)
        return field[:tag_size] + varint(len(inner)) + inner


def varint(value: int) -> bytes:
    """A protobuf varint; negative numbers as 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def message_fields(data: bytes) -> list[tuple[int, int, int, int]]:
    """Fields of a message as far as it parses: where tag, value (after its length) and end are, and the wire type."""
    fields: list[tuple[int, int, int, int]] = []
    at = 0
    while at < len(data) and len(fields) < 64:
        tag_at = at
        tag, at = _read_varint(data, at)
        kind = tag & 7
        value_at = at
        if kind == 0:
            _, at = _read_varint(data, at)
        elif kind == 2:
            size, value_at = _read_varint(data, at)
            at = value_at + size
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            break
        if at > len(data):
            break
        fields.append((tag_at, value_at, at, kind))
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return 0, len(data) + 1
