"""ZooKeeper's records in jute, the encoding of its snapshot and log files. Big-endian; no I/O.

A string or buffer is a 4-byte length and its bytes, -1 for null; a vector is a count and its items. A transaction is a
header, the operation and, since ZooKeeper 3.6, the digest of the tree after it. Times are ms since 1970.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple


class OpCode:
    """Operation codes."""

    CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI, CREATE2, RECONFIG = 1, 2, 5, 7, 13, 14, 15, 16
    CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 19, 20, 21
    ERROR, CREATE_SESSION, CLOSE_SESSION = -1, -10, -11


_NEVER_IN_MULTI = (OpCode.MULTI, OpCode.CLOSE_SESSION, OpCode.CREATE_SESSION, OpCode.SET_ACL, OpCode.RECONFIG)

CONTAINER_OWNER = -(1 << 63)
_TTL_MARK = 0xFF << 56
_TTL_RESERVED = 0xFFFF << 40
_TTL_VALUE = (1 << 40) - 1
_UNSIGNED = (1 << 64) - 1

HEADER = struct.Struct(">qiqqi")  # client id, cxid, zxid, time, type
DIGEST = struct.Struct(">iq")
INT = struct.Struct(">i")
LONG = struct.Struct(">q")
FILE_HEADER = struct.Struct(">4siq")  # magic, version, database id
FILE_VERSION = 2
SEAL_TEXT = b"\x00\x00\x00\x01/"
MAX_LENGTH = 1 << 27  # far above any jute.maxbuffer in use: a greater length is a wrong one


class Acl(NamedTuple):
    """One entry of an access control list: permission bits (read 1, write 2, create 4, delete 8, admin 16) and who."""

    perms: int
    scheme: str
    id: str


Acls = tuple[Acl, ...]

OPEN_ACL: Acls = (Acl(31, "world", "anyone"),)
# A fuzzy snapshot can name a list that was added after its table of lists was written: the log has it.
UNKNOWN_ACL: Acls = (Acl(0, "unknown", ""),)


class Znode(NamedTuple):
    """A node as ZooKeeper keeps it; times in ms since 1970.

    `data` None is null (not empty). `cversion` counts the children ever created (see `client_cversion`).
    `ephemeral_owner` is the raw 64-bit field (see `session` and `ttl_ms`). It is a tuple because millions are created.
    """

    path: str
    data: bytes | None
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    pzxid: int
    acl: Acls
    num_children: int

    @property
    def client_cversion(self) -> int:
        """The cversion as a server returns it to clients: creations and deletions of children."""
        return self.cversion * 2 - self.num_children

    @property
    def session(self) -> int:
        """The session that owns the ephemeral node; 0 for persistent, container and TTL nodes."""
        return session_of(self.ephemeral_owner)

    @property
    def container(self) -> bool:
        """Whether the server deletes the node once its last child is gone."""
        return self.ephemeral_owner == CONTAINER_OWNER

    @property
    def ttl_ms(self) -> int:
        """The time to live of a TTL node in ms, 0 for others."""
        return ttl_of(self.ephemeral_owner)


def ttl_of(owner: int) -> int:
    """The time to live in ms that an owner field encodes, 0 if it has none (high byte 0xff, two bytes 0, value)."""
    raw = owner & _UNSIGNED
    return raw & _TTL_VALUE if raw & (_TTL_MARK | _TTL_RESERVED) == _TTL_MARK else 0


def ttl_owner(ttl_ms: int) -> int:
    """The owner field, as a signed number, of a node with a time to live of `ttl_ms` ms."""
    return (_TTL_MARK | (ttl_ms & _TTL_VALUE)) - (1 << 64)


def session_of(owner: int) -> int:
    """The session id in an owner field; 0 if it marks a container or a time to live, or is empty."""
    return 0 if owner == CONTAINER_OWNER or ttl_of(owner) else owner


def parent_of(path: str) -> str:
    """The path of the parent; the root is its own parent."""
    return path[: path.rfind("/")] or "/"


class JuteError(ValueError):
    """Bytes that are not a valid record; `where` is the offset within the record."""

    def __init__(self, message: str, where: int) -> None:
        super().__init__(message)
        self.where = where


def text(data: bytes) -> str:
    """A jute text. Java writes characters beyond U+FFFF as two surrogates of three bytes each; both forms are read."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        utf16 = data.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass")
        return utf16.decode("utf-16-be", "surrogatepass")


