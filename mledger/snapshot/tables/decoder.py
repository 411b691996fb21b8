"""Decodes nodes into the records that rows are built from; pure. What does not decode becomes `UnreadableNode`."""

from collections.abc import Callable, Mapping

from mledger.metastore.cluster.bookies import decode_registration
from mledger.metastore.cluster.cookies import Cookie, decode_cookie
from mledger.metastore.cluster.racks import decode_racks
from mledger.metastore.cluster.underreplication import NOT_KEPT, decode_underreplicated_ledger
from mledger.metastore.errors import InvalidName, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.partitioned_topic import decode_partitioned_topic
from mledger.metastore.records.paths import check_bookie_id, ledger_id_from_path, underreplicated_path
from mledger.snapshot.tables.administration.decoders import DECODERS
from mledger.snapshot.tables.column_limits import check_cursor, check_ledger, check_row, check_topic, is_unicode
from mledger.snapshot.tables.node_kinds import (
    BOOKIE_KINDS,
    NodeKind,
    TopicKey,
    cursor_of,
    key_of_managed_ledger,
    partitioned_topic_at,
    topic_key,
)
from mledger.snapshot.tables.node_places import NOWHERE, place_at
from mledger.snapshot.tables.records import (
    AdministrationNode,
    BookieNode,
    CursorNode,
    FoundNode,
    Ledger,
    PartitionedTopicNode,
    Topic,
    Underreplicated,
    UnreadableNode,
)

Item = Topic | CursorNode | Ledger | PartitionedTopicNode | Underreplicated | AdministrationNode

MANAGED_LEDGER = "pulsar/managed-ledger"
CURSOR = "pulsar/cursor"
NO_RACK = "/default-rack"


def decode(kind: NodeKind, node: FoundNode, ledgers_root: str) -> Item | UnreadableNode | None:
    """The record in `node`, decoded by its kind; None for a folder. `Bookies` takes the nodes of bookies."""
    try:
        found = _DECODERS.get(kind)
        if found is not None:
            return found(node, ledgers_root)
        record = DECODERS[kind](node)
        if record is not None:
            check_row(record, node.path)
        return record
    except (RecordError, InvalidName) as error:
        return _unreadable(kind, node, error)


def _unreadable(kind: NodeKind, node: FoundNode, error: Exception) -> UnreadableNode:
    """The node with what is wrong; what is not Unicode in its path is shown as Python escapes it."""
    if is_unicode(node.path):
        return UnreadableNode(kind, place_at(kind, node.path), node, _escaped(str(error)))
    return UnreadableNode(kind, NOWHERE, node._replace(path=_escaped(node.path)), _escaped(str(error)))


