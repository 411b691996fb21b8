"""`mledger topics delete`: a topic, or a partitioned topic with all its partitions, with plan and undo file.

Undo cannot restore deleted ledgers: the plan and the undo file list what is lost.
"""

import click
from msgspec import structs

from mledger.admin.references.attached_ledgers import find_kept
from mledger.admin.topic_plans import lost_ledgers
from mledger.admin.undo.undo_file import SavedCursor
from mledger.cli.ledgers.deletion_table import (
    NAMED_COLUMNS,
    attached_rows,
    attached_to,
    data_rows,
    ledgers_to_lose,
    left_in_tiered_storage,
    lost_attached,
    total,
)
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange, Facts, change_options, run_change
from mledger.cli.shared.changes.planned_deletion import delete_planned
from mledger.cli.shared.changes.topic_owner import WriteOptions, write_options
from mledger.cli.shared.changes.topic_targets import (
    check_planned_records,
    check_unwritten,
    records_of,
    states_kept_and_lost,
    with_pending_acks,
)
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, fields
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import Targets, find_targets
from mledger.cli.topics.subject import Subject, change_of
from mledger.metastore.errors import MledgerError, StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import Delete
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import delete_own
from mledger.topics.properties import mark_deleted, unmark_deleted


@click.command(epilog="Example: mledger topics delete orders --dry-run")
@topic_argument
@change_options
@write_options
@common_options
@click.pass_obj
def delete(context: CommandContext, topic: str, options: WriteOptions, change: ChangeOptions) -> None:
    """Delete TOPIC with its cursors and all its ledgers; a partitioned topic with all its partitions (rule M8).

    This also deletes the ledgers of its compaction and delayed delivery, and the topics with the
    pending acknowledgements of transactions on its subscriptions. Its schema, policies and
    permissions stay.
    """
    subject = Subject(context, "topics delete", TopicName.parse(topic), options, change)
    found: list[Targets] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        targets = await with_pending_acks(cluster, await find_targets(cluster, subject.topic))
        found.append(targets)
        before = await records_of(cluster, targets)
        inspector = subject.inspector(cluster)
        rows: list[tuple[Value, ...]] = []
        beside: list[tuple[Value, ...]] = []
        lost: list[str] = []
        warnings: list[str] = []
        cursors: list[SavedCursor] = []
        kept = await find_kept(cluster.metadata, targets.managed_ledgers)
        for each in targets.topics:
            ledgers, unknown = await ledgers_to_lose(cluster, each, options.config.password, before)
            saved, unsaved = await states_kept_and_lost(inspector, each, before)
            attached = await attached_to(cluster, each, before)
            named = {ledger.ledger_id for ledger in ledgers}  # an undo may have listed it again
            alone = (ledger for ledger in kept[each.managed_ledger_name] if ledger.ledger_id not in named)
            attached = structs.replace(attached, ledgers=(*attached.ledgers, *alone))
            rows += data_rows(each, ledgers)
            beside += attached_rows(each, attached)
            cursors += saved
            lost += [*lost_ledgers(str(each), ledgers), *unknown, *unsaved, *lost_attached(each, attached)]
            warnings += left_in_tiered_storage(each, ledgers)
        folders = {each.managed_ledger_path for each in targets.topics}
        facts = fields(
            topics=len(targets.topics),
            cursors=sum(record.path.rpartition("/")[0] in folders for record in before),
            ledgers_deleted=len(rows) + len(beside),
            entries_deleted=total(rows, 2),
            bytes_deleted=total(rows, 3),
            warnings=tuple(warnings),
        )
        shown = OutputRecord(facts, (OutputTable("ledgers", NAMED_COLUMNS, (*rows, *beside)),))
        return change_of(subject, targets, shown, before, cursors, lost)

    async def act(planned: CommandChange) -> Facts:
        planned.one_by_one()
        await check_planned_records(context.url, found[-1], planned.before, options)
        await _delete(context.url, found[-1], options, planned)
        return fields(deleted=str(subject.topic), topics_deleted=len(found[-1].topics))

    run_change(context, change, plan, act, **options.of_change)


async def _delete(url: str, targets: Targets, options: WriteOptions, planned: CommandChange) -> None:
    if targets.partitioned is None:
        await _delete_each(url, targets, options, planned)
        return
    change_command.on_step("mark partitioned topic")
    async with await open_store(url) as store:
        _, version = await mark_deleted(store, targets.named, planned=targets.partitioned)
    try:
        await _delete_each(url, targets, options, planned)
    except StoreUnavailable:
        raise
    except MledgerError:  # a partition stays, and clients may use it
        if not targets.partitioned.deleted:
            async with await open_store(url) as store:
                await unmark_deleted(store, targets.named, version)
        raise
    change_command.on_step("delete partitioned topic")
    async with await open_store(url) as store:
        await delete_own(store, [Delete(targets.named.partitioned_topic_path, version)])


async def _delete_each(url: str, targets: Targets, options: WriteOptions, planned: CommandChange) -> None:
    planned_at = {} if options.take_over else planned.planned_at
    async with options.open_cluster(url) as cluster:
        for topic in targets.topics:
            change_command.on_step("delete topic")
            await check_unwritten(cluster.metadata, topic, planned_at.get(topic.managed_ledger_name))
            await delete_planned(cluster, topic, options, planned)
