"""What transactions did to nodes, one change for each operation, with the data before and after.

The data before comes from the logs and, for nodes that they do not show, from a snapshot file. The file is fuzzy: a
node that it has as of a later transaction says nothing of what was there before. Memory grows with what the logs touch.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import (
    CloseSession,
    CreateNode,
    DeleteNode,
    Multi,
    Operation,
    SetAcl,
    SetData,
    Transaction,
    Znode,
    session_of,
)
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile
from mledger.snapshot.zookeeper_files.transactions.log_range import LogRange, read_range

CREATE, SET, DELETE, SET_ACL, CLOSE_SESSION = "create", "set", "delete", "set acl", "close session"


class ZnodeChange(NamedTuple):
    """What one operation did to a node; times in ms since 1970.

    `place` counts the operations of a multi, or the nodes that end with a session. `before` and `after` are the node's
    data, None if there is no node. `known`: whether the data before is known. `version` is the node's afterwards, None
    if the operation does not say it.
    """

    zxid: int
    place: int
    time_ms: int
    session: int
    operation: str
    path: str
    before: bytes | None
    known: bool
    after: bytes | None
    version: int | None


class NodeHistory:
    """The last known data of the nodes that transactions touch."""

    def __init__(self) -> None:
        self._data: dict[str, bytes | None] = {}
        self._loaded: dict[str, tuple[int, bytes]] = {}
        self._owned: defaultdict[int, set[str]] = defaultdict(set)
        self._owners: dict[str, int] = {}

    def load(self, node: Znode) -> None:
        """Take a node of a snapshot file."""
        self._loaded[node.path] = node.mzxid, node.data or b""
        self._own(node.path, session_of(node.ephemeral_owner))

    def changes(self, transaction: Transaction) -> list[ZnodeChange]:
        """The changes of a transaction, in the order of its operations; a failed one has none."""
        operation = transaction.operation
        if isinstance(operation, Multi):
            parts = () if operation.failed else operation.operations
            found = [self._change(transaction, part, index) for index, part in enumerate(parts)]
            return [change for change in found if change is not None]
        if isinstance(operation, CloseSession):
            return self._close(transaction, operation.paths or ())
        change = self._change(transaction, operation, 0)
        return [] if change is None else [change]

    def _change(self, transaction: Transaction, operation: Operation, index: int) -> ZnodeChange | None:
        match operation:
            case CreateNode(path):
                self._data[path] = None  # a node that is created was not there
                self._own(path, session_of(operation.owner))
                return self._noted(transaction, index, CREATE, path, operation.data or b"", 0)
            case SetData(path):
                return self._noted(transaction, index, SET, path, operation.data or b"", operation.version)
            case DeleteNode(path):
                self._own(path, 0)
                return self._noted(transaction, index, DELETE, path, None, None)
            case SetAcl(path):
                before, known = self._before(path, transaction.zxid)
                return _change(transaction, index, SET_ACL, path, (before, known), before, None)
        return None

    def _close(self, transaction: Transaction, listed: tuple[str, ...]) -> list[ZnodeChange]:
        """Nodes that are gone already are left out; logs before 3.6 do not list a session's nodes."""
        owned = self._owned.pop(transaction.header.client_id, set())
        paths = listed or sorted(path for path in owned if self._before(path, transaction.zxid)[0] is not None)
        return [
            self._noted(transaction, index, CLOSE_SESSION, path, None, None)
            for index, path in enumerate(dict.fromkeys(paths))
        ]

    def _noted(
        self, transaction: Transaction, index: int, name: str, path: str, after: bytes | None, version: int | None
    ) -> ZnodeChange:
        before = self._before(path, transaction.zxid)
        self._data[path] = after
        return _change(transaction, index, name, path, before, after, version)

    def _before(self, path: str, zxid: int) -> tuple[bytes | None, bool]:
        """A node's data before transaction `zxid`, and whether it is known."""
        if path in self._data:
            return self._data[path], True
        written, data = self._loaded.get(path, (zxid, b""))
        return (data, True) if written < zxid else (None, False)

    def _own(self, path: str, session: int) -> None:
        """Note which session owns a node, 0 for none."""
        self._owned[self._owners.pop(path, 0)].discard(path)
        if session:
            self._owners[path] = session
            self._owned[session].add(path)


def _change(
    transaction: Transaction,
    index: int,
    name: str,
    path: str,
    before: tuple[bytes | None, bool],
    after: bytes | None,
    version: int | None,
) -> ZnodeChange:
    header = transaction.header
    return ZnodeChange(header.zxid, index, header.time, header.client_id, name, path, *before, after, version)


class Unseen:
    """The nodes whose data before the first change is in no log, and the sessions that close."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.closing: set[int] = set()
        self._seen: set[str] = set()

    def add(self, transaction: Transaction) -> None:
        """Note the nodes of a transaction, in order."""
        self._add(transaction.operation, transaction.header.client_id)

    def _add(self, operation: Operation, session: int) -> None:
        match operation:
            case CreateNode(path):
                self._seen.add(path)
            case SetData(path) | DeleteNode(path) | SetAcl(path):
                self._note(path)
            case CloseSession(paths):
                self.closing.add(session)
                for path in paths or ():
                    self._note(path)
            case Multi() if not operation.failed:
                for part in operation.operations:
                    self._add(part, session)

    def _note(self, path: str) -> None:
        if path not in self._seen:
            self._seen.add(path)
            self.paths.add(path)


def read_changes(files: DataFiles, found: LogRange) -> Iterator[ZnodeChange]:
    """The changes of a range, in order; the snapshot file is read only if the logs do not show what was there before.

    Raises what `read_range` raises; CorruptFile, TruncatedFile.
    """
    history = NodeHistory()
    if found.snapshot is not None:
        unseen = Unseen()
        for transaction in read_range(files, found):
            unseen.add(transaction)
        if unseen.paths or unseen.closing:
            for node in SnapshotFile(files, found.snapshot).nodes():
                if node.path in unseen.paths or session_of(node.ephemeral_owner) in unseen.closing:
                    history.load(node)
    for transaction in read_range(files, found):
        changes = history.changes(transaction)
        if transaction.zxid > found.after:
            yield from changes
