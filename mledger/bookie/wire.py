"""BookKeeper's protocol version 2: frames in, frames out. No I/O (formats.md, Bookie protocol).

A frame is a 4-byte length of what follows, a header word (version << 24 | operation << 16 | flags) and what the
operation asks for. A receive buffer is read as a whole: `scan` finds the frames in it and hands neighbouring adds of
one ledger over as one `AddRun`, as arrays where the frames are of one size and by one tight loop where they are not.
"""

import enum
import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy
from numpy.typing import NDArray

from mledger.bookie.errors import BookieError, Code

VERSION = 2
LOWEST_VERSION = 0
VERSION_3_TAG = 0x0A
"""First byte of a version 3 frame: field 1 (the header) of a protobuf message."""

MAX_FRAME = 5_253_120
"""Bytes after the length that a frame may have by default: Pulsar's largest message and its frame padding."""

LAST_ENTRY = -1
"""The entry id that asks for the last entry."""

MASTER_KEY_SIZE = 20


class Op(enum.IntEnum):
    """Operations of a version 2 header word."""

    ADD = 1
    READ = 2
    AUTH = 3
    READ_LAC = 4
    WRITE_LAC = 5
    GET_BOOKIE_INFO = 6
    BATCH_READ = 7


class Flag(enum.IntFlag):
    """Flags of a version 2 header word."""

    NONE = 0
    FENCE = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class MalformedFrame(BookieError):
    """Bytes that are no frame of the protocol: the connection cannot go on."""


LENGTH = struct.Struct(">I")
HEAD = struct.Struct(">II")
"""Length and header word: how every frame starts."""
ADD_HEAD = struct.Struct(">II20sqq")
"""Length, header word, master key, ledger, entry: how an add request starts; the last two begin the entry itself."""
ENTRY_HEAD = struct.Struct(">qqqq")
"""Ledger, entry, last add confirmed, ledger length: how an entry starts; digest and payload follow."""
READ_REQUEST = struct.Struct(">IIqq")
FENCE_REQUEST = struct.Struct(">IIqq20s")
BATCH_READ_REQUEST = struct.Struct(">IIqqqiq")
"""Length, header word, ledger, entry, request id, max count, max size; a fencing one has the master key behind."""
RESPONSE = struct.Struct(">IIIqq")
"""Length, header word, error, ledger, entry: how every response but an auth response starts."""
BATCH_RESPONSE = struct.Struct(">IIIqqq")
"""A response's head and the request id; (size 4, entry)… follows."""

ENTRY_AT = ADD_HEAD.size - 16
"""Where an add frame's entry begins, counted from the frame's length field."""
SMALLEST_ADD = ENTRY_AT - LENGTH.size + ENTRY_HEAD.size
"""The least length field of an add: header word, master key, and an entry's head."""

RESPONSE_DTYPE = numpy.dtype(
    [("length", ">u4"), ("header", ">u4"), ("error", ">u4"), ("ledger", ">i8"), ("entry", ">i8")]
)

_RUN_WORDS = slice(1, 9)  # header word, master key, ledger: what adds of one run share
_ENTRY_WORDS = slice(9, 11)
_FEWEST_AS_BLOCK = 8
_ENTRY_ID = struct.Struct(">q")


def header_word(op: int, flags: int = 0, version: int = VERSION) -> int:
    """The header word of an operation."""
    return version << 24 | op << 16 | flags


@dataclass(frozen=True, slots=True)
class AddRun:
    """Neighbouring add requests in a buffer that share header word, master key and ledger.

    `starts` are the frames' places in the buffer with the end of the last behind them, `entries` their entry ids;
    `rising` says that each id is above the one before.
    """

    version: int
    flags: int
    master_key: bytes
    ledger: int
    starts: NDArray[numpy.int64]
    entries: NDArray[numpy.int64]
    rising: bool

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def start(self) -> int:
        """Where the first frame begins."""
        return int(self.starts[0])

    @property
    def end(self) -> int:
        """Where the last frame ends."""
        return int(self.starts[-1])

    @property
    def lowest(self) -> int:
        """The lowest entry id."""
        return int(self.entries[0] if self.rising else self.entries.min())

    @property
    def highest(self) -> int:
        """The highest entry id."""
        return int(self.entries[-1] if self.rising else self.entries.max())

    def part(self, first: int, last: int) -> "AddRun":
        """The requests number `first` to `last` - 1."""
        entries = self.entries[first:last]
        starts = self.starts[first : last + 1]
        return AddRun(self.version, self.flags, self.master_key, self.ledger, starts, entries, is_rising(entries))

    def last_confirmed(self, buffer: bytes | bytearray) -> int:
        """The last add confirmed that the last entry carries."""
        return int(_ENTRY_ID.unpack_from(buffer, int(self.starts[-2]) + ENTRY_AT + 16)[0])

    def responses(self, error: int = Code.OK) -> bytes:
        """The responses to all requests, in their order."""
        return add_responses(self, error)


