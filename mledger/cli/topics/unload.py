"""`mledger topics unload`: asks the brokers that serve a topic to unload its bundles."""

import click

from mledger.broker.lookup.unload_request import request_unload
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.shared.read_only import read_only_cluster
from mledger.cli.shared.targets import find_targets
from mledger.errors import OwnedElsewhere
from mledger.ledgers.bundles import NAMESPACES, BrokerOwner
from mledger.ledgers.ownership import find_broker, find_owner
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader
from mledger.metastore.url import open_store

BUNDLE_COLUMNS = columns("bundle", "broker")


@click.command(epilog="Example: mledger topics unload orders")
@topic_argument
@common_options
@click.pass_obj
def unload(context: CommandContext, topic: str) -> None:
    """Ask the broker that serves TOPIC to close it, with all topics of its bundle, so that any broker can open it.

    Clients reconnect, and the next lookup decides which broker serves them. The command returns once
    the bundle is unloaded; of a partitioned topic, the bundles of all partitions. Nothing is deleted.
    Java's brokers unload by `pulsar-admin`.
    """
    name = TopicName.parse_served(topic)
    unloaded = context.run(_unload(context.url, name))
    rows = tuple((each.path.removeprefix(f"{NAMESPACES}/"), each.address) for each in unloaded)
    if not unloaded:
        context.output.line(f"no broker serves {name}: nothing to unload")
    shown = OutputRecord(fields(topic=str(name)), (OutputTable("unloaded", BUNDLE_COLUMNS, rows),))
    if unloaded:
        with messages.made(f"the bundles of {name} were unloaded"):
            context.output.record(shown)
    elif context.output.for_programs:
        context.output.record(shown)


async def _unload(url: str, name: TopicName) -> list[BrokerOwner]:
    """The owners of the topic's bundles, each once, after they unloaded them."""
    async with read_only_cluster(url) as cluster:
        topics = (await find_targets(cluster, name)).topics
        wanted = await _one_of_each_bundle(cluster.metadata, topics)
    unloaded = []
    async with await open_store(url) as store:
        for each in wanted:
            change_command.on_step("unload")
            owner = await request_unload(store, each)
            if owner is not None:
                unloaded.append(owner)
    return unloaded


async def _one_of_each_bundle(reader: MetadataReader, topics: tuple[TopicName, ...]) -> list[TopicName]:
    """One of `topics` for each bundle that a broker serves. OwnedElsewhere if a program that is no broker has one."""
    await reader.sync()
    of_bundles: dict[str, TopicName] = {}
    for topic in topics:
        broker = await find_broker(reader, topic.managed_ledger_name)
        if broker is not None:
            of_bundles.setdefault(broker.path, topic)
        elif owner := await find_owner(reader, topic.managed_ledger_name):
            raise OwnedElsewhere(f"{topic} is not served by a broker, but has an owner: {owner}; stop that one")
    return list(of_bundles.values())
