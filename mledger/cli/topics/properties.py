"""`mledger topics set-properties`: properties in the record of a topic, or of a partitioned topic."""

import click

from mledger.cli.ledgers.deletion_table import info_of, partitioned_of
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange, Facts, change_options, run_change
from mledger.cli.shared.changes.topic_owner import WriteOptions
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, fields, pairs
from mledger.cli.shared.parameters import Properties, PropertyType, check_property_options
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import find_targets
from mledger.cli.topics.subject import Subject, change_of
from mledger.config import ManagedLedgerConfig
from mledger.cursors.plans import plan_properties
from mledger.ledgers.topic_properties import check_topic_properties
from mledger.metastore.records.node_path import check_request
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from mledger.topics.properties import (
    partitioned_properties_write,
    set_partitioned_properties,
    set_topic_properties,
    topic_properties_write,
)


@click.command("set-properties", epilog="Example: mledger topics set-properties orders owner=alice --remove team")
@topic_argument
@click.argument("properties", type=PropertyType(), nargs=-1)
@click.option("--remove", "removed", multiple=True, metavar="KEY", help="A property to remove; may be repeated.")
@click.option(
    "--take-over", is_flag=True, help="Change the record although the topic has an owner, and fence the owner."
)
@change_options
@common_options
@click.pass_obj
def set_properties(
    context: CommandContext,
    topic: str,
    properties: Properties,
    removed: tuple[str, ...],
    take_over: bool,
    change: ChangeOptions,
) -> None:
    """Set PROPERTIES of TOPIC, written KEY=VALUE, or remove some; the others stay.

    They are in the topic's record. Those of a partitioned topic are in its own record, as in
    Pulsar. The topic is not opened.
    """
    check_property_options(properties, removed)
    check_topic_properties(dict(properties))
    options = WriteOptions(ManagedLedgerConfig(), take_over)
    subject = Subject(context, "topics set-properties", TopicName.parse(topic), options, change)
    wanted: dict[str, str] = {}

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        targets = await find_targets(cluster, subject.topic)
        whole = targets.partitioned is not None
        path = subject.topic.partitioned_topic_path if whole else subject.topic.managed_ledger_path
        (before,) = await change_command.read_before(cluster.metadata, [path])
        current = (partitioned_of(before).properties or ()) if whole else info_of(before).properties
        wanted.update(plan_properties(current, dict(properties), removed))
        assert before.before is not None
        write = partitioned_properties_write if whole else topic_properties_write
        check_request([write(before.before.data, subject.topic, wanted, before.before.version)])
        facts = fields(properties_before=pairs(current), properties_after=pairs(wanted.items()))
        return change_of(subject, targets, OutputRecord(facts), (before,), (), pending=wanted != dict(current))

    async def act(change: CommandChange) -> Facts:
        state = change.before[0].before
        assert state is not None
        async with await open_store(context.url) as store:
            whole = change.before[0].path == subject.topic.partitioned_topic_path
            write = set_partitioned_properties if whole else set_topic_properties
            version = await write(store, subject.topic, wanted, state.version)
            if not whole:
                change.left_at[subject.topic.managed_ledger_name] = version
        return fields(properties=pairs(wanted.items()), metadata_version=version)

    run_change(context, change, plan, act, take_over=take_over)
