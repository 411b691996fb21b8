"""Applies transactions to nodes, so that a fuzzy snapshot becomes the exact tree at a zxid.

The rules:

- A snapshot named for zxid N holds all transactions up to N, and parts of those up to S (its *settled* zxid). Applying
  all transactions after N, in order, gives the exact tree at every zxid from S on; between N and S the result is not a
  tree that ever existed.
- Up to S, a transaction may find its own result or a later one. If a node was created after the transaction (its czxid
  is higher), the path was deleted and created again: the transaction, also one on a child, does not apply to it.
- cversion, the number of children created, and pzxid increase to what the transaction says, and never decrease. A
  deletion increases only pzxid.
- A multi is applied as a whole, or not at all if one part failed. A failed request changes nothing.
- Closing a session deletes the nodes that its transaction lists, and all others that the session owns.
- The transaction after S may have started when S was recorded, so the snapshot may have parts of it: at S, the tree is
  known to be exact only if the digest recorded with S agrees; after the next transaction it is always exact.
- From then on every transaction must fit: a node that is missing, exists already, or is not empty means that log and
  snapshot come from different histories (LogDoesNotFit). If S is unknown (before 3.6), a transaction that does not fit
  is ignored, as servers do.

Only nodes that transactions touch need to be loaded. Servers change the counts of quotas (`/zookeeper/quota/**`)
without a transaction: they stay as in the snapshot.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.jute import (
    CloseSession,
    CreateNode,
    CreateSession,
    DeleteNode,
    Multi,
    Operation,
    SetAcl,
    SetData,
    Transaction,
    TransactionHeader,
    Znode,
    parent_of,
    session_of,
)
from mledger.snapshot.zookeeper_files.trees.tree_digest import TreeDigest


class Touched:
    """The paths that transactions may change, and the sessions that they close."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.closing: set[int] = set()

    def add(self, transaction: Transaction) -> None:
        """Note what the transaction may change."""
        self._add(transaction.operation, transaction.header.client_id)

    def _add(self, operation: Operation, session: int) -> None:
        match operation:
            case CreateNode(path) | DeleteNode(path):
                self.paths.add(path)
                self.paths.add(parent_of(path))
            case SetData(path) | SetAcl(path):
                self.paths.add(path)
            case CloseSession(paths):
                self.closing.add(session)
                for path in paths or ():
                    self.paths.add(path)
                    self.paths.add(parent_of(path))
            case Multi() if not operation.failed:
                for part in operation.operations:
                    self._add(part, session)


