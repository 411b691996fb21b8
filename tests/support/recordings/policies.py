"""The policies of a namespace that a broker of Pulsar 4.2.4 wrote, and the same written into a cluster of ours."""

from typing import Any

import mledger
from mledger.bookie.client import BookKeeper
from mledger.metastore.cluster.policies import Retention
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.store import MetadataStore
from tests.support.recordings import golden
from tests.support.topics import CONFIG

RECORDED: dict[str, Any] = golden.load("topic-policies/change-events.json")
EVENTS = [bytes.fromhex(entry) for ledger in RECORDED["ledgers"] for entry in ledger["entries_hex"]]
COMPACTED = [bytes.fromhex(entry) for ledger in RECORDED["compacted"] for entry in ledger["entries_hex"]]
SCHEMA = bytes.fromhex(RECORDED["schema_ledgers"][0]["entries_hex"][0])
OF_NAMESPACE = Retention(90, 200)
"""What the namespace's policies keep. Its topics `own`, `shorter` and others have policies of their own."""


def applied_retention(topic: str) -> Retention:
    """What the broker's admin API applies to `topic`."""
    found = RECORDED["applied"][topic]["retention"]
    return Retention(found["retentionTimeInMinutes"], found["retentionSizeInMB"])


async def put_namespace_policies(store: MetadataStore, namespace: str, data: bytes | None = None) -> None:
    """Write the recorded policies of the namespace, or `data`."""
    policies = bytes.fromhex(RECORDED["namespace_policies_hex"]) if data is None else data
    await store.create(f"/admin/policies/{namespace}", policies, parents=True)


async def put_schema(store: MetadataStore, bookkeeper: BookKeeper, namespace: str) -> None:
    """Write the recorded schema of the events into a ledger of this cluster."""
    writer = await bookkeeper.create_ledger(1, 1, 1)
    await writer.append([SCHEMA])
    await writer.close()
    locator = SchemaLocator.FromString(bytes.fromhex(RECORDED["schema_locator_hex"]))
    locator.info.position.ledgerId = writer.ledger_id
    for index in locator.index:
        index.position.ledgerId = writer.ledger_id
    await store.create(f"/schemas/{namespace}/__change_events", locator.SerializeToString(), parents=True)


async def put_compacted(bookkeeper: BookKeeper) -> int:
    """Write the recorded compacted ledger, and return its id."""
    writer = await bookkeeper.create_ledger(1, 1, 1)
    await writer.append(COMPACTED)
    await writer.close()
    return writer.ledger_id


async def open_events(
    cluster: mledger.Cluster, namespace: str, config: mledger.ManagedLedgerConfig = CONFIG
) -> mledger.ManagedLedger:
    """The namespace's `__change_events`, created here, without entries."""
    return await cluster.create_topic(f"persistent://{namespace}/__change_events", config=config)