@dataclass(frozen=True, slots=True)
class OtherFrame:
    """A whole frame that is not an add of version 0 to 2: where it lies, its length field included."""

    start: int
    end: int


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Scan(Generic[R_co]):
    """What a buffer holds: requests in order, the place after the last whole frame, and what is wrong there."""

    requests: Sequence[R_co]
    end: int
    error: str = ""
    next_frame: int = 0
    """Bytes that the frame at `end` will have with its length field; 0 while that is not known."""


def scan(buffer: bytes | bytearray, start: int, filled: int, max_frame: int = MAX_FRAME) -> Scan[AddRun | OtherFrame]:
    """Find the frames that `buffer` holds whole between `start` and `filled`."""
    requests: list[AddRun | OtherFrame] = []
    at = start
    while filled - at >= HEAD.size:
        length, header = HEAD.unpack_from(buffer, at)
        error = _frame_error(length, header, max_frame)
        if error:
            return Scan(requests, at, error)
        stride = LENGTH.size + length
        if at + stride > filled:
            return Scan(requests, at, "", stride)
        if not _is_add(header):
            requests.append(OtherFrame(at, at + stride))
            at += stride
            continue
        if at + stride + HEAD.size > filled:
            requests.append(_single(buffer, at, at + stride))
            at += stride
            continue
        count = _equal_frames(buffer, at, filled, stride)
        if count >= _FEWEST_AS_BLOCK or at + 2 * stride > filled:
            starts = numpy.arange(at, at + (count + 1) * stride, stride, dtype=numpy.int64)
        else:
            starts = _add_starts(buffer, at, filled, max_frame)
        requests += _runs(buffer, starts)
        at = int(starts[-1])
    if filled - at >= LENGTH.size:
        (length,) = LENGTH.unpack_from(buffer, at)
        error = "" if LENGTH.size <= length <= max_frame else bad_length(length, max_frame)
        return Scan(requests, at, error, LENGTH.size + length)
    return Scan(requests, at)


def _is_add(header: int) -> bool:
    return header >> 16 & 0xFF == Op.ADD and header >> 24 <= VERSION


def bad_length(length: int, max_frame: int) -> str:
    """What is wrong with a length field."""
    return f"frame length {length} outside {LENGTH.size}..{max_frame}"


def _frame_error(length: int, header: int, max_frame: int) -> str:
    if not LENGTH.size <= length <= max_frame:
        return bad_length(length, max_frame)
    if _is_add(header) and length < SMALLEST_ADD:
        return f"add request of {length} bytes is shorter than an entry's head"
    return ""


def _equal_frames(buffer: bytes | bytearray, at: int, filled: int, stride: int) -> int:
    """How many frames from `at` on have the length of the first; the next one may be of any."""
    count = (filled - at) // stride
    if count == 1 or buffer[at + stride : at + stride + 4] != buffer[at : at + 4]:
        return 1
    lengths = numpy.ndarray(count, numpy.uint32, buffer, at, (stride,))
    differ = lengths != lengths[0]
    first = int(differ.argmax())
    return first if differ[first] else count


def _add_starts(buffer: bytes | bytearray, at: int, filled: int, max_frame: int) -> NDArray[numpy.int64]:
    """Places of the whole adds from `at` on, the end of the last behind them; ends before the first other frame."""
    found: list[int] = []
    append, unpack, last = found.append, LENGTH.unpack_from, filled - HEAD.size
    while at <= last:
        append(at)
        at += 4 + unpack(buffer, at)[0]
    if at <= filled:
        append(at)
    starts = numpy.array(found, numpy.int64)
    lengths = numpy.diff(starts) - LENGTH.size
    operations = numpy.frombuffer(buffer, numpy.uint8)[starts[:-1] + LENGTH.size + 1]
    other = (operations != Op.ADD) | (lengths < SMALLEST_ADD) | (lengths > max_frame)
    return starts[: int(other.argmax()) + 1] if other.any() else starts


