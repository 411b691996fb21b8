"""ZooKeeper's digest of a tree, version 2: the sum, modulo 2^64, of a CRC-32 of each node.

It covers path, data and stat, not access control lists; nodes below `/zookeeper/` do not count, and the root's path is
empty. Servers with a locale other than UTF-8 on Java before 18 replaced each non-ASCII character of the path by `?`. So
both sums are kept, and a digest that equals either is right.
"""

import struct
import zlib

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.jute import TransactionDigest, Znode

VERSION = 2
_STAT = struct.Struct(">qqqqqiiiq")
_OWN = "/zookeeper/"  # ZooKeeper's own nodes, which each server also changes without a transaction
_MODULUS = 1 << 64


class TreeDigest:
    """The digest of the nodes added so far."""

    __slots__ = ("_in_ascii", "_in_utf8")

    def __init__(self) -> None:
        self._in_utf8 = 0
        self._in_ascii = 0

    def add(self, node: Znode, *, sign: int = 1) -> None:
        """Add the node to the digest; with `sign` -1, remove it."""
        path, data, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, _, _ = node
        if path.startswith(_OWN):
            return
        stat = _STAT.pack(czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner)
        content = data + stat if data else stat
        value = zlib.crc32(content, zlib.crc32(path.encode("utf-8", "surrogatepass") if path != "/" else b""))
        self._in_utf8 += value * sign
        if not path.isascii():
            value = zlib.crc32(content, zlib.crc32(path.encode("ascii", "replace")))
        self._in_ascii += value * sign

    def remove(self, node: Znode) -> None:
        """Remove a node that was added with the same fields."""
        self.add(node, sign=-1)

    @property
    def value(self) -> int:
        """The digest as a signed 64-bit number, paths in UTF-8."""
        return _signed(self._in_utf8)

    def agrees(self, expected: TransactionDigest) -> bool:
        """Whether `expected` is the digest of these nodes; True if its version is unknown."""
        return expected.version != VERSION or expected.value in (_signed(self._in_utf8), _signed(self._in_ascii))

    def check(self, expected: TransactionDigest, zxid: int) -> None:
        """Raise LogDoesNotFit unless `expected`, which ZooKeeper wrote after `zxid`, is the digest of these nodes."""
        if not self.agrees(expected):
            raise LogDoesNotFit(
                f"after zxid {zxid:#x} the tree's digest is {self.value}, but ZooKeeper wrote {expected.value}: a log "
                "is missing, or files of several servers are mixed; set verifyDigests=false to read the files anyway"
            )


def _signed(total: int) -> int:
    value = total % _MODULUS
    return value - _MODULUS if value >> 63 else value
