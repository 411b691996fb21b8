"""Encodes batches of payloads as add frames, and decodes stored entries to payloads: no I/O.

A whole batch is encoded in one pass: the heads are columns of one array, whatever the sizes of the payloads. The result
of a batch read is checked in one pass if its entries have one size, else entry by entry.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mledger.bookie import wire
from mledger.bookie.digest import Digest
from mledger.bookie.errors import BookieRefused

if TYPE_CHECKING:
    import numpy  # imported only for many entries, so that short commands start faster

_FEW = 6  # below this many entries a loop is faster than arrays
_HEADER_AT = wire.ENTRY_AT
_HEADER_END = _HEADER_AT + wire.ENTRY_HEAD.size
_RECOVERY_ADD = wire.header_word(wire.Op.ADD, wire.Flag.RECOVERY_ADD | wire.Flag.HIGH_PRIORITY)


@cache
def _head_type(key_size: int, digest_size: int) -> "numpy.dtype[Any]":
    """The fields of an add's head."""
    import numpy

    fields = [
        ("frame", ">u4"),
        ("header", ">u4"),
        ("key", f"V{key_size}"),
        ("ledger", ">i8"),
        ("entry", ">i8"),
        ("lac", ">i8"),
        ("length", ">i8"),
    ]
    if digest_size:
        fields.append(("digest", f"V{digest_size}"))
    return numpy.dtype(fields)


def largest_payload(max_frame: int, digest: Digest) -> int:
    """The largest payload, in bytes, whose add with `digest` fits `max_frame`."""
    return max_frame - (_add_head_size(digest) - wire.LENGTH.size)


def _add_head_size(digest: Digest) -> int:
    return wire.ADD_HEAD.size + 16 + digest.size


class AddFramer:
    """Encodes the adds of one ledger, with its digest and master key."""

    __slots__ = ("_digest", "_header", "_key", "_ledger_id", "_template", "head_size")

    def __init__(self, ledger_id: int, digest: Digest, master_key: bytes) -> None:
        self._ledger_id, self._digest, self._key = ledger_id, digest, master_key
        self._header = wire.header_word(wire.Op.ADD)
        self.head_size = _add_head_size(digest)
        self._template: numpy.ndarray[Any, Any] | None = None  # most ledgers of an owner are idle and need none

    def _heads(self, count: int) -> "numpy.ndarray[Any, Any]":
        """Heads of `count` adds, to be filled in."""
        if self._template is None:
            import numpy

            self._template = numpy.zeros(1, _head_type(len(self._key), self._digest.size))
            self._template["header"], self._template["ledger"] = self._header, self._ledger_id
            self._template["key"] = numpy.void(self._key)
        return self._template.repeat(count)

    def frame_size(self, payload_size: int) -> int:
        """Bytes that follow the length field of the add of a payload of `payload_size` bytes."""
        return self.head_size - wire.LENGTH.size + payload_size

    def parts(self, payloads: Sequence[bytes], first: int, last_add_confirmed: int, length: int) -> list[bytes]:
        """The add frames of `payloads` as entries `first`…, each in two parts, head and payload.

        `length` is the ledger's length in bytes before them.
        """
        count = len(payloads)
        if count < _FEW:
            return self._few(payloads, first, last_add_confirmed, length)
        import numpy

        sizes = numpy.fromiter(map(len, payloads), numpy.int64, count)
        heads = self._heads(count)
        heads["frame"] = sizes + (self.head_size - wire.LENGTH.size)
        heads["entry"] = numpy.arange(first, first + count)
        heads["lac"] = last_add_confirmed
        heads["length"] = sizes.cumsum() + length
        if self._digest.size:
            covered = heads.view(numpy.uint8).reshape(count, self.head_size)[:, _HEADER_AT:_HEADER_END]
            headers = _rows(covered)
            digests = b"".join(self._digest.values(headers, payloads))
            heads["digest"] = numpy.frombuffer(digests, f"V{self._digest.size}")
        parts = [b""] * (2 * count)
        parts[::2] = heads.view(f"V{self.head_size}").tolist()
        parts[1::2] = payloads
        return parts

    def _few(self, payloads: Sequence[bytes], first: int, last_add_confirmed: int, length: int) -> list[bytes]:
        parts = []
        for entry, payload in enumerate(payloads, first):
            length += len(payload)
            head = wire.HEAD.pack(self.frame_size(len(payload)), self._header) + self._key
            covered = wire.ENTRY_HEAD.pack(self._ledger_id, entry, last_add_confirmed, length)
            parts += [head + covered + self._digest.value(covered, payload), payload]
        return parts