class Fields:
    """Reads fields one after the other; raises JuteError where they do not fit the bytes."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    def int32(self) -> int:
        """A 32-bit integer."""
        return self._number(INT)

    def int64(self) -> int:
        """A 64-bit integer."""
        return self._number(LONG)

    def flag(self) -> bool:
        """A truth value in one byte."""
        return self._take(1) != b"\x00"

    def buffer(self) -> bytes | None:
        """A byte string, or None for null."""
        length = self.int32()
        return None if length == -1 else self._take(length)

    def text(self) -> str:
        """A string; null is an error, because no record has it."""
        start = self.position
        data = self.buffer()
        if data is None:
            raise JuteError("a string is null", start)
        try:
            return text(data)
        except UnicodeDecodeError as error:
            raise JuteError("a string is not UTF-8", start) from error

    def count(self) -> int | None:
        """The number of items of a vector, None for null."""
        start = self.position
        count = self.int32()
        if count < -1 or count > len(self.data) - self.position:
            raise JuteError(f"a vector has an impossible count of {count} items", start)
        return None if count == -1 else count

    def texts(self) -> tuple[str, ...] | None:
        """A vector of strings, or None for null."""
        count = self.count()
        return None if count is None else tuple([self.text() for _ in range(count)])

    def acls(self) -> Acls:
        """An access control list; null means the open one."""
        count = self.count()
        if count is None:
            return OPEN_ACL
        return tuple([Acl(self.int32(), self.text(), self.text()) for _ in range(count)])

    def left(self) -> int:
        """The number of remaining bytes."""
        return len(self.data) - self.position

    def _number(self, form: struct.Struct) -> int:
        try:
            (number,) = form.unpack_from(self.data, self.position)
        except struct.error as error:
            raise JuteError("the record ends too early", self.position) from error
        self.position += form.size
        return int(number)

    def _take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise JuteError(f"a length of {length} does not fit", self.position)
        data = self.data[self.position : end]
        self.position = end
        return data


@dataclass(frozen=True, slots=True)
class TransactionHeader:
    """Session id, the client's transaction number, zxid, time by the leader's clock in ms, and operation code."""

    client_id: int
    cxid: int
    zxid: int
    time: int
    type: int


@dataclass(frozen=True, slots=True)
class CreateNode:
    """A node created by any of the four operations; `owner` is the raw field, `parent_cversion` -1 where not logged."""

    path: str
    data: bytes | None
    acl: Acls
    owner: int
    parent_cversion: int


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """A node deleted, by a client or as an empty container."""

    path: str


@dataclass(frozen=True, slots=True)
class SetData:
    """Data set to become `version`; also a changed configuration of the ensemble."""

    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class SetAcl:
    """Access control list set to become `version` (aversion)."""

    path: str
    acl: Acls
    version: int


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """A check within a multi; it changes nothing."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CreateSession:
    """A session began; `timeout_ms` as negotiated."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """A session ended; `paths` its ephemeral nodes, None in logs before 3.6, which do not list them."""

    paths: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that failed with this error code; it changes nothing but the last zxid."""

    code: int


@dataclass(frozen=True, slots=True)
class Multi:
    """Operations applied atomically; none is applied if one is a `Failed`. `types` are their operation codes."""

    types: tuple[int, ...]
    operations: "tuple[Operation, ...]"

    @property
    def failed(self) -> bool:
        """Whether the whole multi failed."""
        return any(isinstance(operation, Failed) for operation in self.operations)


Operation = CreateNode | DeleteNode | SetData | SetAcl | CheckVersion | CreateSession | CloseSession | Failed | Multi


