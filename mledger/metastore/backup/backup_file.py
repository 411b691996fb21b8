"""A backup of a metadata tree as a file: JSON lines, closed by a count and a checksum (docs/how-to/metadata-backup.md).

The first line is the head, each further line is a node, and the last line holds the count and the checksum. A file
whose name ends in `.gz` is compressed. Check the whole file with `check_backup` before you use any of its nodes.
"""

import base64
import binascii
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct

from mledger.metastore.errors import MetadataError
from mledger.metastore.runtime.durable_files import OWNER_ONLY

FORMAT = "mledger metadata backup"
VERSION = 1
WORLD_ACL = ("world:anyone:crwda",)
"""The access control list that is left out of the file: everybody may do everything."""


_UNREADABLE = (EOFError, OSError, zlib.error)
"""What reading a file raises that is cut off, damaged, or not compressed."""


class InvalidBackup(MetadataError):
    """A file that is no backup, is cut off, was changed, or has a version that this program does not know."""


class BackupNode(Struct, frozen=True):
    """One node: its data, its version, and its access control list, empty where the store has none.

    `ephemeral` nodes are recorded for information only; a restore never writes them.
    """

    path: str
    data: bytes
    version: int
    acl: tuple[str, ...] = ()
    ephemeral: bool = False


class BackupHead(Struct, frozen=True):
    """Where and when the backup was made: `cluster` is the store's URL without secrets, `made_at` is in UTC."""

    cluster: str
    made_at: str
    path: str


class BackupWriter:
    """Writes a backup to an open file."""

    def __init__(self, file: BinaryIO, head: BackupHead) -> None:
        """Write `head` as the first line of `file`."""
        self._file = file
        self._digest = hashlib.sha256()
        self.nodes = 0
        self._line({"format": FORMAT, "version": VERSION, **_fields(head)})

    def add(self, node: BackupNode) -> None:
        """Write one more node: no node twice, and each after its parent if the parent is in the backup."""
        value: dict[str, Any] = {
            "path": node.path,
            "version": node.version,
            "data": base64.b64encode(node.data).decode(),
        }
        if node.acl and node.acl != WORLD_ACL:
            value["acl"] = list(node.acl)
        if node.ephemeral:
            value["ephemeral"] = True
        self._line(value)
        self.nodes += 1

    def end(self) -> None:
        """Write the last line."""
        self._file.write(_last_line(self.nodes, self._digest.hexdigest()))

    def _line(self, value: Mapping[str, Any]) -> None:
        line = _encoded(value)
        self._digest.update(line)
        self._file.write(line)


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _last_line(nodes: int, checksum: str) -> bytes:
    return _encoded({"nodes": nodes, "sha256": checksum})


def create(path: Path) -> BinaryIO:
    """Create the file of a new backup, which only its owner may read; FileExistsError if the file exists.

    It has what access control lists keep from others in the store, and these lists' digests.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
    return cast("BinaryIO", gzip.open(path, "wb", compresslevel=6)) if path.suffix == ".gz" else path.open("wb")


def check_backup(path: Path) -> tuple[BackupHead, int]:
    """Read the whole backup at `path`; return its head and its number of nodes. InvalidBackup, OSError."""
    count = 0
    with _open(path) as file:
        head = _head(path, file)
        for _ in _lines(path, file):
            count += 1
    return head, count


def read_backup(path: Path) -> Iterator[BackupNode]:
    """Yield the nodes of a backup in the order in which they were added; InvalidBackup may come only at the end."""
    with _open(path) as file:
        _head(path, file)
        yield from _lines(path, file)


def _open(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _fields(head: BackupHead) -> dict[str, str]:
    return {"made_at": head.made_at, "cluster": head.cluster, "path": head.path}


def _head(path: Path, file: BinaryIO) -> BackupHead:
    try:
        value = json.loads(file.readline())
        if value["format"] != FORMAT:
            raise InvalidBackup(f"{path} is not a metadata backup")
        if value["version"] != VERSION:
            raise InvalidBackup(f"{path} has version {value['version']!r}: this program reads version {VERSION}")
        return BackupHead(str(value["cluster"]), str(value["made_at"]), str(value["path"]))
    except (ValueError, KeyError, TypeError, *_UNREADABLE):
        raise InvalidBackup(f"{path} is not a metadata backup") from None


def _lines(path: Path, file: BinaryIO) -> Iterator[BackupNode]:
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.readline())
    nodes = 0
    try:
        for number, line in enumerate(file, 2):
            value = _object(path, number, line)
            if "sha256" in value:
                if line != _last_line(nodes, digest.hexdigest()) or file.read(1):
                    raise InvalidBackup(f"{path} was changed since it was written: its checksum does not match")
                return
            digest.update(line)
            yield _node(path, number, value)
            nodes += 1
    except _UNREADABLE as error:
        raise InvalidBackup(f"{path} cannot be read to its end: {error}") from None
    raise InvalidBackup(f"{path} is cut off: its last line is missing")


def _object(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidBackup(f"{path}, line {number}: not a line of a backup")
    return value


def _node(path: Path, number: int, value: Mapping[str, Any]) -> BackupNode:
    try:
        node = BackupNode(
            path=value["path"],
            data=base64.b64decode(value["data"], validate=True),
            version=value["version"],
            acl=tuple(value.get("acl", ())),
            ephemeral=value.get("ephemeral", False),
        )
        if not node.path.startswith("/") or not all(isinstance(entry, str) for entry in node.acl):
            raise ValueError(node.path)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        raise InvalidBackup(f"{path}, line {number}: not a node of a backup") from None
    return node