def _single(buffer: bytes | bytearray, start: int, end: int) -> AddRun:
    _, header, master_key, ledger, entry = ADD_HEAD.unpack_from(buffer, start)
    places, entries = numpy.array((start, end), numpy.int64), numpy.array((entry,), numpy.int64)
    return AddRun(header >> 24, header & 0xFFFF, master_key, ledger, places, entries, True)


def is_rising(entries: NDArray[numpy.int64]) -> bool:
    """Whether each entry id is above the one before."""
    return len(entries) == 1 or bool((entries[1:] > entries[:-1]).all())


def _runs(buffer: bytes | bytearray, starts: NDArray[numpy.int64]) -> list[AddRun | OtherFrame]:
    """Cut frames, each as long as an add's head or longer, where header word, master key or ledger change."""
    count = len(starts) - 1
    window = numpy.ndarray((len(buffer) - ADD_HEAD.size + 1, ADD_HEAD.size), numpy.uint8, buffer, 0, (1, 1))
    words = window[starts[:-1]].view(numpy.uint32)
    shared = words[:, _RUN_WORDS]
    entries = words[:, _ENTRY_WORDS].copy().view(">i8").ravel().astype(numpy.int64)
    rising = False  # all runs are: each is looked at alone only where not
    if (shared == shared[0]).all():
        bounds = [0, count]
    else:
        differs = (shared[1:] != shared[:-1]).any(axis=1)
        bounds = [0, *(numpy.flatnonzero(differs) + 1).tolist(), count]
        rising = bool((differs | (entries[1:] > entries[:-1])).all())
    requests: list[AddRun | OtherFrame] = []
    for first, last in itertools.pairwise(bounds):
        places, ids = starts[first : last + 1], entries[first:last]
        _, header, master_key, ledger, _ = ADD_HEAD.unpack_from(buffer, int(places[0]))
        if _is_add(header):
            version, flags = header >> 24, header & 0xFFFF
            requests.append(AddRun(version, flags, master_key, ledger, places, ids, rising or is_rising(ids)))
        else:
            requests += itertools.starmap(OtherFrame, itertools.pairwise(places.tolist()))
    return requests


