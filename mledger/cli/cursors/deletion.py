"""`mledger cursors delete`: a cursor with its ledger and what else it names, with plan and undo file."""

import click

from mledger.admin.inspect import Inspector
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.cli.cursors.attachments import AttachedToCursor, find_attached_to
from mledger.cli.cursors.cursor_change import Target, record_path
from mledger.cli.cursors.unreadable_records import LEDGER_LEFT, delete_record, find_unreadable
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import (
    ChangeOptions,
    CommandChange,
    Facts,
    change_options,
    read_before,
    run_change,
)
from mledger.cli.shared.changes.planned_deletion import delete_planned
from mledger.cli.shared.changes.topic_owner import WriteOptions, planned_topic, write_options
from mledger.cli.shared.changes.topic_targets import check_unwritten
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import cursor_argument, topic_argument
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import NO_CURSOR_LEDGER


@click.command(epilog="Example: mledger cursors delete orders billing --dry-run")
@topic_argument
@cursor_argument
@change_options
@write_options
@common_options
@click.pass_obj
def delete(context: CommandContext, topic: str, cursor: str, options: WriteOptions, change: ChangeOptions) -> None:
    """Delete CURSOR of TOPIC, its record and its cursor ledger. Undo recreates it at the same position.

    This also deletes the ledgers of delayed delivery that it names, the compacted topic's ledger if
    it is compaction's cursor, and the topic with its transactions' pending acknowledgements; undo
    does not restore these. A record that does not parse is deleted too; the undo file keeps it.
    """
    target = Target(context, "cursors delete", TopicName.parse(topic), cursor, options, change)
    attachments: list[AttachedToCursor] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        path = await record_path(cluster, target)
        before = await read_before(cluster.metadata, [path])
        relied_on = await read_before(cluster.metadata, [target.topic.managed_ledger_path])
        password = options.config.password
        inspector = Inspector(cluster.metadata, cluster.bookies, password)
        inspected, _ = await inspector.cursor_on(str(target.topic), cursor)
        found = inspected.plan
        in_ledger = inspected.record is None or inspected.record.cursors_ledger_id != NO_CURSOR_LEDGER
        unreadable = "" if found is not None else f"the cursor's position, which cannot be read: {inspected.error}"
        damaged = find_unreadable(before[0])
        attached = await find_attached_to(cluster, inspector, password, target.topic, inspected.name, path)
        attachments[:] = [attached]
        return CommandChange(
            command=target.command,
            subject=f"{target.topic} {inspected.name}",
            plan=OutputRecord(
                fields(
                    topic=str(target.topic),
                    cursor=inspected.name,
                    mark_delete=None if found is None else str(found.mark_delete),
                    backlog=None if found is None else found.backlog,
                    holes=None if found is None else found.acks.range_count,
                    topics_deleted=tuple(map(str, attached.topics)),
                )
                + ((*damaged.facts, *fields(warnings=(LEDGER_LEFT,))) if damaged is not None else ()),
                attached.tables,
            ),
            before=(*before, *attached.before),
            managed_ledgers=(target.topic.managed_ledger_name, *(each.managed_ledger_name for each in attached.topics)),
            cursors=(*((saved_cursor(path, found),) if in_ledger and found is not None else ()), *attached.cursors),
            lost=(*((unreadable,) if unreadable and in_ledger else ()), *attached.lost),
            relied_on=relied_on,
        )

    async def act(planned: CommandChange) -> Facts:
        (attached,), name = attachments, target.topic.managed_ledger_name
        planned_at, take_over = planned.one_by_one(), options.take_over
        async with options.open_cluster(context.url) as cluster:
            for each in attached.topics:
                change_command.on_step("delete topic")
                await check_unwritten(cluster.metadata, target.topic, None if take_over else planned_at.get(name))
                await delete_planned(cluster, each, options, planned)
        if (damaged := find_unreadable(planned.before[0])) is not None:
            await delete_record(context.url, planned, damaged)
            return fields(deleted=True)
        async with planned_topic(context.url, name, options, planned, planned_at) as opened:
            await opened.delete_cursor(cursor, attached=attached.ledgers)
        return fields(deleted=True)

    run_change(context, change, plan, act, **options.of_change)
