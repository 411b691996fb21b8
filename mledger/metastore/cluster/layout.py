"""A cluster's own nodes: its ledger layout, its instance id, the parents of its bookies' registrations (formats.md)."""

import uuid

from mledger.metastore.errors import NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import Create, MetadataReader, MetadataStore

LAYOUT_VERSION = 2
HIERARCHICAL = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
LAYOUT = f"{LAYOUT_VERSION}\n{HIERARCHICAL}:1".encode()


async def initialize(store: MetadataStore, root: str = LEDGERS) -> str:
    """Create the nodes that every cluster has and this one lacks, as BookKeeper's initialisation does; the instance id.

    An initialised cluster is left as it is. RecordError when this program does not support the cluster's layout.
    """
    for _ in range(2):
        await check_layout(store, root)
        stat = await store.exists(f"{root}/INSTANCEID")
        if stat is not None:
            return await instance_id(store, root)
        wanted = [
            Create(root),
            Create(f"{root}/LAYOUT", LAYOUT),
            Create(f"{root}/INSTANCEID", str(uuid.uuid4()).encode()),
            Create(f"{root}/available"),
            Create(f"{root}/available/readonly"),
        ]
        await _make_parents(store, root)
        nodes = await store.get_many([each.path for each in wanted])
        try:
            await store.multi([each for each, node in zip(wanted, nodes, strict=True) if node is None])
        except NodeExists as error:
            conflict = error
        else:
            return await instance_id(store, root)
    raise conflict


async def instance_id(reader: MetadataReader, root: str = LEDGERS) -> str:
    """The cluster's instance id; NodeNotFound when nobody has initialised it."""
    path = f"{root}/INSTANCEID"
    try:
        node = await reader.get(path)
    except NodeNotFound:
        raise NodeNotFound(
            f"there is no {path} in {reader.url}: initialise the cluster first, or correct the root", path
        ) from None
    try:
        return node.data.decode().strip()
    except UnicodeDecodeError:
        raise RecordError(f"{path} is not text", path) from None


async def check_layout(reader: MetadataReader, root: str = LEDGERS) -> None:
    """RecordError when the cluster keeps its ledgers in another layout than the hierarchical one.

    LAYOUT may be missing, as on clusters that Pulsar initialised: then it is hierarchical.
    """
    path = f"{root}/LAYOUT"
    try:
        node = await reader.get(path)
    except NodeNotFound:
        return
    if node.data.rstrip() != LAYOUT:
        raise RecordError(
            f"{path} holds {node.data.decode(errors='replace')!r}: only version {LAYOUT_VERSION} with {HIERARCHICAL}:1 "
            f"is supported",
            path,
        )


async def _make_parents(store: MetadataStore, root: str) -> None:
    parent = root.rpartition("/")[0]
    if parent and await store.exists(parent) is None:
        try:
            await store.create(parent, parents=True)
        except NodeExists:
            return
