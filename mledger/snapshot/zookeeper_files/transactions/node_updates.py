"""What transactions make of nodes whose state before is elsewhere; pure.

The rules are those of `replay` for a tree that is exact. A log says all of a node that it creates. Of an older one it
says the data and version it was given, and how many children it gained or lost.
"""

from collections.abc import Callable

from msgspec import Struct

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.jute import (
    CloseSession,
    CreateNode,
    DeleteNode,
    Multi,
    Operation,
    SetAcl,
    SetData,
    Transaction,
    TransactionHeader,
    parent_of,
)


class WrittenData(Struct, frozen=True):
    """The data that a transaction gave a node, the version it then has, and the transaction's time in ms and zxid."""

    data: bytes
    version: int
    time_ms: int
    zxid: int


class NodeUpdate(Struct):
    """What became of one node.

    `before`: whether it was there before the transactions, None if they do not say. `there`: whether it is there now.
    `created`: the time and zxid of its creation, None if it is older than the transactions. `written`: its data, None
    if it was not written. `children`: how many more it has than before; if it was created, how many it has.
    """

    before: bool | None
    there: bool = True
    created: tuple[int, int] | None = None
    written: WrittenData | None = None
    children: int = 0

    @property
    def replaced(self) -> bool:
        """Whether what was known of the node no longer holds, except for the number of its children."""
        return not self.there or self.written is not None


class NodeUpdates:
    """What became of the nodes for whose paths `wanted` returns True, by path."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.nodes: dict[str, NodeUpdate] = {}
        self._wanted = wanted

    def apply(self, transaction: Transaction) -> None:
        """Note what a transaction does. LogDoesNotFit if it does not fit those before."""
        self._apply(transaction.operation, transaction.header)

    def _apply(self, operation: Operation, header: TransactionHeader) -> None:
        match operation:
            case CreateNode(path):
                self._create(path, operation.data or b"", header)
            case SetData(path, data, version) if self._wanted(path):
                update = self._present(path, header.zxid)
                update.written = WrittenData(data or b"", version, header.time, header.zxid)
            case SetAcl(path) if self._wanted(path):
                self._present(path, header.zxid)
            case DeleteNode(path):
                self._delete(path, header.zxid)
            case Multi() if not operation.failed:
                for part in operation.operations:
                    self._apply(part, header)
            case CloseSession(paths):
                self._close(paths, header.zxid)

    def _create(self, path: str, data: bytes, header: TransactionHeader) -> None:
        self._count(path, 1, header.zxid)
        if not self._wanted(path):
            return
        update = self.nodes.setdefault(path, NodeUpdate(before=False, there=False))
        if update.there:
            raise _unfit(header.zxid, f"creates {path}, which exists already")
        update.there, update.children = True, 0
        update.created = header.time, header.zxid
        update.written = WrittenData(data, 0, header.time, header.zxid)

    def _delete(self, path: str, zxid: int) -> None:
        self._count(path, -1, zxid)
        if self._wanted(path):
            _remove(self._present(path, zxid))

    def _close(self, paths: tuple[str, ...] | None, zxid: int) -> None:
        """A path in the list may be gone already; then its parent has not lost it again."""
        if paths is None:
            raise LogDoesNotFit(
                f"the transaction {zxid:#x} ends a session and does not list its nodes, as before ZooKeeper 3.6, so "
                "the logs alone do not tell what became of them: export fully"
            )
        for path in filter(self._wanted, dict.fromkeys(paths)):
            update = self.nodes.setdefault(path, NodeUpdate(before=None))
            if update.there:
                self._count(path, -1, zxid)
                _remove(update)

    def _count(self, path: str, children: int, zxid: int) -> None:
        parent = parent_of(path)
        if self._wanted(parent):
            self._present(parent, zxid).children += children

    def _present(self, path: str, zxid: int) -> NodeUpdate:
        update = self.nodes.setdefault(path, NodeUpdate(before=True))
        if not update.there:
            raise _unfit(zxid, f"changes {path}, which does not exist")
        return update


def _remove(update: NodeUpdate) -> None:
    update.there, update.written, update.created, update.children = False, None, None, 0


def _unfit(zxid: int, what: str) -> LogDoesNotFit:
    return LogDoesNotFit(f"the transaction {zxid:#x} {what}: the logs are of different servers or histories")