def _escaped(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _topic(node: FoundNode, _: str) -> Topic:
    _check_path(node)
    record = decode_managed_ledger_info(node.data, node.path)
    check_topic(record.value, node.path)
    return Topic(topic_key(node.path), node, record)


def _check_path(node: FoundNode) -> None:
    if not is_unicode(node.path):
        raise InvalidName(f"{node.path!r} is not Unicode", node.path)


def _cursor(node: FoundNode, _: str) -> CursorNode:
    _check_path(node)
    path = node.path
    key = topic_key(path.rpartition("/")[0])
    record = decode_managed_cursor_info(node.data, path).value
    check_cursor(record, path)
    return CursorNode(key, cursor_of(path), node, record)


def _ledger(node: FoundNode, ledgers_root: str) -> Ledger:
    ledger_id = ledger_id_from_path(node.path, ledgers_root)
    metadata = decode_ledger_metadata(node.data, node.path)
    check_ledger(metadata, node.path)
    custom = {key: str(value, "utf-8", "replace") for key, value in metadata.custom_metadata}
    return Ledger(ledger_id, node, metadata, custom, owner_of(custom.get(MANAGED_LEDGER)))


def owner_of(managed_ledger: str | None) -> TopicKey | None:
    """The topic that a ledger's custom metadata names; None if it names none."""
    if not managed_ledger:
        return None
    try:
        return key_of_managed_ledger(managed_ledger)
    except InvalidName:
        return None


def _partitioned_topic(node: FoundNode, _: str) -> PartitionedTopicNode:
    tenant, namespace, topic = partitioned_topic_at(node.path)
    found = PartitionedTopicNode(tenant, namespace, topic, node, decode_partitioned_topic(node.data, node.path))
    check_row(found, node.path)
    return found


def _underreplicated(node: FoundNode, ledgers_root: str) -> Underreplicated:
    digits = node.path.rpartition("/urL")[2]
    if not (digits.isascii() and digits.isdigit()) or underreplicated_path(int(digits), ledgers_root) != node.path:
        raise InvalidName(f"{node.path!r} is not the path of an under-replication mark", node.path)
    mark = decode_underreplicated_ledger(node.data, node.path)
    found = Underreplicated(int(digits), node, mark.replicas, None if mark.ctime == NOT_KEPT else mark.ctime)
    check_row(found, node.path)
    return found


_DECODERS: Mapping[NodeKind, Callable[[FoundNode, str], Item]] = {
    NodeKind.TOPIC: _topic,
    NodeKind.CURSOR: _cursor,
    NodeKind.LEDGER: _ledger,
    NodeKind.PARTITIONED_TOPIC: _partitioned_topic,
    NodeKind.UNDERREPLICATED: _underreplicated,
}


class Bookies:
    """Collects the nodes about bookies: registrations, cookies, racks."""

    def __init__(self) -> None:
        self._nodes: list[tuple[NodeKind, FoundNode]] = []

    def add(self, kind: NodeKind, node: FoundNode) -> None:
        """Add a node of one of BOOKIE_KINDS."""
        if kind not in BOOKIE_KINDS:
            raise ValueError(f"a {kind} is not about a bookie")
        self._nodes.append((kind, node))

    def finish(self) -> tuple[list[BookieNode], list[UnreadableNode]]:
        """The bookies by id, and the nodes that did not decode; a bookie without a decoded node is not in the first."""
        found: dict[str, BookieNode] = {}
        unreadable: list[UnreadableNode] = []
        racks: dict[str, str] = {}
        # Read-only registrations first: a bookie that becomes writable again may have both, and then accepts adds.
        order = (NodeKind.RACKS, NodeKind.COOKIE, NodeKind.READ_ONLY_BOOKIE, NodeKind.BOOKIE)
        for kind, node in sorted(self._nodes, key=lambda each: (order.index(each[0]), each[1].path)):
            try:
                if kind is NodeKind.RACKS:
                    racks = _racks(node)
                    continue
                bookie_id = check_bookie_id(node.path.rpartition("/")[2])
                known = found.get(bookie_id, BookieNode(bookie_id, None, None, None, racks.get(bookie_id)))
                bookie = _with(known, kind, node)
                check_row(bookie, node.path)
                found[bookie_id] = bookie
            except (RecordError, InvalidName) as error:
                unreadable.append(_unreadable(kind, node, error))
        return [found[bookie_id] for bookie_id in sorted(found)], unreadable


def _with(bookie: BookieNode, kind: NodeKind, node: FoundNode) -> BookieNode:
    if kind is NodeKind.COOKIE:
        cookie: Cookie = decode_cookie(node.data, node.path)
        return bookie._replace(cookie=cookie, node=node)
    read_only = kind is NodeKind.READ_ONLY_BOOKIE
    registration = decode_registration(bookie.bookie_id, node.data, read_only=read_only, path=node.path)
    return bookie._replace(registration=registration, registered=node, node=node)


def _racks(node: FoundNode) -> dict[str, str]:
    """The rack of each bookie in `/bookies`."""
    groups = decode_racks(node.data, node.path)
    odd = [rack for group in groups.values() for rack in group.values() if rack and not is_unicode(rack)]
    if odd:
        raise RecordError(f"the rack {odd[0]!r} at {node.path} is not Unicode", node.path)
    return {bookie_id: rack or NO_RACK for group in groups.values() for bookie_id, rack in group.items()}
