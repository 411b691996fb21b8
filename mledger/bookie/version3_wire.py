"""Requests of BookKeeper's protocol version 3: frames in, frames out. No I/O (formats.md, Bookie protocol).

A frame is a 4-byte length and a protobuf message. Like a version 2 buffer, a receive buffer is parsed as a whole.
Neighbouring adds of one ledger become one `TransactionRun`, whose frames are version 2's, which the bookie stores.
Neighbouring plain reads of one ledger become one `ReadRun`.
"""

import itertools
import struct
from collections.abc import Sequence

import numpy
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import Code
from mledger.bookie.version3_layout import Add, AddLayout, find, layout_of, varint
from mledger.bookie.version3_reads import OPERATION as READ_OPERATION
from mledger.bookie.version3_reads import ReadRun, find_reads

VERSION = 3
ADD_ENTRY = 2
"""The number of the operation field in a header."""

STATUS = {
    Code.OK: 0,
    Code.NO_LEDGER: 402,
    Code.NO_ENTRY: 403,
    Code.BAD_REQUEST: 404,
    Code.IO_ERROR: 501,
    Code.UNAUTHORIZED: 502,
    Code.BAD_VERSION: 503,
    Code.FENCED: 504,
    Code.READ_ONLY: 505,
    Code.TOO_MANY_REQUESTS: 506,
    Code.UNKNOWN_LEDGER_STATE: 507,
}
"""The statuses that correspond to version 2's error codes."""

_OPERATION_FIELD = b"\x08\x03\x10"
OPERATION_AT = wire.LENGTH.size + 5
"""Where clients put a request's operation, counted from its length field."""
_OPERATION = numpy.frombuffer(_OPERATION_FIELD, numpy.uint8)
_ADD = bytes((ADD_ENTRY,))
_HEADER_AT = wire.LENGTH.size + 2
_HEAD = OPERATION_AT + 1
_IDS = struct.Struct(">qq")
_FEWEST_AS_BLOCK = 8
_MOST_LAYOUTS = 16
_FIRST_BYTE = wire.LENGTH.size
_SMALLEST = wire.LENGTH.size
_WORD_AT, _KEY_AT = wire.LENGTH.size, wire.HEAD.size

Numbers = NDArray[numpy.int64]
Request = request_frames.AddRun | request_frames.OtherFrame | ReadRun


class TransactionRun(request_frames.AddRun, frozen=True):
    """Neighbouring adds of version 3 that share ledger, master key and flags, as version 2 frames in `frames`."""

    frames: bytes
    transactions: Numbers

    def part(self, first: int, last: int) -> "TransactionRun":
        """The requests with the numbers `first` to `last` - 1."""
        cut = request_frames.AddRun.part(self, first, last)
        return _transaction_run(cut, self.frames, self.transactions[first:last])

    def responses(self, error: int = Code.OK) -> bytes:
        """The responses to all requests, in order."""
        return add_responses(self.ledger, self.transactions, self.entries, STATUS[Code(error)])


def _transaction_run(run: request_frames.AddRun, frames: bytes, transactions: Numbers) -> TransactionRun:
    shared = run.version, run.flags, run.master_key, run.ledger
    return TransactionRun(*shared, run.starts, run.entries, run.rising, frames, transactions)


def add_responses(ledger: int, transactions: Numbers, entries: Numbers, status: int = 0) -> bytes:
    """The responses to adds of one ledger."""
    if len(entries) < _FEWEST_AS_BLOCK:
        return _few_responses(ledger, transactions, entries, status)
    sizes = _varint_sizes(transactions) * 16 + _varint_sizes(entries)
    bounds = [0, *(numpy.flatnonzero(sizes[1:] != sizes[:-1]) + 1).tolist(), len(entries)]
    parts = []
    for first, last in itertools.pairwise(bounds):
        respond = _few_responses if last - first < _FEWEST_AS_BLOCK else _block_responses
        parts.append(respond(ledger, transactions[first:last], entries[first:last], status))
    return b"".join(parts)


