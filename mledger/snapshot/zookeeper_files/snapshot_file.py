"""Reads one snapshot file of ZooKeeper as a stream: sessions, access control lists, nodes, checksums.

Format: header (magic, version, database id), sessions (id, timeout), access control lists (number, entries), nodes
(path, data, number of the list, stat) with each node before its children, the path `/` as end mark, and a seal (the
Adler-32 of all bytes before, then the text `/`). Since 3.6 the digest of the tree (zxid, version, value) and a seal
follow, since 3.9 also the last zxid processed and a seal. The tree changes while it is written (it is *fuzzy*): it
holds everything up to the zxid in the file's name, and parts of what came after, up to the zxid of the digest.
"""

import re
import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from mledger.snapshot.zookeeper_files.errors import CorruptFile, TruncatedFile
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import (
    DIGEST,
    FILE_HEADER,
    FILE_VERSION,
    INT,
    LONG,
    MAX_LENGTH,
    OPEN_ACL,
    SEAL_TEXT,
    UNKNOWN_ACL,
    Acls,
    Fields,
    JuteError,
    TransactionDigest,
    Znode,
    text,
)
from mledger.snapshot.zookeeper_files.streams import Window, chunks

_NAME = re.compile(r"snapshot\.([0-9a-f]{1,16})(|\.gz|\.snappy)")
_MAGIC = b"ZKSN"
_NODE = struct.Struct(">qqqqqiiiqq")  # number of the list, stat
_SEAL = LONG.size + len(SEAL_TEXT)
_DIGEST_PART = LONG.size + DIGEST.size + _SEAL
_ZXID_PART = LONG.size + _SEAL
_TAIL = 128  # more bytes than can follow the nodes
_ADVICE = "take another copy of it, or remove it: an older snapshot and the logs may suffice"


def snapshot_zxid(name: str) -> int | None:
    """The zxid in a snapshot file's name; None if it is not one."""
    match = _NAME.fullmatch(name)
    return int(match[1], 16) if match else None


@dataclass(frozen=True, slots=True)
class Trailer:
    """What follows the nodes: the digest of the tree at `digest_zxid`, and the last zxid; None if not written."""

    digest_zxid: int | None = None
    digest: TransactionDigest | None = None
    last_zxid: int | None = None

    def settled(self, zxid: int) -> int | None:
        """The zxid up to which the file named for `zxid` may hold changes; None if it does not say (before 3.6)."""
        if self.digest_zxid:
            return max(self.digest_zxid, zxid)  # lower: a new leader's snapshot, taken before its first transaction
        if self.last_zxid is not None:
            return self.last_zxid
        return zxid if self.digest else None  # an empty digest: no transaction since the server started


