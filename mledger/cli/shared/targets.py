"""Which topics a command is about: the one that was named, or all partitions of it."""

from dataclasses import dataclass

from mledger.admin.partitions import no_such_topic, present_partitions, read_partitioned
from mledger.cli.shared.read_only import Looking
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import TopicName


@dataclass(frozen=True, slots=True)
class Targets:
    """The topic that was named, its record if it is partitioned, and the topics with a managed ledger of it."""

    named: TopicName
    partitioned: PartitionedTopic | None
    topics: tuple[TopicName, ...]

    @property
    def managed_ledgers(self) -> tuple[str, ...]:
        """The names of their managed ledgers."""
        return tuple(topic.managed_ledger_name for topic in self.topics)


async def find_targets(cluster: Looking, named: TopicName) -> Targets:
    """The topic, or every partition that is there of a partitioned one; TopicNotFound, RecordError."""
    found = await read_partitioned(cluster.metadata, named)
    if found is not None:
        record, _ = found
        present = await present_partitions(cluster.metadata, named)
        return Targets(named, record, tuple(named.partition(index) for index in present if index < record.partitions))
    if await cluster.metadata.exists(named.managed_ledger_path) is None:
        raise await no_such_topic(cluster.metadata, named)
    return Targets(named, None, (named,))
