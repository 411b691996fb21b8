"""The exact tree of a ZooKeeper server's files, as a stream.

The reader reads the log between snapshot and point twice, and the snapshot once. It first collects the paths that
transactions touch. Then it streams the snapshot: untouched nodes go straight to the consumer, the others are held back.
Last it applies the transactions to the held nodes. Memory grows with what the log touches, not with the tree.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mledger.snapshot.zookeeper_files.errors import CorruptFile, LogDoesNotFit
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.jute import UNKNOWN_ACL, TransactionDigest, Znode, parent_of
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile, Trailer
from mledger.snapshot.zookeeper_files.transaction_log import read_chain
from mledger.snapshot.zookeeper_files.trees.file_selection import ReadPlan
from mledger.snapshot.zookeeper_files.trees.replay import DataTree, Touched
from mledger.snapshot.zookeeper_files.trees.tree_digest import TreeDigest


@dataclass(frozen=True, slots=True)
class Summary:
    """What was read: the number of nodes, live sessions (id: timeout in ms), and the number of digests compared."""

    nodes: int
    sessions: dict[int, int]
    digests_compared: int


class ExactTree:
    """The tree that a plan describes.

    `verify_digests` compares the tree with every digest that ZooKeeper wrote with its transactions; switch it off for
    files of a cluster whose servers disagreed with each other.
    """

    def __init__(self, files: DataFiles, plan: ReadPlan, *, verify_digests: bool = True) -> None:
        self.files = files
        self.plan = plan
        self.summary: Summary | None = None
        self._verify = verify_digests

    def nodes(self) -> Iterator[Znode]:
        """Every node once, in no particular order; then `summary` is set.

        The nodes are verified only at the end: an error before that invalidates all of them.

        Raises:
            CorruptFile, TruncatedFile: a file is damaged.
            MissingLog, LogDoesNotFit: the logs do not follow the snapshot, or each other.
            ZxidNotCovered: the logs end too early.
        """
        plan = self.plan
        touched = Touched()
        for transaction in read_chain(self.files, plan.logs, plan.snapshot_zxid, plan.zxid):
            touched.add(transaction)
        snapshot = SnapshotFile(self.files, plan.snapshot)
        passed = TreeDigest() if self._verify else None
        held: list[Znode] = []
        count = 0
        for node in self._split(snapshot, touched, held):
            if passed is not None:
                passed.add(node)
            count += 1
            yield node
        tree = DataTree(plan.snapshot_zxid, plan.settled, passed)
        for node in held:
            tree.load(node)
        held.clear()
        tree.sessions.update(snapshot.sessions)
        compared = self._replay(tree, snapshot)
        for node in tree.nodes():
            self._check(node)
            count += 1
            yield node
        self.summary = Summary(count, tree.sessions, compared)

    def _split(self, snapshot: SnapshotFile, touched: Touched, held: list[Znode]) -> Iterator[Znode]:
        """The nodes of the snapshot that no transaction touches; the others go to `held`."""
        paths, closing, until = touched.paths, touched.closing, self.plan.zxid
        for node in snapshot.nodes():
            if node.ephemeral_owner in closing:
                # The parent comes after its children, so it can still be held.
                paths.add(parent_of(node.path))
                held.append(node)
            elif node.path in paths:
                held.append(node)
            else:
                if node.mzxid > until or node.pzxid > until or node.acl is UNKNOWN_ACL:
                    self._check(node)
                yield node
        trailer = snapshot.trailer
        if trailer is None or trailer.settled(snapshot.zxid) != self.plan.settled:
            raise CorruptFile(f"{snapshot.name} changed while it was read", snapshot.name)

    def _replay(self, tree: DataTree, snapshot: SnapshotFile) -> int:
        """Apply the transactions; returns how many digests were compared and found equal. LogDoesNotFit."""
        compared: int = self._prove(tree, snapshot.trailer)
        for transaction in read_chain(self.files, self.plan.logs, self.plan.snapshot_zxid, self.plan.zxid):
            tree.apply(transaction)
            if transaction.digest and tree.exact:
                compared += self._compare(tree, transaction.digest)
            else:
                compared += self._prove(tree, snapshot.trailer)
        return compared

    def _prove(self, tree: DataTree, trailer: Trailer | None) -> bool:
        """Whether the tree is at the zxid of the snapshot's own digest and agrees with it.

        It may disagree, if the server had begun to apply the next transaction. Then the tree at this zxid is unknown.
        """
        if trailer is None or trailer.digest is None or tree.digest is None or trailer.digest_zxid != tree.zxid:
            return False
        if tree.digest.agrees(trailer.digest):
            tree.proven()
            return True
        if tree.zxid == self.plan.zxid and tree.zxid > 0:  # at zxid 0 there is no digest yet
            raise self._begun("its digest differs from that of its nodes")
        return False

    def _compare(self, tree: DataTree, expected: TransactionDigest) -> bool:
        if tree.digest is None:
            return False
        tree.digest.check(expected, tree.zxid)
        return True

    def _check(self, node: Znode) -> None:
        changed = max(node.mzxid, node.pzxid)
        if changed > self.plan.zxid == self.plan.settled:
            raise self._begun(f"it has a change of {node.path} at {changed:#x}")
        if changed > self.plan.zxid or node.acl is UNKNOWN_ACL:
            raise LogDoesNotFit(
                f"{node.path} in {self.plan.snapshot} was changed after zxid {self.plan.zxid:#x}, and no log here has "
                "that change: choose a later point, or add the later log files"
            )

    def _begun(self, proof: str) -> LogDoesNotFit:
        """The error for a snapshot whose file ends while the server applies the next transaction."""
        return LogDoesNotFit(
            f"{self.plan.snapshot} is not exact at zxid {self.plan.zxid:#x}: {proof}, because the next transaction had "
            "begun; choose a later zxid, or remove the file: an older snapshot and the logs may suffice",
            self.plan.snapshot,
        )
