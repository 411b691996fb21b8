"""Reads the nodes of READ_ANEW from ZooKeeper's files, past all others: the newest snapshot file, and the logs from it.

The snapshot file is fuzzy, and that does no harm: what the logs say of a node replaces what the file says, and the
creation of a node that they only wrote is older than the file.
"""

from collections.abc import Iterator

from mledger.snapshot.exports.since.row_keys import READ_ANEW, places_anew
from mledger.snapshot.exports.since.row_plan import kind_below
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.snapshot_file import SnapshotFile
from mledger.snapshot.zookeeper_files.transaction_log import read_chain
from mledger.snapshot.zookeeper_files.transactions.node_updates import NodeUpdate, NodeUpdates
from mledger.snapshot.zookeeper_files.trees.file_selection import DataDirectory


def read_anew(files: DataFiles, options: ReadOptions) -> Iterator[tuple[NodeKind, FoundNode]]:
    """The nodes at the point that the options name; their numbers of children are not read. SnapshotError."""
    plan = DataDirectory(files).plan(zxid=options.zxid)
    updates = NodeUpdates(lambda path: kind_below(path, options) in READ_ANEW)
    for transaction in read_chain(files, plan.logs, plan.snapshot_zxid, plan.zxid):
        updates.apply(transaction)
    left = dict(updates.nodes)
    prefixes = tuple((options.chroot + place).encode() for place in places_anew(options.ledgers_root))
    for full, data, czxid, mzxid, ctime, mtime, version, *_ in SnapshotFile(files, plan.snapshot).selected(prefixes):
        kind = kind_below(full, options)
        if kind not in READ_ANEW or kind is None:
            continue
        path = full[len(options.chroot) :]
        node = FoundNode(path, data or b"", version, ctime, mtime, 0, czxid, mzxid)
        yield from _updated(kind, path, left.pop(full, None), node)
    for full, update in left.items():
        kind = kind_below(full, options)
        assert kind is not None
        yield from _updated(kind, full[len(options.chroot) :], update, None)


def _updated(
    kind: NodeKind, path: str, update: NodeUpdate | None, node: FoundNode | None
) -> Iterator[tuple[NodeKind, FoundNode]]:
    """The node after its update, if it is there; `node` is what the snapshot file has."""
    if update is not None and update.replaced:
        written, created = update.written, update.created
        if written is None:
            return
        if created is None:
            if node is None:  # the file was written later, and the node was gone
                return
            created = node.created_ms, node.czxid or 0
        node = FoundNode(path, written.data, written.version, created[0], written.time_ms, 0, created[1], written.zxid)
    if node is not None:
        yield kind, node
