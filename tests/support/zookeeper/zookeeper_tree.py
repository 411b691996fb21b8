"""A ZooKeeper tree by its written rules, kept apart from the reader under test, and its fuzzy snapshots.

Operations are those of `zookeeper_files`. A snapshot is taken node by node while transactions go on.
"""

import zlib
from dataclasses import dataclass, field, replace

from tests.support.zookeeper.zookeeper_files import CONTAINER, EPHEMERAL, SnapshotWriter

OPEN = ((31, "world", "anyone"),)


@dataclass(frozen=True)
class ReferenceNode:
    data: bytes | None
    acl: tuple
    czxid: int = 0
    mzxid: int = 0
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    cversion: int = 0
    aversion: int = 0
    owner: int = 0
    pzxid: int = 0
    children: frozenset = field(default_factory=frozenset)

    @property
    def stat(self):
        return (
            *(self.czxid, self.mzxid, self.ctime, self.mtime, self.version, self.cversion, self.aversion),
            *(self.owner, self.pzxid),
        )


def parent_of(path):
    return path.rpartition("/")[0] or "/"


def owner_of(kind, session):
    if kind == EPHEMERAL:
        return session
    if kind == CONTAINER:
        return -(1 << 63)
    return (0xFF << 56 | kind[1]) - (1 << 64) if isinstance(kind, tuple) else 0


class ReferenceTree:
    """The reference: a server's tree after each transaction."""

    def __init__(self):
        self.nodes = {"/": ReferenceNode(b"", OPEN)}
        self.sessions = {}
        self.zxid = 0
        self.acls = {OPEN: 1}

    def apply(self, zxid, operation, *, session=1, time=0):
        self._apply(zxid, operation, session, time)
        self.zxid = zxid

    def _apply(self, zxid, operation, session, time):
        match operation:
            case ("create", path, data, acl, kind, cversion):
                self.acls.setdefault(acl, len(self.acls) + 1)
                owner = owner_of(kind, session)
                self.nodes[path] = ReferenceNode(data, acl, zxid, zxid, time, time, owner=owner, pzxid=zxid)
                self._child(path, zxid, cversion=cversion, add=True)
            case ("delete", path) | ("delete container", path):
                del self.nodes[path]
                self._child(path, zxid, add=False)
            case ("set", path, data, version):
                self._change(path, data=data, version=version, mzxid=zxid, mtime=time)
            case ("set acl", path, acl, version):
                self.acls.setdefault(acl, len(self.acls) + 1)
                self._change(path, acl=acl, aversion=version)
            case ("multi", parts):
                failed = any(part[0] == "error" for part in parts)
                for part in () if failed else parts:
                    self._apply(zxid, part, session, time)
            case ("open", timeout):
                self.sessions[session] = timeout
            case ("close", _):
                self.sessions.pop(session)
                for path in self.ephemerals(session):
                    self._apply(zxid, ("delete", path), session, time)

    def ephemerals(self, session):
        return sorted(path for path, node in self.nodes.items() if node.owner == session)

    def _change(self, path, **fields):
        self.nodes[path] = replace(self.nodes[path], **fields)

    def _child(self, path, zxid, *, add, cversion=None):
        parent = self.nodes[parent_of(path)]
        name = {path.rpartition("/")[2]}
        self._change(
            parent_of(path),
            children=parent.children | name if add else parent.children - name,
            cversion=parent.cversion if cversion is None else cversion,
            pzxid=zxid,
        )

    @property
    def digest(self):
        return digest_of(self.nodes)

    def visible(self):
        """All that a reader can see."""
        return {path: (node.data, *node.stat, node.acl, len(node.children)) for path, node in self.nodes.items()}


def digest_of(nodes):
    total = 0
    for path, node in nodes.items():
        czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = node.stat
        stat = b"".join(
            value.to_bytes(size, "big", signed=True)
            for value, size in zip(
                (czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, owner),
                (8, 8, 8, 8, 8, 4, 4, 4, 8),
                strict=True,
            )
        )
        name = "" if path == "/" else path
        total += zlib.crc32(name.encode() + (node.data or b"") + stat)
    total %= 1 << 64
    return total - (1 << 64) if total >> 63 else total


def take_snapshot(tree, meanwhile, *, said=None, with_digest=True, with_last_zxid=True):
    """The bytes of a snapshot file as a server serializes it; `meanwhile` is called before each node is copied.

    Sessions and lists come first. A node's children are those it had when it was copied; one that is gone when its
    turn comes is passed over. `said` gives the zxid and digest written after them.
    """
    writer = SnapshotWriter(dict(tree.sessions), {number: acl for acl, number in tree.acls.items()})

    def visit(path):
        meanwhile()
        node = tree.nodes.get(path)
        if node is None:
            return
        writer.node(path, node.data, tree.acls[node.acl], node.stat)
        for name in sorted(node.children):
            visit(path.rstrip("/") + "/" + name)

    visit("/")
    zxid, digest = said() if said else (tree.zxid, tree.digest)
    return writer.finish(digest=(zxid, digest) if with_digest else None, last_zxid=zxid if with_last_zxid else None)
