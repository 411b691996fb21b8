"""Stored runs: add requests of one ledger as they arrived, with ascending entry ids. No I/O."""

from collections.abc import Iterator, Sequence

import numpy
from msgspec import Struct
from numpy.typing import NDArray

from mledger.bookie import wire

FRAME_HEAD = wire.ENTRY_AT
"""Bytes of a stored frame that precede its entry: length, header word, master key."""

_SIZE_AT = FRAME_HEAD - wire.LENGTH.size


class StoredRun(Struct, frozen=True):
    """One stored run. `starts` are the places of the frames, then the last one's end; `stride` 0: mixed sizes."""

    value: bytes
    stride: int
    starts: NDArray[numpy.int64]
    entries: NDArray[numpy.int64]

    @property
    def ledger(self) -> int:
        """The ledger of the first entry."""
        return int.from_bytes(self.value[FRAME_HEAD : FRAME_HEAD + 8], "big")

    @property
    def first(self) -> int:
        """The first entry id."""
        return self.entries.item(0)

    @property
    def last(self) -> int:
        """The last entry id."""
        return self.entries.item(-1)

    def index(self, entry: int) -> int:
        """Which frame holds the entry, -1 if none does."""
        entries = self.entries
        at = entry - entries.item(0)
        if not (0 <= at < len(entries) and entries.item(at) == entry):  # there are gaps before it, or it is missing
            at = int(entries.searchsorted(entry))
        return at if at < len(entries) and entries.item(at) == entry else -1

    def frame(self, index: int) -> bytes:
        """A frame as it arrived."""
        return self.value[self.starts[index] : self.starts[index + 1]]

    def entry(self, index: int) -> bytes:
        """An entry as stored."""
        if self.stride:
            at = index * self.stride
            return self.value[at + FRAME_HEAD : at + self.stride]
        return self.value[self.starts.item(index) + FRAME_HEAD : self.starts.item(index + 1)]

    def consecutive(self, index: int) -> int:
        """How many frames from `index` on hold entries without a gap."""
        entries = self.entries[index:]
        if entries[-1] - entries[0] == len(entries) - 1:
            return len(entries)
        return int((entries - entries[0] != numpy.arange(len(entries))).argmax())

    def sized(self, index: int, most: int, room: int) -> tuple[Sequence[bytes | memoryview], int, int]:
        """(size 4, entry)… of at most `most` consecutive entries from `index` on that fit in `room` bytes.

        Returns the parts, how many entries and how many bytes they are.
        """
        most = min(most, self.consecutive(index))
        if self.stride:
            return self._sized_block(index, most, room)
        sizes = numpy.diff(self.starts[index : index + most + 1]) - _SIZE_AT
        count = int(numpy.searchsorted(numpy.cumsum(sizes), room, side="right"))
        parts: list[bytes | memoryview] = []
        for at, size in zip(self.starts[index : index + count].tolist(), sizes.tolist(), strict=False):
            parts += (wire.LENGTH.pack(size - 4), self.value[at + FRAME_HEAD : at + _SIZE_AT + size])
        return parts, count, int(sizes[:count].sum())

    def _sized_block(self, index: int, most: int, room: int) -> tuple[Sequence[bytes | memoryview], int, int]:
        size = self.stride - _SIZE_AT
        count = min(most, room // size)
        if count <= 0:
            return (), 0, 0
        block = numpy.empty((count, size), numpy.uint8)
        rows = numpy.frombuffer(self.value, numpy.uint8).reshape(-1, self.stride)
        block[:] = rows[index : index + count, _SIZE_AT:]
        block[:, :4] = numpy.frombuffer(wire.LENGTH.pack(size - 4), numpy.uint8)
        return (block.data.cast("B"),), count, count * size


def parse_run(value: bytes) -> StoredRun:
    """Find the frames of a stored value. MalformedFrame when it is not a run."""
    starts: list[int] | NDArray[numpy.int64]
    length = int.from_bytes(value[: wire.LENGTH.size], "big")
    if length < wire.SMALLEST_ADD:
        raise wire.MalformedFrame(f"a stored run of {len(value)} bytes does not begin with an add")
    stride = wire.LENGTH.size + length
    if stride == len(value):
        entry = wire.ADD_HEAD.unpack_from(value)[-1]
        return StoredRun(value, stride, numpy.array((0, stride), numpy.int64), numpy.array((entry,), numpy.int64))
    count, rest = divmod(len(value), stride)
    if not rest and _all_equal(value, count, stride):
        starts = numpy.arange(0, len(value) + 1, stride, dtype=numpy.int64)
    else:
        stride, starts = 0, numpy.array(list(_frame_starts(value)), numpy.int64)
    window = numpy.ndarray((len(value) - wire.ADD_HEAD.size + 1, 8), numpy.uint8, value, wire.ADD_HEAD.size - 8, (1, 1))
    entries = window[starts[:-1]].view(">i8").ravel().astype(numpy.int64)
    return StoredRun(value, stride, starts, entries)


def _all_equal(value: bytes, count: int, stride: int) -> bool:
    lengths = numpy.ndarray(count, numpy.uint32, value, 0, (stride,))
    return bool((lengths == lengths[0]).all())


def _frame_starts(value: bytes) -> Iterator[int]:
    at, unpack, last = 0, wire.LENGTH.unpack_from, len(value) - wire.LENGTH.size
    while at <= last:
        yield at
        (length,) = unpack(value, at)
        if length < wire.SMALLEST_ADD:
            raise wire.MalformedFrame(f"a stored run holds a frame of {length} bytes, which is not an add")
        at += 4 + length
    if at != len(value):
        raise wire.MalformedFrame(f"a stored run of {len(value)} bytes ends inside a frame")
    yield at