class DataTree:
    """Nodes that transactions are applied to. `zxid` is that of the last one; `settled` is S, None if unknown.

    `digest`, if there is one, may include nodes that are not loaded.
    """

    def __init__(self, zxid: int, settled: int | None, digest: TreeDigest | None = None) -> None:
        self.zxid = zxid
        self.settled = settled
        self._proven = False
        self.sessions: dict[int, int] = {}
        self.digest = digest
        self._nodes: dict[str, Znode] = {}
        self._owned: defaultdict[int, set[str]] = defaultdict(set)
        self._parentless: Counter[str] = Counter()  # children whose parent is missing, by the parent's path

    def load(self, node: Znode) -> None:
        """Add a node of the snapshot."""
        self._nodes[node.path] = node
        session = session_of(node.ephemeral_owner)
        if session:
            self._owned[session].add(node.path)
        if self.digest is not None:
            self.digest.add(node)

    def nodes(self) -> Iterator[Znode]:
        """All nodes, by path. LogDoesNotFit if some have no parent."""
        for path, count in self._parentless.items():
            if count:
                raise LogDoesNotFit(f"{path} was deleted, but {count} nodes below it remain; {_ADVICE}")
        for path in sorted(self._nodes):
            yield self._nodes[path]

    def apply(self, transaction: Transaction) -> None:
        """Apply a transaction; LogDoesNotFit."""
        self._apply(transaction.operation, transaction.header)
        self.zxid = transaction.zxid

    @property
    def exact(self) -> bool:
        """Whether the tree equals the server's after the last transaction applied."""
        return self._proven or (self.settled is not None and self.zxid > self.settled)

    def proven(self) -> None:
        """Note that the tree is exact, because its digest agreed."""
        self._proven = True

    def _apply(self, operation: Operation, header: TransactionHeader) -> None:
        match operation:
            case CreateNode():
                self._create(operation, header)
            case DeleteNode(path):
                self._delete(path, header.zxid, expected=True)
            case SetData() | SetAcl():
                self._change(operation, header)
            case Multi() if not operation.failed:
                for part in operation.operations:
                    self._apply(part, header)
            case CreateSession(timeout):
                self.sessions[header.client_id] = timeout
            case CloseSession(paths):
                self._close(header.client_id, paths or (), header.zxid)

    def _create(self, new: CreateNode, header: TransactionHeader) -> None:
        zxid, time = header.zxid, header.time
        parent_path = parent_of(new.path)
        parent = self._present(parent_path, zxid)
        if parent is None:
            return
        cversion = parent.cversion + 1 if new.parent_cversion == -1 else new.parent_cversion
        if cversion > parent.cversion:
            parent = parent._replace(cversion=cversion, pzxid=zxid)
        old = self._nodes.get(new.path)
        if old is None:
            self._put(parent._replace(num_children=parent.num_children + 1))
            children = self._parentless.pop(new.path, 0)
            stat = (zxid, zxid, time, time, 0, 0, 0, new.owner, zxid)
            self._put(Znode(new.path, new.data, *stat, new.acl, children))
            session = session_of(new.owner)
            if session:
                self._owned[session].add(new.path)
            return
        if self.exact:
            raise self._unfit(zxid, f"creates {new.path}, which exists already")
        self._put(parent)
        if old.czxid == zxid:
            self._put(old._replace(acl=new.acl))

    def _change(self, change: SetData | SetAcl, header: TransactionHeader) -> None:
        node = self._present(change.path, header.zxid)
        if node is None:
            return
        if isinstance(change, SetData):
            self._put(node._replace(data=change.data, version=change.version, mzxid=header.zxid, mtime=header.time))
        else:
            self._put(node._replace(acl=change.acl, aversion=change.version))

    def _delete(self, path: str, zxid: int, *, expected: bool) -> None:
        parent_path = parent_of(path)
        parent = self._nodes.get(parent_path)
        if parent is not None and parent.czxid <= zxid and parent.pzxid < zxid:
            parent = parent._replace(pzxid=zxid)
            self._put(parent)
        node = self._nodes.get(path)
        if node is None:
            if expected and self.exact:
                raise self._unfit(zxid, f"deletes {path}, which does not exist")
            return
        if node.czxid > zxid:
            return
        if node.num_children and self.exact:
            raise self._unfit(zxid, f"deletes {path}, which has {node.num_children} children")
        self._remove(node)
        if node.num_children:
            self._parentless[path] = node.num_children
        if parent is not None:
            self._put(parent._replace(num_children=parent.num_children - 1))
        else:
            self._parentless[parent_path] -= 1

    def _close(self, session: int, listed: tuple[str, ...], zxid: int) -> None:
        self.sessions.pop(session, None)
        for path in dict.fromkeys((*listed, *sorted(self._owned.pop(session, ())))):
            self._delete(path, zxid, expected=False)

    def _present(self, path: str, zxid: int) -> Znode | None:
        """The node that a transaction changes; None if it is gone or was created later."""
        node = self._nodes.get(path)
        if node is None and self.exact:
            raise self._unfit(zxid, f"changes {path}, which does not exist")
        return None if node is None or node.czxid > zxid else node

    def _put(self, node: Znode) -> None:
        if self.digest is not None:
            old = self._nodes.get(node.path)
            if old is not None:
                self.digest.remove(old)
            self.digest.add(node)
        self._nodes[node.path] = node

    def _remove(self, node: Znode) -> None:
        if self.digest is not None:
            self.digest.remove(node)
        del self._nodes[node.path]
        owned = self._owned.get(session_of(node.ephemeral_owner))
        if owned is not None:
            owned.discard(node.path)

    def _unfit(self, zxid: int, what: str) -> LogDoesNotFit:
        return LogDoesNotFit(f"the transaction {zxid:#x} {what}; {_ADVICE}")


_ADVICE = "snapshot and logs come from different histories: take all of them from one server"
