"""`mledger topics create`."""

import click

from mledger.admin.partitions import (
    PartitionsPlan,
    check_not_partitioned,
    create_missing_partitions,
    create_partitioned_topic,
)
from mledger.cli.shared.changes.topic_owner import WriteOptions, closing, write_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.shared.parameters import Properties, PropertyType
from mledger.metastore.records.partitioned_topic import MOST_PARTITIONS
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store


@click.command(epilog="Example: mledger topics create persistent://public/default/orders --property team=storage")
@topic_argument
@click.option(
    "--property",
    "properties",
    type=PropertyType(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the topic.",
)
@click.option(
    "--partitions", type=click.IntRange(1, MOST_PARTITIONS), help="Create a partitioned topic with this number."
)
@click.option("--missing", is_flag=True, help="Create the missing partitions of a partitioned topic.")
@write_options
@common_options
@click.pass_obj
def create(
    context: CommandContext,
    topic: str,
    properties: Properties,
    partitions: int | None,
    missing: bool,
    options: WriteOptions,
) -> None:
    """Create TOPIC, persistent://tenant/namespace/topic, with a first ledger.

    With --partitions, create a partitioned topic as Pulsar does: its partitions are topics named
    TOPIC-partition-0 and so on, and get their first ledger when they are first opened. This is also
    how a non-persistent topic gets partitions; of those nothing else is stored.
    """
    name = TopicName.parse_served(topic) if partitions else TopicName.parse(topic)
    if missing and (partitions or properties):
        raise click.UsageError(
            "--missing keeps the topic's partitions and properties: omit --partitions and --property"
        )
    if partitions or missing:
        plan = context.run(_create_partitioned(context.url, str(name), partitions, dict(properties)))
        with messages.made(f"the partitions of {name} were created"):
            _show_partitions(context, name, partitions, plan)
        return
    context.run(_create(context.url, name, dict(properties), options))
    with messages.made(f"{name} was created"):
        if context.output.for_programs:
            context.output.record(OutputRecord(fields(topic=str(name), managed_ledger=name.managed_ledger_name)))
        else:
            context.output.line(f"created {name}")


def _show_partitions(context: CommandContext, name: TopicName, partitions: int | None, plan: PartitionsPlan) -> None:
    created = [str(name.partition(index)) for index in plan.missing]
    if context.output.for_programs:
        context.output.record(OutputRecord(fields(topic=str(name), created=tuple(created))))
    elif not name.is_persistent:
        context.output.line(f"{name} has {partitions} partitions: brokers create them when clients use them")
    else:
        context.output.line(f"created {len(created)} partitions of {name}")


async def _create(url: str, name: TopicName, properties: dict[str, str], options: WriteOptions) -> None:
    async with options.open_cluster(url) as cluster:
        await check_not_partitioned(cluster.metadata, name)
        created = await cluster.create_topic(str(name), properties=properties)
        with messages.made(f"{name} was created"):
            async with closing(created):
                pass


async def _create_partitioned(
    url: str, name: str, partitions: int | None, properties: dict[str, str]
) -> PartitionsPlan:
    async with await open_store(url) as store:
        if partitions is None:
            return await create_missing_partitions(store, name)
        return await create_partitioned_topic(store, name, partitions, properties)
