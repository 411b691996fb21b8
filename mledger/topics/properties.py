"""Changes a topic's properties by one compare-and-set of its record, without opening the topic.

Only the owner may change an owned topic: commands check for an owner first (M9), and the
compare-and-set fails if the record has changed since.
"""

import contextlib
from collections.abc import Mapping

from msgspec.structs import replace

from mledger.metastore.errors import BadVersion, NodeNotFound
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.partitioned_topic import (
    PartitionedTopic,
    decode_partitioned_topic,
    encode_partitioned_topic,
)
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataStore, Put
from mledger.metastore.write_verification import data_at, put_own


def topic_properties_write(data: bytes, topic: TopicName, properties: Mapping[str, str], version: int) -> Put:
    """The write that replaces the properties of a topic whose record, at `version`, has `data`. RecordError."""
    path = topic.managed_ledger_path
    decoded = decode_managed_ledger_info(data, path)
    info = replace(decoded.value, properties=tuple(properties.items()))
    return Put(path, encode_managed_ledger_info(info, compression=decoded.compression), version)


def partitioned_properties_write(data: bytes, topic: TopicName, properties: Mapping[str, str], version: int) -> Put:
    """The same of a partitioned topic, in its own record, where Pulsar keeps them. RecordError."""
    path = topic.partitioned_topic_path
    record = decode_partitioned_topic(data, path)
    return Put(path, encode_partitioned_topic(replace(record, properties=tuple(properties.items()))), version)


async def set_topic_properties(
    store: MetadataStore, topic: TopicName, properties: Mapping[str, str], version: int
) -> int:
    """Replace the properties of a topic whose record is at `version`; returns the new version.

    Raises NodeNotFound, BadVersion, NodeTooLarge, RecordError.
    """
    data = await _data_at(store, topic.managed_ledger_path, version)
    return await _put(store, topic_properties_write(data, topic, properties, version))


async def set_partitioned_properties(
    store: MetadataStore, topic: TopicName, properties: Mapping[str, str], version: int
) -> int:
    """Replace the properties of a partitioned topic; errors as of `set_topic_properties`."""
    data = await _data_at(store, topic.partitioned_topic_path, version)
    return await _put(store, partitioned_properties_write(data, topic, properties, version))


async def _put(store: MetadataStore, write: Put) -> int:
    return await put_own(store, write.path, write.data, write.version)


async def mark_deleted(
    store: MetadataStore, topic: TopicName, *, planned: PartitionedTopic | None = None
) -> tuple[PartitionedTopic, int]:
    """Mark a partitioned topic's record as being deleted, as Pulsar does; returns it as it was, and its version now.

    Raises NodeNotFound, and BadVersion, also if it has not as many partitions as `planned`: the others would stay.
    """
    path = topic.partitioned_topic_path
    await store.sync()
    node = await store.get(path)
    record = decode_partitioned_topic(node.data, path)
    if planned is not None and record.partitions != planned.partitions:
        raise BadVersion(f"{path} was written since the plan was made: run the command again", path)
    if record.deleted:
        return record, node.version
    data = encode_partitioned_topic(replace(record, deleted=True))
    return record, await put_own(store, path, data, node.version)


async def unmark_deleted(store: MetadataStore, topic: TopicName, version: int) -> None:
    """Undo `mark_deleted`, which gave the record this version, unless somebody has changed the record since."""
    path = topic.partitioned_topic_path
    with contextlib.suppress(BadVersion, NodeNotFound):
        record = decode_partitioned_topic(await _data_at(store, path, version), path)
        await put_own(store, path, encode_partitioned_topic(replace(record, deleted=False)), version)


async def _data_at(store: MetadataStore, path: str, version: int) -> bytes:
    """The node's data at `version`; syncs first, since a lagging server may serve an older version."""
    await store.sync()
    return await data_at(store, path, version, "run the command again")
