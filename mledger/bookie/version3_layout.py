"""The layout of version 3 adds, so that many adds of one layout are parsed as arrays. No I/O.

Protobuf writes numbers in as many bytes as they need, so a client's adds change their layout only when a number gets
longer. Protobuf's parser reads one add; all adds with the same layout are then found and parsed together.
"""

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from mledger.bookie import wire

_MORE = 0x80  # set in all bytes of a varint but the last
_ADD_FIELD = b"\xaa\x06"
_KEY_FIELD = b"\x1a\x14"
_WRITE_FLAGS_FIELD = b"\x28"
_RECOVERY_FLAG = b"\xa0\x06\x01"

Bytes = NDArray[numpy.uint8]
Numbers = NDArray[numpy.int64]


class Add(Struct, frozen=True):
    """The contents of one add request. `write_flags` is None if it has none."""

    transaction: int
    priority: int | None
    ledger: int
    entry: int
    master_key: bytes
    body: bytes
    write_flags: int | None = None
    recovery: bool = False

    @property
    def flags(self) -> int:
        """The flags of the equivalent version 2 request."""
        high = wire.Flag.HIGH_PRIORITY if self.priority else 0
        return high | (wire.Flag.RECOVERY_ADD if self.recovery else 0)

    @property
    def frame(self) -> bytes:
        """The equivalent version 2 request."""
        return wire.encode_add(self.master_key, self.body, self.flags)


def varint(value: int) -> bytes:
    """A number as protobuf writes it; a negative one as its 64-bit two's complement."""
    if 0 <= value < _MORE:
        return bytes((value,))
    value &= (1 << 64) - 1
    found = bytearray()
    while value >= _MORE:
        found.append(value & 0x7F | _MORE)
        value >>= 7
    found.append(value)
    return bytes(found)


class AddLayout(Struct, frozen=True):
    """The bytes of one add around its body, and a mask of the bits that all adds of the layout share.

    Slices are the places of numbers, counted from the frame's length field.
    """

    head: Bytes
    mask: Bytes
    tail: Bytes
    transaction: slice
    size: slice
    ledger: slice
    entry: slice
    key: slice
    body_size: slice
    flags: int


class AddsFound(Struct, frozen=True):
    """The adds of one layout: which of the given frames they are, and their contents."""

    rows: Numbers
    transactions: Numbers
    ledgers: Numbers
    entries: Numbers
    keys: Bytes
    bodies: Numbers
    body_sizes: Numbers


def layout_of(add: Add) -> AddLayout | None:
    """The layout of an add as clients write it; None if its numbers do not fit in 63 bits."""
    if not 0 <= add.transaction < 1 << 63 or add.ledger < 0 or add.entry < 0:
        return None
    tail = b"" if add.write_flags is None else _WRITE_FLAGS_FIELD + varint(add.write_flags)
    tail += _RECOVERY_FLAG if add.recovery else b""
    body_size, numbers = varint(len(add.body)), (varint(add.transaction), varint(add.ledger), varint(add.entry))
    transaction, ledger, entry = numbers
    content = 2 + len(ledger) + len(entry) + len(_KEY_FIELD) + len(add.master_key) + 1 + len(body_size)
    size = varint(content + len(add.body) + len(tail))
    priority = b"" if add.priority is None else b"\x20" + varint(add.priority)
    header = b"\x08\x03\x10\x02\x18" + transaction + priority
    fields = [
        (bytes(wire.LENGTH.size), 0),
        (b"\n" + varint(len(header)) + b"\x08\x03\x10\x02\x18", 0xFF),
        (transaction, _MORE),
        (priority + _ADD_FIELD, 0xFF),
        (size, _MORE),
        (b"\x08", 0xFF),
        (ledger, _MORE),
        (b"\x10", 0xFF),
        (entry, _MORE),
        (_KEY_FIELD, 0xFF),
        (add.master_key, 0),
        (b"\x22", 0xFF),
        (body_size, _MORE),
    ]
    places, at = [], 0
    for data, _ in fields:
        places.append(slice(at, at + len(data)))
        at += len(data)
    return AddLayout(
        numpy.frombuffer(b"".join(data for data, _ in fields), numpy.uint8),
        numpy.repeat(numpy.array([bits for _, bits in fields], numpy.uint8), [len(data) for data, _ in fields]),
        numpy.frombuffer(tail, numpy.uint8),
        places[2],
        places[4],
        places[6],
        places[8],
        places[10],
        places[12],
        add.flags,
    )


def find(layout: AddLayout, buffer: bytes | bytearray, starts: Numbers, ends: Numbers) -> AddsFound:
    """Find the frames between `starts` and `ends` that are adds of a layout and name their entry in the body."""
    head, tail = len(layout.head), len(layout.tail)
    rows = numpy.flatnonzero(ends - starts >= head + tail + wire.ENTRY_HEAD.size)
    heads = _windows(buffer, head)[starts[rows]]
    same = (((heads ^ layout.head) & layout.mask) == 0).all(axis=1)
    if tail:
        same &= (_windows(buffer, tail)[ends[rows] - tail] == layout.tail).all(axis=1)
    rows, heads = rows[same], heads[same]
    ledgers, entries = _numbers(heads[:, layout.ledger]), _numbers(heads[:, layout.entry])
    sizes, body_sizes = _numbers(heads[:, layout.size]), _numbers(heads[:, layout.body_size])
    bodies = starts[rows] + head
    ids = _windows(buffer, 16)[bodies].view(">i8").reshape(-1, 2)
    right = (sizes == ends[rows] - starts[rows] - layout.size.stop) & (body_sizes == ends[rows] - bodies - tail)
    right &= (ids[:, 0] == ledgers) & (ids[:, 1] == entries)
    transactions = _numbers(heads[:, layout.transaction])
    return AddsFound(
        rows[right],
        transactions[right],
        ledgers[right],
        entries[right],
        heads[right, layout.key],
        bodies[right],
        body_sizes[right],
    )


def _windows(buffer: bytes | bytearray, size: int) -> Bytes:
    """All slices of `size` bytes, by where they begin."""
    return numpy.ndarray((len(buffer) - size + 1, size), numpy.uint8, buffer, 0, (1, 1))


def _numbers(varints: Bytes) -> Numbers:
    """The numbers in varints of one length."""
    found = numpy.zeros(len(varints), numpy.int64)
    for place in range(varints.shape[1]):
        found |= (varints[:, place] & 0x7F).astype(numpy.int64) << (7 * place)
    return found
