"""Asks a broker of ours, through the metadata store, to unload the bundle that contains a topic.

The owner's node says `disabled`, as Pulsar's nodes do of a bundle that is being unloaded. Its owner
follows the node: it closes the bundle's topics, and removes the node.
"""

import contextlib
import json

from mledger.broker.lookup.broker_records import decode_report, is_disabled
from mledger.broker.refusals import BrokerRefusal
from mledger.ledgers.bundles import LIVE_BROKERS, NAMESPACES, live, of_mledger
from mledger.ledgers.ownership import find_broker
from mledger.metastore.errors import BadVersion, NodeNotFound
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader, MetadataStore
from mledger.pb import PulsarApi_pb2 as pb


async def request_unload(store: MetadataStore, topic: TopicName) -> None:
    """Return once the topic's bundle was unloaded; at once if no broker serves it.

    Raises:
        BrokerRefusal: the broker that serves it is not one of ours.
    """
    owner = await find_broker(store, topic.managed_ledger_name)
    if owner is None:
        return
    if not owner.path.startswith(f"{NAMESPACES}/") or not await _is_ours(store, owner.address):
        raise BrokerRefusal(pb.NotAllowedError, f"{owner}: unload the topic with that broker's own tools")
    async with store.watch(owner.path) as changes:
        with contextlib.suppress(NodeNotFound, BadVersion):
            node = await store.get(owner.path)
            if node.stat.ephemeral_owner != owner.session:
                return
            content = json.loads(node.data) | {"disabled": True}
            await store.put(owner.path, json.dumps(content).encode(), node.version)
        while True:
            try:
                node = await store.get(owner.path)
            except NodeNotFound:
                return
            if not is_disabled(node.data):
                return
            await anext(changes)


async def _is_ours(reader: MetadataReader, url: str) -> bool:
    (names,) = await reader.children_many([LIVE_BROKERS])
    nodes = await reader.get_many(live(names or ()))
    for name, node in zip(names or (), nodes, strict=True):
        report = None if node is None else decode_report(name, node.data)
        if node is not None and report is not None and report.address.url == url:
            return of_mledger(node.data)
    return False