def recovery_parts(stored: Sequence[bytes], master_key: bytes) -> list[bytes]:
    """Recovery adds of entries as a bookie stored them, each in two parts, head and entry."""
    parts = []
    for entry in stored:
        parts += [wire.HEAD.pack(4 + len(master_key) + len(entry), _RECOVERY_ADD) + master_key, entry]
    return parts


class StoredEntry(Struct, frozen=True):
    """A stored entry that passed its digest."""

    entry: int
    last_add_confirmed: int
    length: int
    payload: bytes
    stored: bytes


def open_entry(stored: bytes, ledger_id: int, entry: int | None, digest: Digest) -> StoredEntry | None:
    """Check and open a stored entry; None unless it is `entry` of `ledger_id` and passes the digest.

    With `entry` None, any entry is accepted: the result of a read of the last entry.
    """
    body = wire.ENTRY_HEAD.size + digest.size
    if len(stored) < body:
        return None
    ledger, number, last_add_confirmed, length = wire.ENTRY_HEAD.unpack_from(stored)
    if ledger != ledger_id or (number != entry if entry is not None else number < 0):
        return None
    payload = stored[body:]
    if not digest.verify(stored[: wire.ENTRY_HEAD.size], payload, stored[wire.ENTRY_HEAD.size : body]):
        return None
    return StoredEntry(number, last_add_confirmed, length, payload, stored)


def open_batch(body: bytes, ledger_id: int, first: int, digest: Digest) -> list[bytes]:
    """Payloads of entries from `first` on in a batch read's answer, up to the first that is not in order.

    `body` is a sequence of size (4 bytes) and stored entry. An entry that fails its digest, or is not the expected one,
    ends the list.
    """
    payloads = _open_equal(body, ledger_id, first, digest)
    return _open_one_by_one(body, ledger_id, first, digest) if payloads is None else payloads


def _open_equal(body: bytes, ledger_id: int, first: int, digest: Digest) -> list[bytes] | None:
    """The result of `open_batch`, if the entries have one size and all are in order; else None."""
    if len(body) < wire.LENGTH.size:
        return None
    size = wire.LENGTH.unpack_from(body)[0]
    count, rest = divmod(len(body), wire.LENGTH.size + size)
    head = wire.LENGTH.size + wire.ENTRY_HEAD.size
    if rest or count < _FEW or size <= wire.ENTRY_HEAD.size + digest.size:
        return None
    import numpy

    rows = numpy.frombuffer(body, numpy.uint8).reshape(count, -1)
    sizes = numpy.ascontiguousarray(rows[:, : wire.LENGTH.size]).view(">u4")
    if (sizes != size).any():
        return None
    headers = numpy.ascontiguousarray(rows[:, wire.LENGTH.size : head])
    numbers = headers.view(">i8")
    if (numbers[:, 0] != ledger_id).any() or (numbers[:, 1] != numpy.arange(first, first + count)).any():
        return None
    payloads = _rows(rows[:, head + digest.size :])
    if digest.size:
        kept = numpy.ascontiguousarray(rows[:, head : head + digest.size]).tobytes()
        if b"".join(digest.values(_rows(headers), payloads)) != kept:
            return None
    return payloads


def _open_one_by_one(body: bytes, ledger_id: int, first: int, digest: Digest) -> list[bytes]:
    payloads: list[bytes] = []
    try:
        for entry, stored in enumerate(wire.batch_entries(body), first):
            opened = open_entry(stored, ledger_id, entry, digest)
            if opened is None:
                break
            payloads.append(opened.payload)
    except wire.MalformedFrame as error:
        what = f"ledger {ledger_id}, batch read from entry {first}: {error}; see the bookie's log"
        raise BookieRefused(what) from error
    return payloads


def _rows(block: "numpy.ndarray[tuple[int, int], numpy.dtype[numpy.uint8]]") -> list[bytes]:
    """The rows of a block of bytes, each as `bytes`."""
    import numpy

    rows: list[bytes] = numpy.ascontiguousarray(block).view(f"V{block.shape[1]}").ravel().tolist()
    return rows