class SnapshotFile:
    """A snapshot file of `files`, which is read on demand."""

    def __init__(self, files: DataFiles, name: str) -> None:
        zxid = snapshot_zxid(name)
        if zxid is None:
            raise CorruptFile(f"{name} is not a snapshot file's name: snapshot.<zxid in hex>[.gz|.snappy]", name)
        self._files = files
        self.name = name
        self.zxid = zxid
        self.sessions: dict[int, int] = {}
        self.trailer: Trailer | None = None

    def tail(self) -> Trailer:
        """The trailer, from the file's end (a compressed file is read through); checksums are not verified.

        Raises TruncatedFile if the file has no end mark, CorruptFile.
        """
        with self._files.open(self.name) as file:
            if self.name.endswith((".gz", ".snappy")):
                end = b""
                for piece in chunks(file, self.name):
                    end = (end + piece)[-_TAIL:]
            else:
                size = file.seek(0, 2)
                file.seek(max(0, size - _TAIL))
                end = file.read()
        return _parse_tail(end, self.name)

    def nodes(self) -> Iterator[Znode]:
        """All nodes, each after its children; each checksum is verified when the reader reaches it.

        The nodes are valid only once the consumer has read to the end, where the file is known to be complete. Then
        `sessions` (id: timeout in ms) and `trailer` are set. A node whose list was added after the table of lists was
        written has UNKNOWN_ACL. Raises CorruptFile, TruncatedFile.
        """
        open_paths: list[str | None] = [None]  # from above the root to the last node: children of these may follow
        open_nodes: list[tuple[Any, ...]] = []
        counts: list[int] = [0]
        new_node = tuple.__new__  # half the time of the constructor
        for record in self._records():
            path = record[0]
            parent = path[: path.rfind("/")] or "/" if path != "/" else None
            while open_paths[-1] != parent:
                open_paths.pop()
                if not open_paths:
                    raise self._corrupt(f"{path} does not follow its parent")
                yield new_node(Znode, (*open_nodes.pop(), counts.pop()))
            counts[-1] += 1
            open_paths.append(path)
            open_nodes.append(record)
            counts.append(0)
        if counts[0] != 1:
            raise self._corrupt(f"{counts[0]} roots")
        while open_nodes:
            yield new_node(Znode, (*open_nodes.pop(), counts.pop()))

    def selected(self, prefixes: tuple[bytes, ...]) -> Iterator[tuple[Any, ...]]:
        """The fields of the nodes whose paths in UTF-8 begin with one of `prefixes`: path, data, and nine of the stat.

        A fifth of the time of `nodes`, with the same checks of the file. Raises CorruptFile, TruncatedFile.
        """
        with self._files.open(self.name) as file:
            window = Window(chunks(file, self.name))
            at, _ = self._read_head(window)
            at = yield from self._read_selected(window, at, prefixes)
            self.trailer = self._read_trailer(window, at)

    def _read_selected(
        self, window: Window, at: int, prefixes: tuple[bytes, ...]
    ) -> Generator[tuple[Any, ...], None, int]:
        """The selected nodes from offset `at` to the end mark; returns the offset after it. As `_read_nodes`."""
        length_at = INT.unpack_from
        data = window.data
        while True:
            try:
                (length,) = length_at(data, at)
                if length == 1:
                    return at + len(SEAL_TEXT)
                path_end = at + 4 + length
                (size,) = length_at(data, path_end)
                start = path_end + 4
                end = start if size < 0 else start + size
                if length < 0 or size < -1:
                    raise self._corrupt(f"a path of {length} bytes, data of {size}, at byte {window.base + at}")
                is_there = end + _NODE.size <= len(data)
            except struct.error:
                is_there = False
            if not is_there:
                if len(data) - at > MAX_LENGTH:
                    raise self._corrupt(f"an impossibly long node at byte {window.base + at}")
                if not window.more(at):
                    raise self._truncated(window.base + len(data))
                data, at = window.data, 0
                continue
            path = data[at + 4 : path_end]
            if path.startswith(prefixes):
                content = data[start:end] if size >= 0 else None
                yield self._odd_path(path, window.base + at), content, *_NODE.unpack_from(data, end)[1:]
            at = end + _NODE.size

    def _records(self) -> Iterator[tuple[Any, ...]]:
        """The fields of each node in the file's order, then the seals."""
        with self._files.open(self.name) as file:
            window = Window(chunks(file, self.name))
            at, acls = self._read_head(window)
            at = yield from self._read_nodes(window, at, acls)
            self.trailer = self._read_trailer(window, at)

    def _read_head(self, window: Window) -> tuple[int, dict[int, Acls]]:
        """Header, sessions and lists; returns the offset where the nodes begin."""
        while True:
            try:
                return self._parse_head(Fields(window.data))
            except JuteError as error:
                if len(window.data) > MAX_LENGTH:
                    raise self._corrupt(f"{error} at byte {error.where}") from error
                if not window.more(0):
                    raise self._truncated(len(window.data)) from error

    def _parse_head(self, fields: Fields) -> tuple[int, dict[int, Acls]]:
        if fields.left() < FILE_HEADER.size:
            raise JuteError("the header is incomplete", 0)
        magic, version, _ = FILE_HEADER.unpack_from(fields.data)
        if magic != _MAGIC or version != FILE_VERSION:
            raise self._corrupt(f"it begins with {magic!r}, version {version}, unlike ZooKeeper's snapshots")
        fields.position = FILE_HEADER.size
        self.sessions = {fields.int64(): fields.int32() for _ in range(fields.int32())}
        acls = {fields.int64(): fields.acls() for _ in range(fields.int32())}
        return fields.position, {-1: OPEN_ACL, **acls}

    def _read_nodes(self, window: Window, at: int, acls: dict[int, Acls]) -> Generator[tuple[Any, ...], None, int]:
        """The nodes from offset `at` to the end mark; returns the offset after it. A single loop, for speed."""
        length_at, node_at = INT.unpack_from, _NODE.unpack_from
        data = window.data
        while True:
            try:
                (length,) = length_at(data, at)
                if length == 1:
                    return at + len(SEAL_TEXT)
                path_end = at + 4 + length
                (size,) = length_at(data, path_end)
                start = path_end + 4
                end = start if size < 0 else start + size
                if length < 0 or size < -1:
                    raise self._corrupt(f"a path of {length} bytes, data of {size}, at byte {window.base + at}")
                acl, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = node_at(data, end)
            except struct.error:
                if len(data) - at > MAX_LENGTH:
                    raise self._corrupt(f"an impossibly long node at byte {window.base + at}") from None
                if not window.more(at):
                    raise self._truncated(window.base + len(data)) from None
                data, at = window.data, 0
                continue
            try:
                path = data[at + 4 : path_end].decode() or "/"
            except UnicodeDecodeError:
                path = self._odd_path(data[at + 4 : path_end], window.base + at)
            content = data[start:end] if size >= 0 else None
            acl = acls.get(acl, UNKNOWN_ACL)
            yield path, content, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid, acl
            at = end + _NODE.size

    def _read_trailer(self, window: Window, at: int) -> Trailer:
        """What follows the end mark, which ends at `at`, with each seal verified."""
        self._check_seal(window, at)
        window.at_least(0, _TAIL)
        left = len(window.data)
        with_digest, with_zxid = left >= _DIGEST_PART, left in (_ZXID_PART, _DIGEST_PART + _ZXID_PART)
        if left > _DIGEST_PART + _ZXID_PART:
            raise self._corrupt(f"more bytes follow its end at byte {window.base}")
        whole = left == with_digest * _DIGEST_PART + with_zxid * _ZXID_PART
        if not whole or (left and not window.data.endswith(SEAL_TEXT)):
            raise self._truncated(window.base + left)
        digest_zxid = digest = last_zxid = None
        if with_digest:
            fields = Fields(window.data)
            digest_zxid, digest = fields.int64(), TransactionDigest(fields.int32(), fields.int64())
            self._check_seal(window, fields.position)
        if with_zxid:
            (last_zxid,) = LONG.unpack_from(window.data)
            self._check_seal(window, LONG.size)
        trailer = Trailer(digest_zxid, digest, last_zxid)
        if last_zxid is not None and last_zxid < self.zxid:
            raise self._corrupt(f"its name says zxid {self.zxid:#x}, but its content {last_zxid:#x}: it was renamed")
        return trailer

    def _check_seal(self, window: Window, at: int) -> None:
        """Check the seal at `at`: the Adler-32 of all bytes before it, then the text `/`; the window moves past it."""
        if not window.at_least(at, _SEAL):
            raise self._truncated(window.base + len(window.data))
        (expected,) = LONG.unpack_from(window.data)
        if window.checksum(0) != expected or window.data[LONG.size : _SEAL] != SEAL_TEXT:
            raise self._corrupt(f"the checksum of the first {window.base} bytes is wrong")
        window.at_least(_SEAL, 0)

    def _odd_path(self, path: bytes, where: int) -> str:
        try:
            return text(path)
        except UnicodeDecodeError as error:
            raise self._corrupt(f"a path that is not UTF-8 at byte {where}") from error

    def _corrupt(self, what: str) -> CorruptFile:
        return CorruptFile(f"{self.name} is corrupt: {what}; {_ADVICE}", self.name)

    def _truncated(self, where: int) -> TruncatedFile:
        return TruncatedFile(
            f"{self.name} is truncated: its {where} bytes end before its end mark; {_ADVICE}", self.name
        )


def _parse_tail(end: bytes, name: str) -> Trailer:
    """The trailer in a file's last bytes: the longest form whose marks are all in their positions.

    Each form has a list of the positions where its marks `/` end, counted from the file's end: seals, and the end mark.
    """
    if not end.endswith(SEAL_TEXT):
        raise TruncatedFile(f"{name} is truncated: it has no end mark; {_ADVICE}", name)
    for digest, zxid in ((True, True), (True, False), (False, True), (False, False)):
        digest_at = _DIGEST_PART + zxid * _ZXID_PART
        zxid_at = _ZXID_PART
        body = digest * _DIGEST_PART + zxid * _ZXID_PART
        marks = [body, body + _SEAL, *([zxid * _ZXID_PART] if digest else [])]
        if all(end[: len(end) - mark].endswith(SEAL_TEXT) for mark in marks):
            fields = Fields(end, len(end) - digest_at)
            return Trailer(
                fields.int64() if digest else None,
                TransactionDigest(fields.int32(), fields.int64()) if digest else None,
                Fields(end, len(end) - zxid_at).int64() if zxid else None,
            )
    raise TruncatedFile(f"{name} is truncated: it has no end mark; {_ADVICE}", name)
