"""ZooKeeper's multiRead (op 22, servers from 3.6 on): data or children of many nodes in one request. Kazoo lacks it.

A request is a sequence of sub-requests, each after a header {type 4, done 1, error 4}. A reply is a sequence of results
after such headers; an error is {-1, 0, code} and the code again. Both end with a header that has `done` set.
"""

import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct

from mledger.metastore.store import Node, Stat

MULTI_READ = 22
GET_DATA = 4
GET_CHILDREN = 8
NO_NODE = -101

_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_END = _HEADER.pack(-1, 1, -1)
_PATH_OVERHEAD = _HEADER.size + _INT.size + 1
# CZXID, MZXID, CTIME, MTIME, VERSION, cversion, aversion, OWNER, data length, NUMBER OF CHILDREN, pzxid
_STAT = struct.Struct("!qqqqi8xq4xi8x")

FIRST_NODES = 4
MAX_NODES = 250
REQUESTS_AT_ONCE = 16
GROWTH = 8
REPLY_BYTES = 1_000_000
REQUEST_BYTES = 500_000  # servers refuse requests above jute.maxbuffer, 1 MiB by default


class MultiReadReply(Struct, frozen=True):
    """What a multiRead found, in the order asked: nodes, or lists of children, None where there is no node."""

    values: list[Node | list[str] | None]
    refused: list[tuple[int, int]]  # index and ZooKeeper's error code, other than "no node"
    size: int  # bytes of the reply


class MultiRead:
    """A request as kazoo's client sends it."""

    type = MULTI_READ

    def __init__(self, kind: int, paths: Sequence[str]) -> None:
        """Ask for `kind` (GET_DATA or GET_CHILDREN) of each of `paths`, which include the chroot."""
        self._kind = kind
        self._paths = paths

    def serialize(self) -> bytes:
        """The bytes after the request's own header."""
        head = _HEADER.pack(self._kind, 0, -1)
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            parts += (head, _INT.pack(len(encoded)), encoded, b"\0")
        parts.append(_END)
        return b"".join(parts)

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> MultiReadReply:
        """The reply that begins at `offset`."""
        values: list[Node | list[str] | None] = []
        refused: list[tuple[int, int]] = []
        size = len(buffer)
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return MultiReadReply(values, refused, size)
            (number,) = _INT.unpack_from(buffer, offset)  # of bytes, of children, or an error code
            offset += _INT.size
            if kind == GET_DATA:
                end = offset + max(number, 0)
                czxid, mzxid, created, modified, version, owner, children = _STAT.unpack_from(buffer, end)
                stat = Stat(version, created, modified, children, owner, czxid, mzxid)
                values.append(Node(buffer[offset:end], stat))
                offset = end + _STAT.size
            elif kind == GET_CHILDREN:
                names, offset = _read_names(buffer, offset, number)
                values.append(names)
            else:
                if number != NO_NODE:
                    refused.append((len(values), number))
                values.append(None)


def _read_names(buffer: bytes, offset: int, count: int) -> tuple[list[str], int]:
    names = []
    for _ in range(count):
        (length,) = _INT.unpack_from(buffer, offset)
        start = offset + _INT.size
        offset = start + length
        names.append(buffer[start:offset].decode())
    names.sort()
    return names, offset


def plan_requests(paths: Sequence[str], nodes: int) -> Iterator[Sequence[str]]:
    """Split `paths` into runs of at most `nodes`, each short enough for one request."""
    longest = max(map(len, paths), default=0) * 4 + _PATH_OVERHEAD  # at most 4 bytes a character
    if longest * nodes <= REQUEST_BYTES:
        for start in range(0, len(paths), nodes):
            yield paths[start : start + nodes]
        return
    start = size = 0
    for index, path in enumerate(paths):
        length = len(path) * 4 + _PATH_OVERHEAD
        if index - start == nodes or (index > start and size + length > REQUEST_BYTES):
            yield paths[start:index]
            start, size = index, 0
        size += length
    if start < len(paths):
        yield paths[start:]


def plan_round(found: int, replies: Sequence[MultiReadReply], before: int = 0) -> tuple[int, int]:
    """How many nodes to ask for next in all, and in each request, after `found` of them came.

    The sizes are unknown: reading starts with a few nodes, or with one request if the nodes of the call before took
    `before` bytes each. It goes on with requests whose replies, if like those of the last round, stay near REPLY_BYTES.
    A server builds each reply in its memory.
    """
    mean = mean_bytes(replies) if replies else before
    if not mean:
        return FIRST_NODES, FIRST_NODES
    nodes = max(1, min(MAX_NODES, REPLY_BYTES // mean))
    return (min(nodes * REQUESTS_AT_ONCE, found * GROWTH) if replies else nodes), nodes


def mean_bytes(replies: Sequence[MultiReadReply]) -> int:
    """The bytes that each node took, in the reply where they took most; at least 1."""
    return max(1, *(reply.size // max(1, len(reply.values)) for reply in replies))