@dataclass(frozen=True, slots=True)
class TransactionDigest:
    """The digest of the tree after a transaction, and the version of its algorithm."""

    version: int
    value: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One record of a log."""

    header: TransactionHeader
    operation: Operation
    digest: TransactionDigest | None

    @property
    def zxid(self) -> int:
        """The transaction's zxid."""
        return self.header.zxid


def decode_header(record: bytes) -> TransactionHeader:
    """The header of a log record; JuteError."""
    try:
        return TransactionHeader(*HEADER.unpack_from(record))
    except struct.error as error:
        raise JuteError("the record ends within its header", 0) from error


def decode_transaction(record: bytes) -> Transaction:
    """A log record; JuteError if it does not parse, or its operation is unknown."""
    header = decode_header(record)
    fields = Fields(record, HEADER.size)
    if header.type == OpCode.CLOSE_SESSION:
        operation: Operation = _close_session(fields)
    else:
        operation = _operation(fields, header, header.type)
    digest = None
    if fields.left() == DIGEST.size:
        digest = TransactionDigest(fields.int32(), fields.int64())
    elif fields.left():
        raise JuteError(f"{fields.left()} bytes follow the operation", fields.position)
    return Transaction(header, operation, digest)


def _operation(fields: Fields, header: TransactionHeader, kind: int) -> Operation:
    match kind:
        case OpCode.CREATE | OpCode.CREATE2 | OpCode.CREATE_CONTAINER | OpCode.CREATE_TTL:
            return _create(fields, header, kind)
        case OpCode.DELETE | OpCode.DELETE_CONTAINER:
            return DeleteNode(fields.text())
        case OpCode.SET_DATA | OpCode.RECONFIG:
            return SetData(fields.text(), fields.buffer(), fields.int32())
        case OpCode.SET_ACL:
            return SetAcl(fields.text(), fields.acls(), fields.int32())
        case OpCode.CHECK:
            return CheckVersion(fields.text(), fields.int32())
        case OpCode.MULTI:
            return _multi(fields, header)
        case OpCode.ERROR:
            return Failed(fields.int32())
        case OpCode.CREATE_SESSION:
            return CreateSession(fields.int32())
    raise JuteError(f"operation {kind} is unknown: the files are of a ZooKeeper newer than 3.9", HEADER.size)


def _create(fields: Fields, header: TransactionHeader, kind: int) -> CreateNode:
    path, data, acl = fields.text(), fields.buffer(), fields.acls()
    owner = 0
    if kind in (OpCode.CREATE, OpCode.CREATE2):
        owner = header.client_id if fields.flag() else 0
        # Before 3.4 the parent's cversion was not logged.
        parent_cversion = fields.int32() if fields.left() or kind == OpCode.CREATE2 else -1
    else:
        parent_cversion = fields.int32()
        owner = CONTAINER_OWNER if kind == OpCode.CREATE_CONTAINER else ttl_owner(fields.int64())
    return CreateNode(path, data, acl, owner, parent_cversion)


def _multi(fields: Fields, header: TransactionHeader) -> Multi:
    types: list[int] = []
    operations: list[Operation] = []
    for _ in range(fields.count() or 0):
        kind, start, data = fields.int32(), fields.position, fields.buffer()
        if kind in _NEVER_IN_MULTI:
            raise JuteError(f"operation {kind} cannot be part of a multi", start)
        part = Fields(data or b"")
        types.append(kind)
        operations.append(_operation(part, header, kind))
        if part.left():
            raise JuteError("a part of a multi is longer than its operation", start)
    return Multi(tuple(types), tuple(operations))


def _close_session(fields: Fields) -> CloseSession:
    """Decode the list of paths, which exists since 3.6 and can be off; only a digest may follow, or nothing."""
    start = fields.position
    try:
        paths = fields.texts()
        if all(path.startswith("/") for path in paths or ()) and fields.left() in (0, DIGEST.size):
            return CloseSession(paths)
    except JuteError:
        pass
    fields.position = start
    if fields.left() in (0, DIGEST.size):
        return CloseSession(None)
    raise JuteError("the list of a closed session's nodes does not parse", start)