def add_response(ledger: int, transaction: int, entry: int, status: int) -> bytes:
    """The response to one add."""
    state = varint(status)
    add = b"\x08" + state + b"\x10" + varint(ledger) + b"\x18" + varint(entry)
    header = b"\x08\x03\x10\x02\x18" + varint(transaction)
    frame = b"\n" + varint(len(header)) + header + b"\x10" + state + b"\xaa\x06" + varint(len(add)) + add
    return wire.LENGTH.pack(len(frame)) + frame


def _few_responses(ledger: int, transactions: Numbers, entries: Numbers, status: int) -> bytes:
    pairs = zip(transactions.tolist(), entries.tolist(), strict=True)
    return b"".join([add_response(ledger, transaction & (1 << 64) - 1, entry, status) for transaction, entry in pairs])


def _block_responses(ledger: int, transactions: Numbers, entries: Numbers, status: int) -> bytes:
    """Responses in which each number has the same length."""
    first = add_response(ledger, int(transactions[0]), int(entries[0]), status)
    entry_size, size = len(varint(int(entries[0]))), len(varint(int(transactions[0])))
    rows = numpy.empty((len(entries), len(first)), numpy.uint8)
    rows[:] = numpy.frombuffer(first, numpy.uint8)
    at = first.index(b"\x08\x03\x10\x02\x18") + 5
    _write_varints(rows[:, at : at + size], transactions)
    _write_varints(rows[:, len(first) - entry_size :], entries)
    return rows.tobytes()


def _varint_sizes(numbers: Numbers) -> Numbers:
    """How many bytes each number's varint has; 10 for negative ones."""
    limits = numpy.array([1 << 7 * size for size in range(1, 9)], numpy.int64)
    return numpy.where(numbers < 0, 10, numpy.searchsorted(limits, numbers, side="right") + 1)


def _write_varints(into: NDArray[numpy.uint8], numbers: Numbers) -> None:
    last, unsigned = into.shape[1] - 1, numbers.view(numpy.uint64)
    for place in range(last + 1):
        into[:, place] = unsigned >> numpy.uint64(7 * place) & numpy.uint64(0x7F)
    into[:, :last] |= 0x80


def is_add(buffer: bytes | bytearray, at: int) -> bool:
    """Whether the frame at `at`, which need not be complete, is an add as clients encode it."""
    return buffer[at + wire.LENGTH.size] == wire.VERSION_3_TAG and buffer[at + OPERATION_AT] == ADD_ENTRY


def scan(
    buffer: bytes | bytearray, start: int, filled: int, max_frame: int = wire.MAX_FRAME, *, adds: bool = True
) -> request_frames.Scan[Request]:
    """Find the whole version 3 frames between `start` and `filled`, up to the first of another version.

    It finds at most `MOST_FRAMES`. Without `adds`, it returns at most one, never as an add.
    """
    starts, at, next_frame, error = [start], start, 0, ""
    append, unpack, last, first_byte = starts.append, wire.LENGTH.unpack_from, filled - wire.LENGTH.size, _FIRST_BYTE
    while at < last and buffer[at + first_byte] == wire.VERSION_3_TAG:
        (length,) = unpack(buffer, at)
        end = at + first_byte + length
        if end > filled or length > max_frame or length < _SMALLEST:
            error = "" if _SMALLEST <= length <= max_frame else request_frames.bad_length(length, max_frame)
            next_frame = end - at
            break
        append(end)
        at = end
        if not adds or len(starts) > request_frames.MOST_FRAMES:
            break
    if adds or at == start:
        return request_frames.Scan(_requests(buffer, starts), at, error, next_frame)
    return request_frames.Scan([request_frames.OtherFrame(start, at)], at, error, next_frame)


def _requests(buffer: bytes | bytearray, starts: list[int]) -> list[Request]:
    reads = find_reads(buffer, starts)  # a client that reads usually does nothing else
    if reads:
        return [*reads]
    adds = [buffer[start + OPERATION_AT : start + _HEAD] for start in starts[:-1]].count(_ADD)
    if adds < _FEWEST_AS_BLOCK:
        return _one_by_one(buffer, starts)
    return _Block(buffer, starts).requests()


