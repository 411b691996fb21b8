"""Partitioned topics: Pulsar's record of how many partitions there are, and the managed ledger of each.

A partition is a topic of its own, `<topic>-partition-<index>`. As in Pulsar, a partition starts as an empty record and
gets its first ledger when it is first opened.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from mledger.errors import TopicExists, TopicNotFound
from mledger.ledgers.topic_properties import check_topic_properties
from mledger.metastore.errors import InvalidName, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.partitioned_topic import (
    PartitionedTopic,
    decode_partitioned_topic,
    encode_partitioned_topic,
)
from mledger.metastore.records.paths import MANAGED_LEDGERS, PARTITIONED_TOPICS, PERSISTENT, TopicName
from mledger.metastore.store import Check, Create, MetadataReader, MetadataStore, Operation
from mledger.metastore.write_verification import create_own, multi_own

CREATED_AT_ONCE = 500
ATTEMPTS = 3


class PartitionsPlan(Struct, frozen=True):
    """What creating a partitioned topic writes: its record, None if that exists, and the partitions `missing`."""

    record: PartitionedTopic | None
    missing: tuple[int, ...]


def plan_create_partitioned(
    topic: TopicName,
    record: PartitionedTopic,
    *,
    exists: PartitionedTopic | None,
    plain: bool,
    present: Collection[int],
) -> PartitionsPlan:
    """Decide, as Pulsar does, whether `topic` can become partitioned as `record` says.

    The partitions of a non-persistent topic are stored nowhere: none of them is missing.

    Args:
        topic: the topic; its name must not be that of a partition.
        record: the record to write.
        exists: its record if it is partitioned already.
        plain: whether a topic of that name exists that is not partitioned.
        present: indexes of the partitions that exist; those below `record.partitions` are kept.

    Raises:
        InvalidName: the topic's name is that of a partition.
        TopicExists: the topic exists, or one of its partitions lies beyond the number requested.
    """
    if topic.partition_index is not None:
        raise InvalidName(f"{topic} is the name of a partition: create {topic.partitioned} as partitioned instead")
    if exists is not None:
        raise TopicExists(
            f"{topic} exists already and has {exists.partitions} partitions; --missing creates those that do not exist"
        )
    if plain:
        raise TopicExists(f"{topic} exists already and is not partitioned: delete it first, or choose another name")
    beyond = max(present, default=-1)
    if beyond >= record.partitions:
        raise TopicExists(f"{topic.partition(beyond)} exists already: ask for at least {beyond + 1} partitions")
    missing = range(record.partitions) if topic.is_persistent else ()
    return PartitionsPlan(record, tuple(index for index in missing if index not in present))


async def read_partitioned(reader: MetadataReader, topic: TopicName) -> tuple[PartitionedTopic, int] | None:
    """The topic's record and its node's version, None if it is not partitioned. RecordError."""
    try:
        node = await reader.get(topic.partitioned_topic_path)
    except NodeNotFound:
        return None
    record = decode_partitioned_topic(node.data, topic.partitioned_topic_path)
    return (record, node.version) if record.partitions else None


async def list_partitioned(
    reader: MetadataReader, prefix: str, unreadable: list[RecordError], domain: str = PERSISTENT
) -> list[tuple[TopicName, PartitionedTopic]]:
    """All partitioned topics of the domain, sorted by name; with `prefix` only those of a tenant or tenant/namespace.

    Records that do not parse are left out, and their errors added to `unreadable`.
    """
    level = ["/".join([PARTITIONED_TOPICS, *filter(None, prefix.split("/"))])]
    found: list[tuple[TopicName, str]] = []
    for _ in range(4):
        children = await reader.children_many(level)
        below = [f"{path}/{name}" for path, names in zip(level, children, strict=True) for name in names or ()]
        folders = [path for path in below if path.endswith(f"/{domain}")]
        for folder, names in zip(folders, await reader.children_many(folders), strict=True):
            for name in names or ():
                managed_ledger = f"{folder}/{name}"[len(PARTITIONED_TOPICS) + 1 :]
                with contextlib.suppress(InvalidName):
                    found.append((TopicName.of_managed_ledger(managed_ledger), f"{folder}/{name}"))
        level = [path for path in below if not path.endswith(f"/{domain}") and path.count("/") < 6]
    nodes = await reader.get_many([path for _, path in found])
    records: list[tuple[TopicName, PartitionedTopic]] = []
    for (topic, path), node in zip(found, nodes, strict=True):
        if node is not None:
            try:
                records.append((topic, decode_partitioned_topic(node.data, path)))
            except RecordError as error:
                unreadable.append(error)
    return sorted(records, key=lambda each: str(each[0]))


async def present_partitions(reader: MetadataReader, topic: TopicName) -> list[int]:
    """Indexes of the topic's partitions that have a managed ledger, in ascending order."""
    return (await present_partitions_of(reader, [topic]))[topic]


