"""`mledger topics list`."""

from contextlib import suppress

import click

from mledger.admin.namespaces import check_namespace
from mledger.admin.partitions import list_partitioned, present_partitions_of
from mledger.admin.topic_names import list_topics
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputTable, columns, pairs
from mledger.metastore.errors import MetadataAccessDenied, RecordError
from mledger.metastore.records.paths import NON_PERSISTENT, TopicName
from mledger.metastore.url import open_synced_reader


@click.command("list", epilog="Example: mledger topics list public/default")
@click.argument("namespace", default="")
@click.option("--partitioned", is_flag=True, help="Only the partitioned topics, with their numbers of partitions.")
@common_options
@click.pass_obj
def list_command(context: CommandContext, namespace: str, partitioned: bool) -> None:
    """List the topics, or those of NAMESPACE: tenant or tenant/namespace.

    Each partition of a partitioned topic is a topic.
    """
    unreadable: list[RecordError] = []
    if partitioned:
        context.output.table(context.run(_list_partitioned(context.url, namespace, unreadable)))
    else:
        found = context.run(_list(context.url, namespace, unreadable))
        context.output.table(OutputTable("topics", columns("topic", "managed_ledger", "partition_of"), tuple(found)))
    if unreadable:
        raise unreadable[0]  # the others are shown


async def _list(url: str, namespace: str, unreadable: list[RecordError]) -> list[tuple[str, str, str | None]]:
    async with await open_synced_reader(url) as metadata:
        found = await list_topics(metadata, namespace)
        if not found:
            await check_namespace(metadata, namespace)
        partitioned: set[TopicName] = set()
        with suppress(MetadataAccessDenied):  # a login with access to topics may lack access to Pulsar's nodes
            partitioned = {topic for topic, _ in await list_partitioned(metadata, namespace, unreadable)}
    return [
        (str(name), name.managed_ledger_name, str(name.partitioned) if name.partitioned in partitioned else None)
        for name in found
    ]


async def _list_partitioned(url: str, namespace: str, unreadable: list[RecordError]) -> OutputTable:
    async with await open_synced_reader(url) as metadata:
        stored = await list_partitioned(metadata, namespace, unreadable)
        found = [*stored, *await list_partitioned(metadata, namespace, unreadable, NON_PERSISTENT)]
        if not found:
            await check_namespace(metadata, namespace)
        present = await present_partitions_of(metadata, [topic for topic, _ in stored])
    rows = tuple(
        (
            str(topic),
            record.partitions,
            len(present[topic]) if topic in present else None,
            record.deleted,
            pairs(record.properties or ()),
        )
        for topic, record in found
    )
    return OutputTable("topics", columns("topic", "partition_count", "existing", "being_deleted", "properties"), rows)
