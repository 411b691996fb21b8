"""Arrow arrays of what lies in the bytes of many records: strings, maps, numbers that may be missing; pure."""

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow as pa

from mledger.snapshot.tables.bulk.wire import Bytes, FieldValues, Flags, Layout, MessageFields, Numbers, require, within
from mledger.snapshot.tables.columns import LARGEST_MS, LONG, TIME

_PAIR = Layout(sized=(1, 2))
_NAMED_NUMBER = Layout(numbers=(2,), sized=(1,))


def texts(data: Bytes, part: FieldValues, of: Numbers, records: int) -> pa.Array:
    """The strings of a field; `of` has the record of each. UnusualRecords if one is not UTF-8."""
    lengths = part.values
    offsets = numpy.zeros(len(part) + 1, numpy.int64)
    numpy.cumsum(lengths, out=offsets[1:])
    places = numpy.arange(offsets[-1])
    places += numpy.repeat(part.starts - offsets[:-1], lengths)
    characters = data[places]
    buffers = [None, pa.py_buffer(offsets.astype(numpy.int32)), pa.py_buffer(characters)]
    found = pa.Array.from_buffers(pa.string(), len(part), buffers)
    if len(characters) and characters.max() > 0x7F:
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            raw = pa.Array.from_buffers(pa.binary(), len(part), buffers).to_pylist()
            require(numpy.array([_is_text(each) for each in raw]), of, records)
    return found


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


class Entries:
    """The entries of a map of each row: keys and values, with the row of each."""

    def __init__(self, rows: Numbers, keys: pa.Array, values: pa.Array, count: int) -> None:
        self.rows = rows
        self.keys = keys
        self.values = values
        self._count = count

    def array(self, kind: pa.DataType) -> pa.Array:
        """The maps as an array."""
        return pa.MapArray.from_arrays(offsets_of(self.rows, self._count), self.keys, self.values, type=kind)

    def codes(self) -> tuple[Numbers, list[str]]:
        """The key of each entry as an index of the list of keys."""
        encoded = self.keys.dictionary_encode()
        return encoded.indices.to_numpy(zero_copy_only=False).astype(numpy.int64), encoded.dictionary.to_pylist()


def read_entries(
    data: Bytes, part: FieldValues, of: Numbers, records: int, count: int, *, numbers: bool = False
) -> Entries:
    """The map of each of `count` rows, whose entries are messages of a key and a value, a text or a number.

    `of` has the record of each entry. UnusualRecords if a row has a key twice, as if an entry is not usual.
    """
    fields = MessageFields(data, part.starts, part.ends, _NAMED_NUMBER if numbers else _PAIR, of, records)
    keys = texts(data, fields.required_sized(1), of, records)
    values = pa.array(fields.required(2), LONG) if numbers else texts(data, fields.required_sized(2), of, records)
    found = Entries(part.rows, keys, values, count)
    if len(part) > 1:
        codes, names = found.codes()
        order = numpy.sort(part.rows * len(names) + codes)
        twice = order[1:][order[1:] == order[:-1]] // len(names)
        if len(twice):
            usual = numpy.ones(count, numpy.bool_)
            usual[twice] = False
            require(usual[part.rows], of, records)
    return found


def offsets_of(rows: Numbers, count: int) -> pa.Array:
    """The offsets of lists, one for each of `count` rows; `rows` has the row of each element, ascending."""
    offsets = numpy.zeros(count + 1, numpy.int32)
    numpy.cumsum(numpy.bincount(rows, minlength=count), out=offsets[1:])
    return pa.array(offsets)


def numbers_of(values: Any, given: Flags | None = None, kind: pa.DataType = LONG) -> pa.Array:
    """Numbers, null where not `given`."""
    return pa.array(values, mask=None if given is None else ~given).cast(kind)


def times_of(ms: Numbers, given: Flags) -> pa.Array:
    """Times in ms since 1970, null where not `given`. They are to be within `usual_times`."""
    return pa.array(numpy.where(given, ms, 0) * 1000, mask=~given).view(TIME)


def usual_times(ms: Numbers) -> Flags:
    """Which of these times a column can hold."""
    return within(ms, LARGEST_MS)


def choice(values: Sequence[Any], kind: pa.DataType, which: Numbers) -> pa.Array:
    """One of a few values for each row."""
    return pa.array(values, kind).take(pa.array(which))