async def present_partitions_of(reader: MetadataReader, topics: Sequence[TopicName]) -> dict[TopicName, list[int]]:
    """As `present_partitions`, for each of `topics`; each namespace is listed once."""
    found: dict[TopicName, list[int]] = {topic: [] for topic in topics}
    folders = list(dict.fromkeys(topic.managed_ledger_path.rpartition("/")[0] for topic in topics))
    for folder, names in zip(folders, await reader.children_many(folders), strict=True):
        for name in names or ():
            with contextlib.suppress(InvalidName):
                each = TopicName.of_managed_ledger(f"{folder[len(MANAGED_LEDGERS) + 1 :]}/{name}")
                if each.partition_index is not None and each.partitioned in found:
                    found[each.partitioned].append(each.partition_index)
    return {topic: sorted(indexes) for topic, indexes in found.items()}


async def check_not_partitioned(reader: MetadataReader, topic: TopicName) -> None:
    """Raise TopicExists if a topic of this name would conflict with a partitioned topic, as Pulsar decides it."""
    found = await read_partitioned(reader, topic)
    if found is not None:
        raise TopicExists(f"{topic} exists already, with {found[0].partitions} partitions: choose another name")
    index = topic.partition_index
    whole = None if index is None else await read_partitioned(reader, topic.partitioned)
    if index is not None and whole is not None and index >= whole[0].partitions:
        raise TopicExists(f"{topic.partitioned} has {whole[0].partitions} partitions and no partition {index}")


async def create_partitioned_topic(
    store: MetadataStore, name: str, partitions: int, properties: Mapping[str, str] | None = None
) -> PartitionsPlan:
    """Make the topic partitioned: write its record and its missing partitions; up to 500 nodes are written atomically.

    `properties` are stored in the record, as Pulsar does. Raises InvalidProperties, and what `plan_create_partitioned`
    raises.
    """
    check_topic_properties(properties or {})
    topic = TopicName.parse_served(name)
    record = PartitionedTopic(partitions, properties=tuple(properties.items()) if properties else None)
    found = await read_partitioned(store, topic)
    plan = plan_create_partitioned(
        topic,
        record,
        exists=None if found is None else found[0],
        plain=await store.exists(topic.managed_ledger_path) is not None,
        present=await present_partitions(store, topic),
    )
    await _carry_out(store, topic, plan)
    return plan


async def create_missing_partitions(store: MetadataStore, name: str) -> PartitionsPlan:
    """Create the missing partitions of a partitioned topic.

    Raises:
        TopicNotFound: it is not partitioned.
        TopicExists: it is being deleted.
        BadVersion, NodeNotFound: somebody changes or deletes it meanwhile.
    """
    topic = TopicName.parse(name)
    await store.sync()
    found = await read_partitioned(store, topic)
    if found is None:
        raise TopicNotFound(f"{topic} is not a partitioned topic: give the number of partitions with --partitions")
    if found[0].deleted:
        raise TopicExists(
            f"{topic} is being deleted, or a deletion of it was interrupted: finish that with `mledger topics delete`, "
            "then create it anew"
        )
    return await create_partitions(store, topic, found[0].partitions, Check(topic.partitioned_topic_path, found[1]))


async def create_partitions(
    store: MetadataStore, topic: TopicName, partitions: int, guard: Check | None = None
) -> PartitionsPlan:
    """Create those of the first `partitions` partitions that do not exist, whatever the topic's record says.

    Clients that open one meanwhile create it too. TopicExists if they do so at each attempt, BadVersion and
    NodeNotFound if `guard` fails.
    """
    for attempt in range(1, ATTEMPTS + 1):
        present = set(await present_partitions(store, topic))
        plan = PartitionsPlan(None, tuple(index for index in range(partitions) if index not in present))
        try:
            await _carry_out(store, topic, plan, guard)
        except TopicExists:
            if attempt == ATTEMPTS:
                raise
        else:
            return plan
    raise AssertionError("the last attempt returned or raised")


async def no_such_topic(reader: MetadataReader, topic: TopicName) -> TopicNotFound:
    """The error to raise if `topic` has no managed ledger; it points to the partitions if the topic is partitioned."""
    found = await read_partitioned(reader, topic)
    if found is None:
        return TopicNotFound(f"there is no topic {topic}: list the topics that exist, or create it")
    last = found[0].partitions - 1
    return TopicNotFound(f"{topic} is partitioned: name one of its partitions, {topic.partition(0)} to {last}")


async def _carry_out(store: MetadataStore, topic: TopicName, plan: PartitionsPlan, guard: Check | None = None) -> None:
    operations: list[Operation] = []
    if plan.record is not None:
        operations.append(Create(topic.partitioned_topic_path, encode_partitioned_topic(plan.record)))
    operations += [Create(topic.partition(index).managed_ledger_path) for index in plan.missing]
    for folder in {operation.path.rpartition("/")[0] for operation in operations if isinstance(operation, Create)}:
        with contextlib.suppress(NodeExists):
            await create_own(store, folder)
    try:
        for start in range(0, len(operations), CREATED_AT_ONCE):
            part = operations[start : start + CREATED_AT_ONCE]
            await multi_own(store, part if guard is None else [*part, guard])
    except NodeExists as conflict:
        raise TopicExists(
            f"{conflict.path} of {topic} was created by someone else meanwhile; "
            "check it, and create the rest with --missing"
        ) from None
