"""Reads the fields of many protobuf messages of one type at once; pure.

All messages are read side by side: the first field of each, then the second, and so on. Only fields that the caller
names, in their usual encoding and singular ones at most once, are read. A message with anything else is unusual.
"""

from collections.abc import Collection
from typing import Any

import numpy
from numpy.typing import NDArray

Bytes = NDArray[numpy.uint8]
Numbers = NDArray[numpy.int64]
Flags = NDArray[numpy.bool_]

PADDING = bytes(24)
"""What must follow the last message, so that a number can be read as whole words wherever it begins."""

FEW = 40
"""Of so few messages the fields are read one by one."""

_VARINT, _SIZED = 1, 2
_LOW_7 = numpy.uint64(0x7F7F7F7F7F7F7F7F)
_HIGH_BITS = numpy.uint64(0x8080808080808080)
_HALVES = tuple(
    (numpy.uint64(low), numpy.uint64(high), numpy.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ONE, _THREE = numpy.uint64(1), numpy.uint64(3)
_MOST_VARINT = 10


class UnusualRecords(Exception):  # no error: these records are decoded one by one
    """Some of the records are to be decoded one by one; `rows` tells which."""

    def __init__(self, rows: Flags) -> None:
        super().__init__(f"{int(rows.sum())} records are unusual")
        self.rows = rows


def require(usual: Any, of: Numbers | None = None, count: int = 0) -> None:
    """UnusualRecords unless all are `usual`; `of` has the record of each, if they are parts of `count` records."""
    if usual.all():
        return
    rows = ~usual
    if of is not None:
        parts, rows = rows, numpy.zeros(count, numpy.bool_)
        rows[of[parts]] = True
    raise UnusualRecords(rows)


def within(values: Numbers, limit: int) -> Flags:
    """Which values are nearer to 0 than `limit`."""
    found: Flags = (values > -limit) & (values < limit)
    return found


class Layout:
    """The fields of a message type that are read, by number: those that are numbers, and those that have a length."""

    def __init__(self, numbers: Collection[int] = (), sized: Collection[int] = ()) -> None:
        self.forms = numpy.zeros(256, numpy.uint8)
        self.forms[[number << 3 for number in numbers]] = _VARINT
        self.forms[[number << 3 | 2 for number in sized]] = _SIZED
        self.few = self.forms.tolist()


class FieldValues:
    """Values of one field: of each, the message's index and where it is; ordered by message, then as they came."""

    def __init__(self, rows: Numbers, starts: Numbers, values: Numbers) -> None:
        self.rows = rows
        self.starts = starts
        self.values = values
        """The number, or the length in bytes."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def ends(self) -> Numbers:
        """Where those with a length end."""
        return self.starts + self.values

    def counts(self, messages: int) -> Numbers:
        """How many each message has."""
        return numpy.bincount(self.rows, minlength=messages).astype(numpy.int64, copy=False)


class MessageFields:
    """All fields of `count` messages; `of` has the record of each message, if they are parts of `records` records."""

    def __init__(
        self, data: Bytes, starts: Numbers, ends: Numbers, layout: Layout, of: Numbers | None = None, records: int = 0
    ) -> None:
        """Raises UnusualRecords."""
        self.count = len(starts)
        self._of = of
        self._records = records
        self._rows, self._tags, self._starts, self._values = self._read(data, starts, ends, layout)

    def require(self, usual: Any) -> None:
        """UnusualRecords unless all messages are `usual`."""
        require(usual, self._of, self._records)

    def one(self, number: int, *, sized: bool = False) -> FieldValues:
        """A field that occurs at most once: at most one value of each message."""
        found = self._chosen(number << 3 | 2 * sized)
        if len(found) > 1 and not (found.rows[1:] > found.rows[:-1]).all():
            self.require(found.counts(self.count) <= 1)
        return found

    def many(self, number: int, *, sized: bool = False) -> FieldValues:
        """A field that may occur several times."""
        return self._chosen(number << 3 | 2 * sized)

    def number(self, number: int, default: int = 0) -> tuple[Numbers, Flags]:
        """A number of each message, and whether the message has it."""
        found = self.one(number)
        values, given = numpy.full(self.count, default, numpy.int64), numpy.zeros(self.count, numpy.bool_)
        values[found.rows] = found.values
        given[found.rows] = True
        return values, given

    def required(self, number: int) -> Numbers:
        """A number that each message must have. UnusualRecords."""
        values, given = self.number(number)
        self.require(given)
        return values

    def required_sized(self, number: int) -> FieldValues:
        """A field with a length that each message must have exactly once. UnusualRecords."""
        found = self.one(number, sized=True)
        if len(found) != self.count:
            self.require(found.counts(self.count) == 1)
        return found

    def _chosen(self, tag: int) -> FieldValues:
        which = numpy.flatnonzero(self._tags == tag)
        rows = self._rows[which]
        if len(rows) > 1 and not (rows[1:] >= rows[:-1]).all():
            order = numpy.argsort(rows, kind="stable")
            which, rows = which[order], rows[order]
        return FieldValues(rows, self._starts[which], self._values[which])

    def _read(
        self, data: Bytes, starts: Numbers, ends: Numbers, layout: Layout
    ) -> tuple[Numbers, Bytes, Numbers, Numbers]:
        words: NDArray[numpy.uint64] = numpy.ndarray((len(data) - 7,), "<u8", data, 0, (1,))
        usual = numpy.ones(self.count, numpy.bool_)
        rows = numpy.flatnonzero(starts < ends)
        at, end = starts[rows], ends[rows]
        steps = []
        while len(rows) > FEW:
            tags = data[at]
            forms = layout.forms[tags]
            values, sizes = _varints(words, at + 1)
            begin = at + 1 + sizes
            is_sized = forms == _SIZED
            at = begin + values * is_sized
            good = (forms != 0) & (sizes > 0) & (begin <= end) & (at <= end) & (at >= begin)
            if not good.all():
                usual[rows[~good]] = False
                rows, tags, begin, values, at, end = (each[good] for each in (rows, tags, begin, values, at, end))
            steps.append((rows, tags, begin, values))
            more = at < end
            if not more.all():
                rows, at, end = rows[more], at[more], end[more]
        steps.append(_read_few(data, rows, at, end, layout.few, usual))
        self.require(usual)
        return tuple(map(numpy.concatenate, zip(*steps, strict=True)))  # type: ignore[return-value]


def _varints(words: NDArray[numpy.uint64], at: Numbers) -> tuple[Numbers, Numbers]:
    """The numbers that begin at these places, and how many bytes each has; 0 for one that is malformed."""
    word = words[at]
    ends = ~word & _HIGH_BITS
    last = ends & (~ends + _ONE)
    below = last - _ONE  # all ones if there is no last byte in this word
    sizes = (numpy.bitwise_count(below) + 1) >> _THREE
    value = word & below & _LOW_7
    for low, high, shift in _HALVES:
        value = (value & low) | ((value & high) >> shift)
    long = numpy.flatnonzero(ends == 0)
    found, length = value.view(numpy.int64), sizes.astype(numpy.int64)
    if len(long):
        rest = words[at[long] + 8].view(numpy.int64)
        ninth, tenth = rest & 0xFF, rest >> 8 & 0xFF
        goes_on = ninth > 0x7F
        found[long] |= (ninth & 0x7F) << 56 | (tenth << 63) * goes_on
        length[long] = numpy.where(goes_on, numpy.where(tenth <= 1, _MOST_VARINT, 0), 9)
    return found, length


def _read_few(
    data: Bytes, rows: Numbers, at: Numbers, end: Numbers, forms: list[int], usual: Flags
) -> tuple[Numbers, Bytes, Numbers, Numbers]:
    found: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
    of_rows, tags, begins, values = found
    for row, start, stop in zip(rows.tolist(), at.tolist(), end.tolist(), strict=True):
        message, place = data[start : stop + len(PADDING)].tobytes(), 0
        size = stop - start
        while place < size:
            form = forms[message[place]]
            tag = message[place]
            place += 1
            value = message[place]
            place += 1
            if value > 0x7F:
                value, place = _long_varint(message, place - 1)
            begin = place
            if form == _SIZED:
                place += value
            if not form or place > size or place < begin or begin > size:
                usual[row] = False
                break
            of_rows.append(row)
            tags.append(tag)
            begins.append(start + begin)
            values.append(value)
    return (
        numpy.array(of_rows, numpy.int64),
        numpy.array(tags, numpy.uint8),
        numpy.array(begins, numpy.int64),
        numpy.array(values, numpy.int64),
    )


def _long_varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and the place after it, which is far beyond the message if it is malformed."""
    value = shift = 0
    for place in range(at, at + _MOST_VARINT):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value - (1 << 64) if value >> 63 else value, place + 1
    return 0, 1 << 62
