"""Writes a snapshot file that a real ZooKeeper starts from: sessions, one list, nodes, digest and seals (3.9's form).

A server started on it overwrites it at once with its own snapshot: give the server a copy if you need the file.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from bench.workload.synthetic import START_MS, Made
from mledger.snapshot.zookeeper_files.jute import (
    DIGEST,
    FILE_HEADER,
    FILE_VERSION,
    INT,
    LONG,
    SEAL_TEXT,
    Znode,
    parent_of,
)
from mledger.snapshot.zookeeper_files.trees.tree_digest import VERSION, TreeDigest

FLUSH_BYTES = 1 << 20
SESSION_MS = 24 * 3_600_000
"""So that no session that only the file knows ends while something is measured."""

_STAT = struct.Struct(">qqqqqiiiqq")
_LISTED = 1
_UNLISTED = -1
_OWN = (Made(""), Made("/zookeeper"), Made("/zookeeper/config"), Made("/zookeeper/quota"))


@dataclass(frozen=True, slots=True)
class WrittenSnapshot:
    """A snapshot file: where, its zxid, how many nodes and bytes it has."""

    path: Path
    zxid: int
    nodes: int
    size: int


def write_snapshot(directory: Path, made: Iterable[Made]) -> WrittenSnapshot:
    """Write `snapshot.<zxid>` into `directory`/version-2; every node has a transaction of its own."""
    children: dict[str, int] = {}
    every = list(made)
    if len({node.path for node in every}) < len(every):
        raise ValueError("a node was made twice")
    for node in chain(_OWN[1:], every):
        parent = parent_of(node.path)
        children[parent] = children.get(parent, 0) + 1
    zxid = len(every)
    path = directory / "version-2" / f"snapshot.{zxid:x}"
    path.parent.mkdir(parents=True, exist_ok=True)
    sessions = {node.session: SESSION_MS for node in every if node.session}
    with open(path, "wb") as stream:
        out = _Sealed(stream)
        out.write(_head(sessions))
        digest = TreeDigest()
        for number, node in enumerate(chain(_OWN, every), 1 - len(_OWN)):
            znode = _znode(node, max(0, number), children.get(node.path or "/", 0))
            digest.add(znode)
            out.write(_encoded(node, znode))
        out.write(SEAL_TEXT)
        out.seal()
        out.write(LONG.pack(zxid) + DIGEST.pack(VERSION, digest.value))
        out.seal()
        out.write(LONG.pack(zxid))
        out.seal()
        out.flush()
        return WrittenSnapshot(path, zxid, len(every) + len(_OWN), stream.tell())


class _Sealed:
    """Bytes on their way to a file, with the Adler-32 of all of them."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._waiting = bytearray()
        self._adler = 1

    def write(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) >= FLUSH_BYTES:
            self.flush()

    def seal(self) -> None:
        self.flush()
        self.write(LONG.pack(self._adler) + SEAL_TEXT)

    def flush(self) -> None:
        self._adler = zlib.adler32(self._waiting, self._adler)
        self._stream.write(self._waiting)
        self._waiting.clear()


def _head(sessions: Mapping[int, int]) -> bytes:
    listed = [INT.pack(len(sessions)), *(LONG.pack(session) + INT.pack(ms) for session, ms in sessions.items())]
    lists = INT.pack(1) + LONG.pack(_LISTED) + INT.pack(1) + INT.pack(31) + _text(b"world") + _text(b"anyone")
    return FILE_HEADER.pack(b"ZKSN", FILE_VERSION, -1) + b"".join(listed) + lists


def _znode(node: Made, number: int, children: int) -> Znode:
    """As if created by transaction `number`, its children and changes right after: 0 for ZooKeeper's own nodes."""
    time = START_MS + number if number else 0
    stat = (number, number, time, time + 1000 * node.version, node.version, children, 0, node.session, number)
    return Znode(node.path or "/", node.data, *stat, (), children)


def _encoded(node: Made, znode: Znode) -> bytes:
    acl = _LISTED if znode.czxid else _UNLISTED
    return _text(node.path.encode()) + _text(node.data) + _STAT.pack(acl, *znode[2:11])


def _text(data: bytes) -> bytes:
    return INT.pack(len(data)) + data
