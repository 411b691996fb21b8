"""Asks a broker of ours, through the metadata store, to unload the bundle that contains a topic.

The owner's node says `disabled`, as Pulsar's nodes do of a bundle that is being unloaded. Its owner
follows the node: it closes the bundle's topics, and removes the node.
"""

import contextlib
import json

from mledger.broker.lookup.broker_records import is_disabled
from mledger.errors import BrokerUnavailable, OwnedElsewhere
from mledger.ledgers.bundles import LIVE_BROKERS, NAMESPACES, BrokerOwner, live, of_mledger
from mledger.ledgers.ownership import find_broker
from mledger.metastore.errors import BadVersion, NodeNotFound
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader, MetadataStore, Node

UNLOADED_WITHIN_S = 60.0
"""How long Pulsar waits for a bundle to be unloaded (`namespaceBundleUnloadingTimeoutMs`)."""


async def request_unload(
    store: MetadataStore, topic: TopicName, *, timeout_s: float = UNLOADED_WITHIN_S
) -> BrokerOwner | None:
    """Return the broker that served the topic once it has unloaded the topic's bundle; None if none serves it.

    Raises:
        OwnedElsewhere: the broker that serves it is not one of ours.
        BrokerUnavailable: the broker has not unloaded the bundle in time, and goes on with it; or its
            session with the metadata store ended meanwhile.
    """
    await store.sync()  # a server that lags may name an earlier owner
    owner = await find_broker(store, topic.managed_ledger_name)
    if owner is None:
        return None
    await _request(store, owner, timeout_s)
    return owner


async def request_bundle_unload(store: MetadataStore, path: str, *, timeout_s: float = UNLOADED_WITHIN_S) -> None:
    """Return once the broker that serves the bundle whose node is at `path` has unloaded it, or if none serves it.

    Raises:
        OwnedElsewhere, BrokerUnavailable: as of `request_unload`.
    """
    await store.sync()
    (node,) = await store.get_many([path])
    if node is None or not node.stat.ephemeral_owner:
        return
    owner = BrokerOwner(path, "the broker that serves the bundle", node.stat.ephemeral_owner)
    await _request(store, owner, timeout_s)


async def check_unloads(store: MetadataReader, path: str) -> None:
    """Return if the broker that serves the bundle whose node is at `path` would unload it, or if none serves it.

    Raises:
        OwnedElsewhere: it is not one of ours.
    """
    (node,) = await store.get_many([path])
    if node is not None and node.stat.ephemeral_owner:
        await _check_ours(store, BrokerOwner(path, "the broker that serves the bundle", node.stat.ephemeral_owner))


async def _check_ours(reader: MetadataReader, owner: BrokerOwner) -> None:
    if not owner.path.startswith(f"{NAMESPACES}/") or not await _is_ours(reader, owner):
        raise OwnedElsewhere(f"{owner}: unload the topic with that broker's own tools")


async def _request(store: MetadataStore, owner: BrokerOwner, timeout_s: float) -> None:
    await _check_ours(store, owner)
    try:
        async with TimeLimit(timeout_s):
            await _unloaded(store, owner)
    except TimeoutError:
        raise BrokerUnavailable(
            f"{owner} has not unloaded it within {timeout_s:g} s: it goes on with that; look at the broker's log"
        ) from None


async def _unloaded(store: MetadataStore, owner: BrokerOwner) -> None:
    """Mark the bundle's node, and wait until its owner has removed it."""
    marked = False
    async with store.watch(owner.path) as changes:
        while True:
            (node,) = await store.get_many([owner.path])
            if node is None or node.stat.ephemeral_owner != owner.session:
                break
            if is_disabled(node.data):
                marked = True
                await anext(changes)
            elif marked:  # removed, and claimed again by the same broker
                return
            else:
                with contextlib.suppress(NodeNotFound, BadVersion):
                    await store.put(owner.path, _disabled(node), node.version)
    if not await _is_ours(store, owner):  # the node went with the session, and the topics may still be open
        raise BrokerUnavailable(f"{owner}: its session with the metadata store ended meanwhile; try again")


def _disabled(node: Node) -> bytes:
    return json.dumps(json.loads(node.data) | {"disabled": True}).encode()


async def _is_ours(reader: MetadataReader, owner: BrokerOwner) -> bool:
    """Whether a live broker of ours holds the bundle: one session has both nodes."""
    (names,) = await reader.children_many([LIVE_BROKERS])
    nodes = await reader.get_many(live(names or ()))
    return any(
        node is not None and node.stat.ephemeral_owner == owner.session and of_mledger(node.data) for node in nodes
    )