def add_responses(run: AddRun, error: int = Code.OK) -> bytes:
    """The responses to all requests of a run, in its order."""
    first = encode_response(Op.ADD, error, run.ledger, int(run.entries[0]), b"", run.version)
    if len(run) == 1:
        return first
    if len(run) < _FEWEST_AS_BLOCK:
        head = first[: -_ENTRY_ID.size]
        return b"".join([head + _ENTRY_ID.pack(entry) for entry in run.entries.tolist()])
    words = numpy.empty((len(run), RESPONSE.size // 4), numpy.uint32)
    words[:, :5] = numpy.frombuffer(first, numpy.uint32)[:5]
    words[:, 5:] = run.entries.astype(">i8").view(numpy.uint32).reshape(-1, 2)
    return words.tobytes()


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    """One add request; `entry` as stored, from its ledger id to the end of its payload."""
    return HEAD.pack(4 + len(master_key) + len(entry), header_word(Op.ADD, flags)) + master_key + entry


def encode_read(ledger: int, entry: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """A read request; LAST_ENTRY asks for the last entry, a fencing one needs the master key."""
    length = READ_REQUEST.size - 4 + len(master_key)
    return READ_REQUEST.pack(length, header_word(Op.READ, flags), ledger, entry) + master_key


def encode_batch_read(
    ledger: int, entry: int, request_id: int, max_count: int, max_size: int, flags: int = 0, master_key: bytes = b""
) -> bytes:
    """A batch read request: at most `max_count` entries (0: no limit) in a frame of at most `max_size` bytes."""
    length = BATCH_READ_REQUEST.size - 4 + len(master_key)
    head = header_word(Op.BATCH_READ, flags)
    return BATCH_READ_REQUEST.pack(length, head, ledger, entry, request_id, max_count, max_size) + master_key


def encode_auth(message: bytes, version: int = VERSION) -> bytes:
    """An auth request or response; `message` is an AuthMessage as bytes."""
    return HEAD.pack(4 + len(message), header_word(Op.AUTH, 0, version)) + message


def encode_response(op: int, error: int, ledger: int, entry: int, body: bytes = b"", version: int = VERSION) -> bytes:
    """A response to an add or read; `body` is the stored entry that a read asked for."""
    return RESPONSE.pack(RESPONSE.size - 4 + len(body), header_word(op, 0, version), error, ledger, entry) + body


@dataclass(frozen=True, slots=True)
class BatchReadRequest:
    """What a batch read asks for; `max_count` 0 or less is no limit, `max_size` counts the bytes of the response."""

    request_id: int
    max_count: int
    max_size: int


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read of one entry, or of several with `batch`; a fencing one has the master key."""

    version: int
    op: int
    flags: int
    ledger: int
    entry: int
    master_key: bytes = b""
    batch: BatchReadRequest | None = None

    @property
    def fencing(self) -> bool:
        """Whether the read fences the ledger; only version 2 can."""
        return bool(self.flags & Flag.FENCE) and self.version >= VERSION

    def refusal(self, error: int) -> bytes:
        """The response that says why not."""
        if self.batch is None:
            return encode_response(self.op, error, self.ledger, self.entry, b"", self.version)
        head = header_word(self.op, 0, self.version)
        length = BATCH_RESPONSE.size - 4
        return BATCH_RESPONSE.pack(length, head, error, self.ledger, self.entry, self.batch.request_id)


def decode_read(frame: bytes | memoryview) -> ReadRequest:
    """A read or batch read request from its frame, length field included. MalformedFrame when it is too short."""
    _, header = HEAD.unpack_from(frame)
    version, op, flags = header >> 24, header >> 16 & 0xFF, header & 0xFFFF
    shape = BATCH_READ_REQUEST if op == Op.BATCH_READ else READ_REQUEST
    fencing = flags & Flag.FENCE and version >= VERSION
    needed = shape.size + (MASTER_KEY_SIZE if fencing else 0)
    if len(frame) < needed:
        raise MalformedFrame(f"read request of {len(frame) - 4} bytes, {needed - 4} needed")
    master_key = bytes(frame[shape.size : needed]) if fencing else b""
    _, _, ledger, entry, *rest = shape.unpack_from(frame)
    return ReadRequest(version, op, flags, ledger, entry, master_key, BatchReadRequest(*rest) if rest else None)


@dataclass(frozen=True, slots=True)
class Response:
    """A response that is not auth. `body` is the stored entry of a read, (size 4, entry)… of a batch read."""

    version: int
    op: int
    error: int
    ledger: int
    entry: int
    request_id: int
    body: bytes


def decode_response(frame: bytes | memoryview) -> Response:
    """A response to an add, read or batch read from its frame, length field included. MalformedFrame."""
    if len(frame) < RESPONSE.size:
        raise MalformedFrame(f"response of {len(frame) - 4} bytes, {RESPONSE.size - 4} needed")
    _, header, error, ledger, entry = RESPONSE.unpack_from(frame)
    version, op, at, request_id = header >> 24, header >> 16 & 0xFF, RESPONSE.size, 0
    if op == Op.BATCH_READ:
        if len(frame) < BATCH_RESPONSE.size:
            raise MalformedFrame(f"batch read response of {len(frame) - 4} bytes, {BATCH_RESPONSE.size - 4} needed")
        *_, request_id = BATCH_RESPONSE.unpack_from(frame)
        at = BATCH_RESPONSE.size
    return Response(version, op, error, ledger, entry, request_id, bytes(frame[at:]))


def batch_entries(body: bytes) -> Iterator[bytes]:
    """The stored entries in the body of a batch read response, in order. MalformedFrame when a size is wrong."""
    at = 0
    while at < len(body):
        if len(body) - at < LENGTH.size:
            raise MalformedFrame(f"{len(body) - at} bytes behind the last entry of a batch read")
        (size,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if at + size > len(body):
            raise MalformedFrame(f"entry of {size} bytes in a batch read that has {len(body) - at} left")
        yield body[at : at + size]
        at += size
