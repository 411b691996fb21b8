"""`mledger topics`: topics as managed ledgers."""

from contextlib import suppress

import click

from mledger.admin.inspect import Inspector
from mledger.admin.namespaces import check_namespace
from mledger.admin.partitions import (
    PartitionsPlan,
    check_not_partitioned,
    create_missing_partitions,
    create_partitioned_topic,
    list_partitioned,
    present_partitions,
    read_partitioned,
)
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.cli.shared.command_group import CommandGroup
from mledger.cli.shared.context import Session, session_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output import Record, Table, columns, fields, pairs
from mledger.cli.shared.parameters import Properties, PropertyType
from mledger.cli.shared.read_only import looking
from mledger.cli.shared.topic_owner import WriteOptions, write_options
from mledger.cli.topics.changes import delete, set_properties, terminate, trim, truncate
from mledger.cli.topics.description import described_partitions, described_topic
from mledger.cli.topics.drop_ledgers import drop_ledgers
from mledger.cli.topics.entries import produce, read
from mledger.cli.topics.internal_stats import info_internal, stats_internal
from mledger.cli.topics.repair import repair
from mledger.config import ManagedLedgerConfig
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import RetentionInForce, retention_in_force
from mledger.metastore.errors import MetadataAccessDenied
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store

MAX_PARTITIONS = 100_000


@click.group(cls=CommandGroup)
def topics() -> None:
    """Create, publish to, look at, read, change and delete topics."""


@topics.command(epilog="Example: mledger topics create persistent://public/default/orders --property team=storage")
@topic_argument
@click.option(
    "--property",
    "properties",
    type=PropertyType(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A property to keep with it.",
)
@click.option("--partitions", type=click.IntRange(1, MAX_PARTITIONS), help="Create a partitioned topic of so many.")
@click.option("--missing", is_flag=True, help="Create the partitions of a partitioned topic that are not there.")
@write_options
@session_options
@click.pass_obj
def create(
    session: Session, topic: str, properties: Properties, partitions: int | None, missing: bool, options: WriteOptions
) -> None:
    """Create TOPIC, persistent://tenant/namespace/topic, with a first ledger.

    With --partitions TOPIC becomes a partitioned topic, as Pulsar makes it: its partitions are topics of their own,
    TOPIC-partition-0 and on, and get their first ledger when they are first opened.
    """
    name = TopicName.parse(topic)
    if missing and (partitions or properties):
        raise click.UsageError("--missing takes what there is: leave --partitions and --property out")
    if partitions or missing:
        plan = session.run(_create_partitioned(session.url, str(name), partitions, dict(properties)))
        created = [str(name.partition(index)) for index in plan.missing]
        if session.output.for_programs:
            session.output.record(Record(fields(topic=str(name), created=tuple(created))))
        else:
            session.output.line(f"created {len(created)} partitions of {name}")
        return
    session.run(_create(session.url, name, dict(properties), options))
    if session.output.for_programs:
        session.output.record(Record(fields(topic=str(name), managed_ledger=name.managed_ledger_name)))
    else:
        session.output.line(f"created {name}")


@topics.command("list", epilog="Example: mledger topics list public/default")
@click.argument("namespace", default="")
@click.option("--partitioned", is_flag=True, help="Only the partitioned topics, and how many partitions they have.")
@session_options
@click.pass_obj
def list_command(session: Session, namespace: str, partitioned: bool) -> None:
    """List the topics, or those of NAMESPACE: tenant or tenant/namespace.

    Each partition of a partitioned topic is a topic.
    """
    if partitioned:
        session.output.table(session.run(_list_partitioned(session.url, namespace)))
    else:
        found = session.run(_list(session.url, namespace))
        session.output.table(Table("topics", columns("topic", "managed_ledger", "partition_of"), tuple(found)))


@topics.command(epilog="Example: mledger topics describe orders")
@topic_argument
@session_options
@click.pass_obj
def describe(session: Session, topic: str) -> None:
    """Show TOPIC's ledgers, its end and its cursors; nothing is changed and nothing is fenced.

    Of a partitioned topic it shows the partitions.
    """
    session.output.record(session.run(_describe(session.url, topic)))


for each in (
    delete,
    drop_ledgers,
    info_internal,
    produce,
    read,
    repair,
    set_properties,
    stats_internal,
    terminate,
    trim,
    truncate,
):
    topics.add_command(each)


async def _create(url: str, name: TopicName, properties: dict[str, str], options: WriteOptions) -> None:
    async with options.open_cluster(url) as cluster:
        await check_not_partitioned(cluster.metadata, name)
        topic = await cluster.create_topic(str(name), properties=properties)
        await topic.close()


async def _create_partitioned(
    url: str, name: str, partitions: int | None, properties: dict[str, str]
) -> PartitionsPlan:
    async with await open_store(url) as store:
        if partitions is None:
            return await create_missing_partitions(store, name)
        return await create_partitioned_topic(store, name, partitions, properties)


async def _list(url: str, namespace: str) -> list[tuple[str, str, str | None]]:
    async with looking(url) as cluster:
        found = await Inspector(cluster.metadata, cluster.bookies).topics(namespace)
        if not found:
            await check_namespace(cluster.metadata, namespace)
        partitioned: set[TopicName] = set()
        with suppress(MetadataAccessDenied):  # who may see topics need not see Pulsar's own nodes
            partitioned = {topic for topic, _ in await list_partitioned(cluster.metadata, namespace)}
    return [
        (str(name), name.managed_ledger_name, str(name.partitioned) if name.partitioned in partitioned else None)
        for name in found
    ]


async def _list_partitioned(url: str, namespace: str) -> Table:
    async with looking(url) as cluster:
        found = await list_partitioned(cluster.metadata, namespace)
        if not found:
            await check_namespace(cluster.metadata, namespace)
        present = [len(await present_partitions(cluster.metadata, topic)) for topic, _ in found]
    rows = tuple(
        (str(topic), record.partitions, existing, record.deleted, pairs(record.properties or ()))
        for (topic, record), existing in zip(found, present, strict=True)
    )
    return Table("topics", columns("topic", "partition_count", "existing", "being_deleted", "properties"), rows)


async def _describe(url: str, topic: str) -> Record:
    name = TopicName.parse(topic)
    async with looking(url) as cluster:
        inspector = Inspector(cluster.metadata, cluster.bookies)
        plain = await cluster.metadata.exists(name.managed_ledger_path) is not None
        if not plain and await read_partitioned(cluster.metadata, name) is not None:
            return described_partitions(topic, await inspector.partitioned(str(name)))
        found = await inspector.topic(str(name))
        retention: RetentionInForce | PoliciesUnavailable
        try:
            policies = await PolicyReader(cluster.metadata, cluster.bookies).policies(name.managed_ledger_name)
            retention = retention_in_force(policies, ManagedLedgerConfig())
        except PoliciesUnavailable as error:
            retention = error
        return described_topic(topic, found, retention)
