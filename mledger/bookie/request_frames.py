"""Requests in a bookie's receive buffer, parsed many at once, and their responses. No I/O.

A buffer is parsed as a whole: `scan` finds its frames and returns neighbouring adds of one ledger as one `AddRun`. It
uses arrays where the frames have one size, and a tight loop where they do not.
"""

import itertools
import struct
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from mledger.bookie.errors import Code
from mledger.bookie.wire import (
    ADD_HEAD,
    ENTRY_AT,
    HEAD,
    LENGTH,
    MAX_FRAME,
    RESPONSE,
    SMALLEST_ADD,
    VERSION,
    Op,
    encode_response,
)

_RUN_WORDS = slice(1, 9)  # header word, master key, ledger: shared by the adds of one run
_ENTRY_WORDS = slice(9, 11)
_FEWEST_AS_BLOCK = 8
MOST_FRAMES = 2048
"""The most frames that one scan looks for one by one: a buffer of small ones would take the loop for a second."""
_ENTRY_ID = struct.Struct(">q")


class AddRun(Struct, frozen=True):
    """Neighbouring add requests in a buffer that share header word, master key and ledger.

    `starts` are the places of the frames in the buffer, then the end of the last one; `entries` are their entry ids;
    `rising` says whether each id is above the one before.
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
        """The requests with the numbers `first` to `last` - 1."""
        entries = self.entries[first:last]
        starts = self.starts[first : last + 1]
        return AddRun(self.version, self.flags, self.master_key, self.ledger, starts, entries, is_rising(entries))

    def last_confirmed(self, buffer: bytes | bytearray) -> int:
        """The last add confirmed that the last entry carries."""
        return int(_ENTRY_ID.unpack_from(buffer, int(self.starts[-2]) + ENTRY_AT + 16)[0])

    def responses(self, error: int = Code.OK) -> bytes:
        """The responses to all requests, in order."""
        return add_responses(self, error)


class OtherFrame(Struct, frozen=True):
    """A whole frame that is not an add of version 0 to 2: its place, length field included."""

    start: int
    end: int


R_co = TypeVar("R_co", covariant=True)


class Scan(Struct, Generic[R_co], frozen=True):
    """The contents of a buffer: requests in order, the place after the last whole frame, and any error there."""

    requests: Sequence[R_co]
    end: int
    error: str = ""
    next_frame: int = 0
    """Size of the frame at `end`, with its length field; 0 while unknown."""


def scan(buffer: bytes | bytearray, start: int, filled: int, max_frame: int = MAX_FRAME) -> Scan[AddRun | OtherFrame]:
    """Find the whole frames in `buffer` between `start` and `filled`; not all if they are many requests."""
    requests: list[AddRun | OtherFrame] = []
    at = start
    while filled - at >= HEAD.size:
        if len(requests) >= MOST_FRAMES:
            return Scan(requests, at)
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
    """How many frames from `at` on have the first one's length; the frame after them may have any."""
    count = (filled - at) // stride
    if count == 1 or buffer[at + stride : at + stride + 4] != buffer[at : at + 4]:
        return 1
    lengths = numpy.ndarray(count, numpy.uint32, buffer, at, (stride,))
    differ = lengths != lengths[0]
    first = int(differ.argmax())
    return first if differ[first] else count


def _add_starts(buffer: bytes | bytearray, at: int, filled: int, max_frame: int) -> NDArray[numpy.int64]:
    """Places of the whole adds from `at` on, then the end of the last; stops at the first other frame."""
    found: list[int] = []
    append, unpack, last = found.append, LENGTH.unpack_from, filled - HEAD.size
    while at <= last:
        append(at)
        at += 4 + unpack(buffer, at)[0]
    if at <= filled:
        append(at)
    if len(found) <= _FEWEST_AS_BLOCK:
        return numpy.array(_few_starts(buffer, found, max_frame), numpy.int64)
    starts = numpy.array(found, numpy.int64)
    lengths = numpy.diff(starts) - LENGTH.size
    operations = numpy.frombuffer(buffer, numpy.uint8)[starts[:-1] + LENGTH.size + 1]
    other = (operations != Op.ADD) | (lengths < SMALLEST_ADD) | (lengths > max_frame)
    return starts[: int(other.argmax()) + 1] if other.any() else starts


def _few_starts(buffer: bytes | bytearray, places: list[int], max_frame: int) -> list[int]:
    """The places, up to that of the first frame that is no add."""
    for number, (start, end) in enumerate(itertools.pairwise(places)):
        length = end - start - LENGTH.size
        if buffer[start + LENGTH.size + 1] != Op.ADD or not SMALLEST_ADD <= length <= max_frame:
            return places[: number + 1]
    return places


def _single(buffer: bytes | bytearray, start: int, end: int) -> AddRun:
    _, header, master_key, ledger, entry = ADD_HEAD.unpack_from(buffer, start)
    places, entries = numpy.array((start, end), numpy.int64), numpy.array((entry,), numpy.int64)
    return AddRun(header >> 24, header & 0xFFFF, master_key, ledger, places, entries, True)


def is_rising(entries: NDArray[numpy.int64]) -> bool:
    """Whether each entry id is above the one before."""
    return len(entries) == 1 or bool((entries[1:] > entries[:-1]).all())


def _runs(buffer: bytes | bytearray, starts: NDArray[numpy.int64]) -> list[AddRun | OtherFrame]:
    """Split frames, each at least as long as an add's head, where header word, master key or ledger change."""
    count = len(starts) - 1
    if count < _FEWEST_AS_BLOCK and (run := _few_as_run(buffer, starts)) is not None:
        return [run]
    window = numpy.ndarray((len(buffer) - ADD_HEAD.size + 1, ADD_HEAD.size), numpy.uint8, buffer, 0, (1, 1))
    words = window[starts[:-1]].view(numpy.uint32)
    shared = words[:, _RUN_WORDS]
    entries = words[:, _ENTRY_WORDS].copy().view(">i8").ravel().astype(numpy.int64)
    rising = False  # true if all runs are; otherwise each run is checked alone
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


def _few_as_run(buffer: bytes | bytearray, starts: NDArray[numpy.int64]) -> AddRun | None:
    """A few frames as one run, without the arrays that many need; None if they are not adds of one."""
    first, *others, _ = starts.tolist()
    unpack = ADD_HEAD.unpack_from
    _, header, master_key, ledger, entry = unpack(buffer, first)
    if not _is_add(header):
        return None
    shared, ids, rising = (header, master_key, ledger), [entry], True
    for place in others:
        _, *of_frame, entry = unpack(buffer, place)
        if tuple(of_frame) != shared:
            return None
        rising = rising and entry > ids[-1]
        ids.append(entry)
    return AddRun(header >> 24, header & 0xFFFF, master_key, ledger, starts, numpy.array(ids, numpy.int64), rising)


def add_responses(run: AddRun, error: int = Code.OK) -> bytes:
    """The responses to all requests of a run, in order."""
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
