"""ZooKeeper's multi (op 14): writes that are carried out together or not at all. Kazoo's takes several times as long.

A request is a sequence of operations, each after a header {type 4, done 1, error 4}. A reply is a sequence of results
after such headers: a path for a create, a stat for a set, nothing for a delete or check; of a refused multi an error
code each. Both end with a header that has `done` set.
"""

import struct
from collections.abc import Sequence
from typing import Any

from kazoo.exceptions import EXCEPTIONS
from kazoo.security import ACL

from mledger.metastore.store import Check, Create, Delete, Operation, Put, Result

MULTI = 14
CREATE = 1
DELETE = 2
SET_DATA = 5
CHECK = 13
EPHEMERAL = 1
SEQUENTIAL = 2

_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STAT = struct.Struct("!32xi32x")  # of it, the version
_END = _HEADER.pack(-1, 1, -1)
_CREATE, _DELETE, _SET_DATA, _CHECK = (_HEADER.pack(kind, 0, -1) for kind in (CREATE, DELETE, SET_DATA, CHECK))


class MultiWrite:
    """A request as kazoo's client sends it."""

    type = MULTI

    def __init__(self, data: bytes) -> None:
        """`data`: operations by `write_operation`, one after the other."""
        self._data = data

    def serialize(self) -> bytes:
        """The bytes after the request's own header."""
        return self._data + _END

    @classmethod
    def deserialize(cls, buffer: bytes, offset: int) -> list[Result | Exception]:
        """The results in the reply that begins at `offset`: paths, versions, None, or kazoo's errors."""
        results: list[Result | Exception] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return results
            if kind == SET_DATA:
                results.append(_STAT.unpack_from(buffer, offset)[0])
                offset += _STAT.size
            elif kind == CREATE:
                start = offset + _INT.size
                offset = start + _INT.unpack_from(buffer, offset)[0]
                results.append(buffer[start:offset].decode())
            elif kind == -1:
                results.append(EXCEPTIONS[_INT.unpack_from(buffer, offset)[0]]())
                offset += _INT.size
            else:
                results.append(None)


def write_operation(operation: Operation, path: str, acl: bytes) -> bytes:
    """An operation's bytes; `path` includes the chroot, `acl` (`write_acl`) is that of a created node."""
    name = path.encode()
    where = _INT.pack(len(name)) + name
    match operation:
        case Create(_, data, ephemeral, sequential):
            flags = _INT.pack(EPHEMERAL * ephemeral | SEQUENTIAL * sequential)
            return b"".join((_CREATE, where, _INT.pack(len(data)), data, acl, flags))
        case Put(_, data, version):
            return b"".join((_SET_DATA, where, _INT.pack(len(data)), data, _INT.pack(version)))
        case Delete(_, version):
            return _DELETE + where + _INT.pack(version)
        case Check(_, version):
            return _CHECK + where + _INT.pack(version)


def write_acl(entries: "Sequence[ACL]") -> bytes:
    """An access control list's bytes."""
    parts: list[bytes] = [_INT.pack(len(entries))]
    for entry in entries:
        parts.append(_INT.pack(entry.perms))
        parts += (_text(part) for part in (entry.id.scheme, entry.id.id))
    return b"".join(parts)


def _text(text: Any) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data if data else _INT.pack(-1)
