"""BookKeeper's protocol version 2: frames in, frames out. No I/O (formats.md, Bookie protocol).

A frame is a 4-byte length of the rest, a header word (version << 24 | operation << 16 | flags), and the fields of the
operation. `request_frames` shows how a bookie parses many of them at once.
"""

import enum
import struct
from collections.abc import Iterator

from msgspec import Struct

from mledger.bookie.errors import BookieError

VERSION = 2
LOWEST_VERSION = 0
VERSION_3_TAG = 0x0A
"""First byte of a version 3 frame: field 1 (the header) of a protobuf message."""

MAX_FRAME = 5_253_120
"""The most bytes after a frame's length by default: Pulsar's largest message and its frame padding."""

LARGEST_FRAME = 1 << 29
"""The most bytes that a bookie's limit may be set to."""

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


_FENCE = int(Flag.FENCE)  # `&` with a Flag is a function in Python


class MalformedFrame(BookieError):
    """Bytes that are not a frame of the protocol: the connection is unusable."""


LENGTH = struct.Struct(">I")
HEAD = struct.Struct(">II")
"""Length and header word: the head of every frame."""
ADD_HEAD = struct.Struct(">II20sqq")
"""Length, header word, master key, ledger, entry: the head of an add request; the entry begins with the last two."""
ENTRY_HEAD = struct.Struct(">qqqq")
"""Ledger, entry, last add confirmed, ledger length: the head of an entry; digest and payload follow."""
READ_REQUEST = struct.Struct(">IIqq")
FENCE_REQUEST = struct.Struct(">IIqq20s")
BATCH_READ_REQUEST = struct.Struct(">IIqqqiq")
"""Length, header word, ledger, entry, request id, max count, max size; a fencing read appends the master key."""
RESPONSE = struct.Struct(">IIIqq")
"""Length, header word, error, ledger, entry: the head of every response except an auth response."""
BATCH_RESPONSE = struct.Struct(">IIIqqq")
"""A response's head and the request id; (size 4, entry)… follows."""

ENTRY_AT = ADD_HEAD.size - 16
"""Where an add frame's entry begins, counted from the frame's length field."""
SMALLEST_ADD = ENTRY_AT - LENGTH.size + ENTRY_HEAD.size
"""The smallest length field of an add: header word, master key, and an entry's head."""


def header_word(op: int, flags: int = 0, version: int = VERSION) -> int:
    """The header word of an operation."""
    return version << 24 | op << 16 | flags


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    """One add request; `entry` as stored, from its ledger id to the end of its payload."""
    return HEAD.pack(4 + len(master_key) + len(entry), header_word(Op.ADD, flags)) + master_key + entry


def encode_read(ledger: int, entry: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """A read request; LAST_ENTRY asks for the last entry, a fencing read needs the master key."""
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


class BatchReadRequest(Struct, frozen=True):
    """A batch read's limits; `max_count` 0 or less is no limit, `max_size` counts the bytes of the response."""

    request_id: int
    max_count: int
    max_size: int


class ReadRequest(Struct, frozen=True):
    """A read of one entry, or of several with `batch`; a fencing read has the master key."""

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
        return bool(self.flags & _FENCE) and self.version >= VERSION

    def refusal(self, error: int) -> bytes:
        """The error response."""
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
    fencing = flags & _FENCE and version >= VERSION
    needed = shape.size + (MASTER_KEY_SIZE if fencing else 0)
    if len(frame) < needed:
        raise MalformedFrame(f"read request of {len(frame) - 4} bytes, {needed - 4} needed")
    master_key = bytes(frame[shape.size : needed]) if fencing else b""
    _, _, ledger, entry, *rest = shape.unpack_from(frame)
    return ReadRequest(version, op, flags, ledger, entry, master_key, BatchReadRequest(*rest) if rest else None)


class Response(Struct, frozen=True):
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
            raise MalformedFrame(f"{len(body) - at} bytes after the last entry of a batch read")
        (size,) = LENGTH.unpack_from(body, at)
        at += LENGTH.size
        if at + size > len(body):
            raise MalformedFrame(f"entry of {size} bytes in a batch read that has {len(body) - at} left")
        yield body[at : at + size]
        at += size
