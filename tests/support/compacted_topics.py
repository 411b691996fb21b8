"""Topics with the data that other parts of Pulsar keep for them, and topics that a broker of ours compacts."""

import asyncio
import itertools

import mledger
from mledger.admin.references.attached_ledgers import pending_ack_topic
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.config import ManagedLedgerConfig
from mledger.cursors.positions import next_valid
from mledger.ledgers.orphans.pending_records import PendingRecord, read_records
from mledger.messages.pulsar_message import decode_entry, messages
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_store
from tests.support.topics import KEEP, fill

_views = itertools.count()
BUCKET = "#pulsar.internal.delayed.bucket_1_1"


async def make_ledger(url: str, entries: int = 10, **custom: str) -> int:
    """The metadata of a closed ledger of so many entries, as another part of Pulsar creates it."""
    async with await open_store(url) as store:
        ledgers = LedgerStore(store)
        ledger_id = await ledgers.next_id()
        metadata = LedgerMetadata(
            1,
            1,
            1,
            (Segment(0, ("127.0.0.1:1",)),),
            state=LedgerState.CLOSED,
            digest_type=DigestType.CRC32C,
            last_entry=entries - 1,
            length=10 * entries,
            custom_metadata=tuple((key.replace("_", "/"), value.encode()) for key, value in custom.items()),
        )
        await ledgers.create(ledger_id, metadata)
        return ledger_id


async def exists(url: str, ledger_id: int) -> bool:
    async with await open_store(url) as store:
        try:
            await LedgerStore(store).read(ledger_id)
        except NodeNotFound:
            return False
        return True


async def compacted_topic(
    url: str, topic: str, *, clean: bool, config: ManagedLedgerConfig = KEEP
) -> tuple[dict[str, int], set[int]]:
    """A topic with a compacted ledger, a bucket and a pending-ack topic. Returns those ledgers, and another topic's.

    The record of compaction's cursor names the stale compacted ledger; the cursor's last state names the other one.

    A subscription's properties also name a bucket of the other topic.
    """
    compacted = {"component": "compacted-ledger", "pulsar_compactedTopic": topic}
    bucket = {"component": "delayed-index-bucket", "pulsar_delayedIndexTopic": topic}
    ours = {
        "stale": await make_ledger(url, **compacted),
        "compacted": await make_ledger(url, **compacted),
        "bucket": await make_ledger(url, **bucket),
    }
    others = {
        await make_ledger(url, component="delayed-index-bucket", pulsar_delayedIndexTopic=f"{topic}-other"),
        await make_ledger(url, component="something"),
    }
    async with mledger.open_cluster(url, config=config) as cluster:
        opened = await cluster.create_topic(topic)
        positions = await fill(opened, 2)
        compaction = await opened.open_cursor("__compaction")
        await compaction.acknowledge_cumulative(positions[0], {"CompactedTopicLedger": ours["stale"]})
        await opened.close()
        opened = await cluster.open_topic(topic)
        properties = {BUCKET: str(ours["bucket"])} | {f"{BUCKET}_{each}": str(each) for each in others}
        await opened.open_cursor("delayed", cursor_properties=properties)
        compaction = await opened.open_cursor("__compaction")
        await compaction.acknowledge_cumulative(positions[1], {"CompactedTopicLedger": ours["stale"]})
        await compaction.acknowledge_cumulative(positions[1], {"CompactedTopicLedger": ours["compacted"]})
        await (opened.close() if clean else opened.abandon())
        acks = await cluster.create_topic(str(pending_ack_topic(TopicName.parse(topic), "delayed")))
        await acks.open_cursor("__pending_ack_state")
        await acks.close()
    return ours, others


async def publish_keyed(client, *values: str) -> list[Position]:
    """Send messages whose key is the first letter; `a-` deletes the key `a`, `-x` has no key. Their positions."""
    for sequence, value in enumerate(values):
        payload, key = ("" if value.endswith("-") else value), (None if value.startswith("-") else value[0])
        client.publish(payload.encode(), sequence, key=key)
    receipts = [await client.expect("send_receipt") for _ in values]
    return [Position(each.message_id.ledgerId, each.message_id.entryId) for each in receipts]


async def compacted(broker, topic: str) -> CompactionStatus:
    """Compact the topic, wait until that and what follows it is done, and return how it ended."""
    opened = topic_of(broker, topic)
    opened.compaction.start()
    while opened.compaction.status is CompactionStatus.RUNNING or await _recorded(broker, opened):
        await asyncio.sleep(0.005)
    return opened.compaction.status


async def _recorded(broker, opened) -> list[PendingRecord]:
    """The records of ledgers that are not settled yet."""
    name = opened.managed_ledger.name
    return [each for each in await read_records(broker.cluster.store) if each.managed_ledger == name]


def topic_of(broker, topic: str):
    """The open topic."""
    found = broker.broker.topics.find(mledger.TopicName.parse(topic))
    assert found is not None
    return found


async def view_of(broker, topic: str) -> list[tuple[Position, list[str]]]:
    """What a reader of the compacted view gets up to the topic's last entry: positions, and the values there."""
    reader = await broker.connect()
    name = f"view-{next(_views)}"  # the reader before may not have ended yet
    await reader.subscribe(topic=topic, subscription=name, permits=1000, read_compacted=True, durable=False)
    opened = topic_of(broker, topic)
    end = opened.managed_ledger.last_confirmed
    view = await opened.compacted.latest()
    if view is not None and next_valid(opened.managed_ledger.ledger_list, view.horizon) > end:  # nothing came since
        end = (await view.last_message())[0]
    found = []
    while not found or found[-1][0] < end:
        (message,) = await reader.messages(1)
        entry = decode_entry(message.entry)
        values = [each.payload.decode() for each in messages(entry) if not each.compacted_out]
        found.append((message.position, values))
    reader.close()
    return found