def _one_by_one(buffer: bytes | bytearray, starts: list[int]) -> list[Request]:
    requests: list[Request] = []
    adds = [_add_of(buffer, start, end) for start, end in itertools.pairwise(starts)]
    first = 0
    for shared, group in itertools.groupby(adds, _shared):
        alike = [*group]
        last = first + len(alike)
        if shared is None:
            requests += _others(buffer, starts[first : last + 1])
        else:
            requests.append(run_of([add for add in alike if add is not None]))
        first = last
    return requests


def _add_of(buffer: bytes | bytearray, start: int, end: int) -> Add | None:
    if buffer[start + _HEADER_AT : start + _HEAD] == READ_OPERATION:
        return None
    return read_add(bytes(memoryview(buffer)[start + wire.LENGTH.size : end]))


def _shared(add: Add | None) -> tuple[int, bytes, int] | None:
    """The values that adds of one run share."""
    return None if add is None else (add.ledger, add.master_key, add.flags)


def _others(buffer: bytes | bytearray, starts: list[int]) -> list[Request]:
    """Frames none of which is an add."""
    reads = find_reads(buffer, starts)
    if reads:
        return [*reads]
    if len(starts) == 2:
        return [request_frames.OtherFrame(*starts)]
    return [request for frame in itertools.pairwise(starts) for request in _others(buffer, [*frame])]


def run_of(adds: Sequence[Add]) -> TransactionRun:
    """Adds that share ledger, master key and flags, as one run."""
    first, frames = adds[0], [add.frame for add in adds]
    starts = numpy.fromiter(itertools.accumulate(map(len, frames), initial=0), numpy.int64, len(frames) + 1)
    entries = numpy.array([add.entry for add in adds], numpy.int64)
    transactions = numpy.array([add.transaction for add in adds], numpy.uint64).view(numpy.int64)
    run = request_frames.AddRun(
        wire.VERSION, first.flags, first.master_key, first.ledger, starts, entries, request_frames.is_rising(entries)
    )
    return _transaction_run(run, b"".join(frames), transactions)


def read_add(message: bytes) -> Add | None:
    """The add in a message; None if it is not an add, or cannot be stored."""
    if message[2:5] == _OPERATION_FIELD and message[5:6] != _ADD:
        return None
    from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb  # loaded only where needed: loading is slow

    try:
        request = pb.Request.FromString(message)
    except DecodeError:
        return None
    header, add = request.header, request.addRequest
    if header.operation != ADD_ENTRY or header.version != VERSION or not request.HasField("addRequest"):
        return None
    key, body = add.masterKey, add.body
    if not request.IsInitialized() or len(key) != wire.MASTER_KEY_SIZE or len(body) < wire.ENTRY_HEAD.size:
        return None
    ids = add.ledgerId, add.entryId
    if _IDS.unpack_from(body) != ids:
        return None
    priority = header.priority if header.HasField("priority") else None
    write_flags = add.writeFlags if add.HasField("writeFlags") else None
    return Add(header.txnId, priority, *ids, key, body, write_flags, add.HasField("flag"))


