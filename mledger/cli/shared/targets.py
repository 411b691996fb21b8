"""The topics of a command: the named one, its partitions, those of a namespace, or all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from mledger.admin.namespaces import check_namespace
from mledger.admin.partitions import no_such_topic, present_partitions, read_partitioned
from mledger.admin.topic_names import list_topics
from mledger.cli.shared.names import optional_topic_argument
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import TopicName

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Targets:
    """The named topic, its record if it is partitioned, and its topics that have a managed ledger."""

    named: TopicName
    partitioned: PartitionedTopic | None
    topics: tuple[TopicName, ...]

    @property
    def managed_ledgers(self) -> tuple[str, ...]:
        """The names of their managed ledgers."""
        return tuple(topic.managed_ledger_name for topic in self.topics)


async def find_targets(cluster: ReadOnlyCluster, named: TopicName) -> Targets:
    """The topic, or the existing partitions of a partitioned one. Raises TopicNotFound, RecordError.

    Of a non-persistent topic nothing is stored: it exists, with all of its partitions.
    """
    found = await read_partitioned(cluster.metadata, named)
    if found is not None:
        record, _ = found
        every = range(record.partitions)
        present = await present_partitions(cluster.metadata, named) if named.is_persistent else every
        return Targets(named, record, tuple(named.partition(index) for index in present if index < record.partitions))
    if named.is_persistent and await cluster.metadata.exists(named.managed_ledger_path) is None:
        raise await no_such_topic(cluster.metadata, named)
    return Targets(named, None, (named,))


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """A selection of topics: one with its partitions, those of a namespace or a tenant, or all."""

    topic: TopicName | None
    namespace: str

    @classmethod
    def of(cls, topic: str | None, namespace: str | None, every: bool) -> "TopicSelection":
        """The selection by `scope_arguments`.

        Raises click.UsageError unless exactly one is given, and for a namespace with an empty part: a variable that
        is not set must not select a whole tenant, or all topics.
        """
        if (topic is not None) + (namespace is not None) + every != 1:
            raise click.UsageError("select topics: give one of TOPIC, --namespace TENANT/NAMESPACE or --all")
        if namespace is None:
            return cls(None if topic is None else TopicName.parse(topic), "")
        parts = namespace.split("/")
        if len(parts) > 2 and not parts[-1]:
            parts.pop()
        if not all(parts):
            raise click.UsageError(
                f"{namespace!r} is no namespace: write TENANT/NAMESPACE, or TENANT for all of a tenant"
            )
        return cls(None, "/".join(parts))

    def __str__(self) -> str:
        return str(self.topic) if self.topic is not None else self.namespace or "all topics"

    async def topics(self, cluster: ReadOnlyCluster) -> tuple[TopicName, ...]:
        """The selected topics that exist. Raises TopicNotFound, NamespaceNotFound."""
        if self.topic is not None:
            return (await find_targets(cluster, self.topic)).topics
        topics = await list_topics(cluster.metadata, self.namespace)
        if not topics:
            await check_namespace(cluster.metadata, self.namespace)
        return tuple(topics)


def scope_arguments(command: Command) -> Command:
    """Add TOPIC, --namespace and --all to `command`, as `topic`, `namespace` and `every`."""
    for each in (
        click.option("--all", "every", is_flag=True, help="All topics."),
        click.option("--namespace", metavar="TENANT/NAMESPACE", help="All topics of tenant/namespace, or of a tenant."),
        optional_topic_argument,
    ):
        command = each(command)
    return command