class _Block:
    """Many frames, parsed together."""

    def __init__(self, buffer: bytes | bytearray, starts: list[int]) -> None:
        self._buffer = buffer
        self._places = numpy.array(starts, numpy.int64)
        count = len(starts) - 1
        heads = numpy.ndarray((len(buffer) - _HEAD + 1, _HEAD), numpy.uint8, buffer, 0, (1, 1))
        heads = heads[numpy.minimum(self._places[:-1], len(buffer) - _HEAD)]
        self._other = (heads[:, _HEADER_AT:OPERATION_AT] == _OPERATION).all(axis=1) & (
            heads[:, OPERATION_AT] != ADD_ENTRY
        )
        self._layouts: list[AddLayout] = []
        self._layout = numpy.full(count, -1, numpy.int64)  # the layout of each frame
        self._transactions, self._ledgers, self._entries, self._bodies, self._body_sizes = numpy.zeros(
            (5, count), numpy.int64
        )
        self._flags = numpy.zeros(count, numpy.int64)
        self._keys = numpy.zeros((count, wire.MASTER_KEY_SIZE), numpy.uint8)

    def requests(self) -> list[Request]:
        """The frames as requests, in order."""
        self._find()
        known = self._layout >= 0
        same = known[1:] & known[:-1]
        for numbers in (self._ledgers, self._flags):
            same &= numbers[1:] == numbers[:-1]
        same &= (self._keys[1:] == self._keys[:-1]).all(axis=1)
        same |= self._other[1:] & self._other[:-1]
        bounds = [0, *(numpy.flatnonzero(~same) + 1).tolist(), len(known)]
        requests: list[Request] = []
        places, runs, other = self._places.tolist(), known.tolist(), self._other.tolist()
        for first, last in itertools.pairwise(bounds):
            if runs[first]:
                requests.append(self._run(first, last))
            elif other[first]:
                requests += _others(self._buffer, places[first : last + 1])
            else:
                requests += _one_by_one(self._buffer, places[first : last + 1])
        return requests

    def _find(self) -> None:
        """Group the frames by layout: that of the first, then that of the first still unknown, and so on."""
        rows = numpy.flatnonzero(~self._other)
        for _ in range(_MOST_LAYOUTS):
            if not len(rows):
                return
            first = int(rows[0])
            message = bytes(memoryview(self._buffer)[self._places[first] + wire.LENGTH.size : self._places[first + 1]])
            add = read_add(message)
            layout = layout_of(add) if add is not None else None
            if layout is not None:
                self._take(layout, rows)
            rows = rows[1:][self._layout[rows[1:]] < 0]

    def _take(self, layout: AddLayout, rows: Numbers) -> None:
        found = find(layout, self._buffer, self._places[rows], self._places[rows + 1])
        rows = rows[found.rows]
        self._layout[rows] = len(self._layouts)
        self._layouts.append(layout)
        self._transactions[rows], self._ledgers[rows], self._entries[rows] = (
            found.transactions,
            found.ledgers,
            found.entries,
        )
        self._bodies[rows], self._body_sizes[rows] = found.bodies, found.body_sizes
        self._flags[rows], self._keys[rows] = layout.flags, found.keys

    def _run(self, first: int, last: int) -> TransactionRun:
        rows = slice(first, last)
        flags, key, sizes = int(self._flags[first]), self._keys[first], self._body_sizes[rows]
        starts = numpy.zeros(last - first + 1, numpy.int64)
        numpy.cumsum(sizes + wire.ENTRY_AT, out=starts[1:])
        entries = self._entries[rows]
        run = request_frames.AddRun(
            wire.VERSION,
            flags,
            key.tobytes(),
            int(self._ledgers[first]),
            starts,
            entries,
            request_frames.is_rising(entries),
        )
        heads = numpy.empty((last - first, wire.ENTRY_AT), numpy.uint8)
        heads[:, :_WORD_AT] = (
            (sizes + (wire.ENTRY_AT - wire.LENGTH.size)).astype(">u4").view(numpy.uint8).reshape(-1, 4)
        )
        heads[:, _WORD_AT:_KEY_AT] = numpy.frombuffer(
            wire.LENGTH.pack(wire.header_word(wire.Op.ADD, flags)), numpy.uint8
        )
        heads[:, _KEY_AT:] = key
        return _transaction_run(run, self._frames(heads, rows), self._transactions[rows])

    def _frames(self, heads: NDArray[numpy.uint8], rows: slice) -> bytes:
        """Version 2 heads, each followed by its body."""
        bodies, sizes, count = self._bodies[rows], self._body_sizes[rows], len(heads)
        stride = int(bodies[1] - bodies[0]) if count > 1 else 0
        size = int(sizes[0])
        if (sizes == size).all() and (bodies[1:] - bodies[:-1] == stride).all():
            frames = numpy.empty((count, wire.ENTRY_AT + size), numpy.uint8)
            frames[:, : wire.ENTRY_AT] = heads
            frames[:, wire.ENTRY_AT :] = numpy.ndarray(
                (count, size), numpy.uint8, self._buffer, int(bodies[0]), (stride, 1)
            )
            return frames.tobytes()
        view, packed = memoryview(self._buffer), memoryview(heads.tobytes())
        parts: list[memoryview] = []
        for at, body, end in zip(
            range(0, len(packed), wire.ENTRY_AT), bodies.tolist(), (bodies + sizes).tolist(), strict=True
        ):
            parts += (packed[at : at + wire.ENTRY_AT], view[body:end])
        return b"".join(parts)
