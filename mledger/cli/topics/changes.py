"""`mledger topics terminate|truncate|delete|set-properties`: changes of topics, with plan and undo file.

Each command changes a topic, or a partitioned topic with all its partitions. The plan only reads;
it is based on the state that opening the topic would produce. Undo cannot restore deleted ledgers:
the plan and the undo file list what is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import click

import mledger
from mledger.admin.inspect import Inspector, OpeningView
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.admin.topic_plans import lost_ledgers, plan_topic_terminate, plan_topic_trim, plan_topic_truncate
from mledger.admin.undo.undo_file import ChangedRecord, SavedCursor
from mledger.cli.ledgers.deletion_table import (
    LEDGER_COLUMNS,
    NAMED_COLUMNS,
    attached_rows,
    attached_to,
    data_rows,
    info_of,
    ledger_rows,
    ledgers_to_lose,
    left_in_tiered_storage,
    left_over,
    lost_attached,
    partitioned_of,
    recorded_deletions,
)
from mledger.cli.shared.changes import change_command
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange, Facts, change_options, run_change
from mledger.cli.shared.changes.planned_deletion import delete_planned
from mledger.cli.shared.changes.topic_owner import WriteOptions, planned_topic, write_options
from mledger.cli.shared.changes.topic_targets import (
    check_planned_records,
    check_unwritten,
    records_of,
    saved_states,
    states_kept_and_lost,
    with_pending_acks,
)
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields, pairs, position_text
from mledger.cli.shared.parameters import Properties, PropertyType
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import Targets, find_targets
from mledger.config import ManagedLedgerConfig
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.cursors.plans import plan_properties
from mledger.errors import CursorRecoveryFailed
from mledger.events import Event, RemovingLedger
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, retention_in_force, retention_warnings
from mledger.ledgers.topic_properties import check_topic_properties
from mledger.ledgers.trim_plan import TrimPlan
from mledger.metastore.errors import MledgerError, StoreUnavailable
from mledger.metastore.records.node_path import check_request
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import Delete
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import delete_own
from mledger.topics.properties import (
    mark_deleted,
    partitioned_properties_write,
    set_partitioned_properties,
    set_topic_properties,
    topic_properties_write,
    unmark_deleted,
)

MOVE_COLUMNS = columns("topic", "cursor", "mark_delete_before", "mark_delete_after", "backlog_before", "backlog_after")
TOPIC_COLUMNS = columns("topic", "entries", "last_entry", "terminated")


@dataclass(frozen=True, slots=True)
class Subject:
    """The topic that a command changes, and the options."""

    context: CommandContext
    command: str
    topic: TopicName
    options: WriteOptions
    change: ChangeOptions

    def inspector(self, cluster: ReadOnlyCluster) -> Inspector:
        """An inspector with the topic's settings."""
        return Inspector(cluster.metadata, cluster.bookies, self.options.config.password)


@click.command(epilog="Example: mledger topics truncate orders --dry-run")
@topic_argument
@change_options
@write_options
@common_options
@click.pass_obj
def truncate(context: CommandContext, topic: str, options: WriteOptions, change: ChangeOptions) -> None:
    """Acknowledge everything on every cursor of TOPIC and delete all ledgers despite retention (rule M8)."""
    subject = Subject(context, "topics truncate", TopicName.parse(topic), options, change)
    run_trim(subject, truncate=True)


@click.command(epilog="Example: mledger topics terminate orders --yes")
@topic_argument
@change_options
@write_options
@common_options
@click.pass_obj
def terminate(context: CommandContext, topic: str, options: WriteOptions, change: ChangeOptions) -> None:
    """Terminate TOPIC: it accepts no more entries, and its readers end after the last one (rule M8)."""
    subject = Subject(context, "topics terminate", TopicName.parse(topic), options, change)

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        targets = await find_targets(cluster, subject.topic)
        before = await records_of(cluster, targets)
        rows: list[tuple[str, int, str, str | None]] = []
        cursors: list[SavedCursor] = []
        for each in targets.topics:
            view = await subject.inspector(cluster).opening(str(each))
            cursors += saved_states(view.cursors, before)
            plan = plan_topic_terminate(view)
            rows.append((str(each), plan.entries, str(plan.last_entry), str(plan.already) if plan.already else None))
        shown = OutputRecord((), (OutputTable("topics", TOPIC_COLUMNS, tuple(rows)),))
        pending = any(terminated is None for *_, terminated in rows)
        return _change(subject, targets, shown, before, cursors, pending=pending)

    async def act(change: CommandChange) -> Facts:
        ends = {}
        planned_at = change.one_by_one()
        for each in change.managed_ledgers:
            async with planned_topic(context.url, each, options, change, planned_at) as opened:
                ends[str(TopicName.of_managed_ledger(each))] = str(await opened.terminate())
        return fields(terminated=ends)

    run_change(context, change, plan, act, **options.of_change)


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
        for each in targets.topics:
            ledgers, unknown = await ledgers_to_lose(cluster, each, options.config.password, before)
            saved, unsaved = await states_kept_and_lost(inspector, each, before)
            attached = await attached_to(cluster, each, before)
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
            entries_deleted=_total(rows, 2),
            bytes_deleted=_total(rows, 3),
            warnings=tuple(warnings),
        )
        shown = OutputRecord(facts, (OutputTable("ledgers", NAMED_COLUMNS, (*rows, *beside)),))
        return _change(subject, targets, shown, before, cursors, lost)

    async def act(planned: CommandChange) -> Facts:
        planned.one_by_one()
        await check_planned_records(context.url, found[-1], planned.before, options)
        await _delete(context.url, found[-1], options, planned)
        return fields(deleted=str(subject.topic), topics_deleted=len(found[-1].topics))

    run_change(context, change, plan, act, **options.of_change)


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
    if not properties and not removed:
        raise click.UsageError("nothing to set: give KEY=VALUE or --remove KEY")
    both = sorted(dict(properties).keys() & set(removed))
    if both:
        raise click.UsageError(f"cannot both set and remove {', '.join(both)}")
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
        return _change(subject, targets, OutputRecord(facts), (before,), (), pending=wanted != dict(current))

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


def run_trim(subject: Subject, *, truncate: bool) -> None:
    """Trim or truncate the topic, or its partitions one after another."""
    options = subject.options
    plans: dict[str, TrimPlan] = {}
    ends: dict[str, Position] = {}
    left: set[str] = set()

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        targets = await find_targets(cluster, subject.topic)
        before = await records_of(cluster, targets)
        found = KEEP_ALL
        if not truncate:
            policies = PolicyReader(cluster.metadata, cluster.bookies, options.config.password)
            named = await policies.policies(subject.topic.managed_ledger_name)  # all partitions have the same
            found = retention_in_force(named, options.config)
        cursors: list[SavedCursor] = []
        planned = []
        for each in targets.topics:
            view = await subject.inspector(cluster).opening(str(each))
            now_ms = wall_clock_ms()
            plan = plan_topic_truncate(view, now_ms) if truncate else plan_topic_trim(each, view, found, now_ms)
            planned.append((each, view, plan))
            plans[each.managed_ledger_name], ends[each.managed_ledger_name] = plan, _end(view)
            cursors += saved_states(view.cursors, before)
        lost = [line for each, _, plan in planned for line in lost_ledgers(str(each), plan.deletions)]
        undeleted = await recorded_deletions(cluster, targets.managed_ledgers)
        left.update(each.managed_ledger for each in undeleted)
        pending = bool(undeleted) or any(_changes(view, plan, truncate=truncate) for _, view, plan in planned)
        shown = _shown(planned, found, truncate, left_over(undeleted))
        return _change(subject, targets, shown, before, cursors, lost, pending=pending)

    async def act(change: CommandChange) -> Facts:
        removed: list[RemovingLedger] = []
        planned_at = change.one_by_one()

        def note(event: Event) -> None:
            if isinstance(event, RemovingLedger):
                removed.append(event)

        for each in change.managed_ledgers:
            if not truncate and not plans[each].deletions and each not in left:
                continue
            async with planned_topic(subject.context.url, each, options, change, planned_at, note) as opened:
                if truncate and DEDUPLICATION in opened.cursors:
                    await _keep_sequence_ids(opened)
                # no more than the plan names: a live owner may have appended since it was made
                await (opened.truncate(through=ends[each]) if truncate else trim_now(opened, plans[each]))
        return fields(removed=tuple(event.ledger_id for event in removed), bytes_removed=sum(e.size for e in removed))

    run_change(subject.context, subject.change, plan, act, **options.of_change)


async def trim_now(opened: mledger.ManagedLedger, plan: TrimPlan) -> None:
    """Trim the topic of no more than `plan` names, which the undo file lists: time has passed since it was made.

    CursorRecoveryFailed where nothing goes since a cursor's state is not known.
    """
    last = plan.deletions[-1].ledger_id if plan.deletions else -1  # only what was removed from the list before
    done = await opened.trim(last=last)
    if not opened.can_trim:
        raise CursorRecoveryFailed(f"nothing of {opened.name} was trimmed: {done.kept_because}")


async def _keep_sequence_ids(opened: mledger.ManagedLedger) -> None:
    """Have brokers know as duplicates what is truncated: they cannot read it again."""
    from mledger.broker.topics.producers.deduplication import keep_sequence_ids

    try:
        await keep_sequence_ids(opened)
    except MledgerError as error:  # as of lost ledgers, which a truncation may be to get rid of
        messages.warning(f"{opened.name}: brokers will not know all truncated messages if they are sent again: {error}")


def _end(view: OpeningView) -> Position:
    """The last entry that a truncation deletes; before all others if there is none yet."""
    if view.info.terminated is not None or view.ledgers.total_entries:
        return view.ledgers.last_confirmed
    return Position(NO_ENTRY, NO_ENTRY)


def _changes(view: OpeningView, plan: TrimPlan, *, truncate: bool) -> bool:
    backlog = any(cursor.plan is not None and cursor.plan.backlog for cursor in view.cursors)
    return bool(plan.deletions) or (truncate and backlog)


def _shown(
    planned: Sequence[tuple[TopicName, OpeningView, TrimPlan]],
    retention: RetentionInForce,
    truncate: bool,
    left_over: Sequence[str],
) -> OutputRecord:
    ledgers = tuple(row for topic, _, plan in planned for row in ledger_rows(topic, plan.deletions))
    moves = tuple(row for topic, view, plan in planned for row in _move_rows(topic, view, plan, truncate))
    kept = tuple(plan.kept_because.replace(*_new_name(view)) for _, view, plan in planned)
    facts = fields(
        ledgers_deleted=len(ledgers),
        entries_deleted=_total(ledgers, 2),
        bytes_deleted=_total(ledgers, 3),
        bytes_left=sum(plan.remaining_size for *_, plan in planned),
        kept_because=kept[0] if len(kept) == 1 else kept,
        warnings=(
            *left_over,
            *(warning for _, view, _ in planned for warning in view.warnings),
            *retention_warnings(retention),
        ),
    )
    if not truncate:
        facts += fields(
            retention_ms=retention.retention_time_ms,
            retention_mb=retention.retention_size_in_mb,
            retention_origin=retention.origin.value,
        )
    return OutputRecord(
        facts, (OutputTable("ledgers", LEDGER_COLUMNS, ledgers), OutputTable("cursors", MOVE_COLUMNS, moves))
    )


def _new_name(view: OpeningView) -> tuple[str, str]:
    """The text about the ledger that opening creates, and its replacement, since it has no id yet."""
    return f"ledger {view.new_ledger} is open for writing", "the rest is a new ledger, open for writing"


def _move_rows(topic: TopicName, view: OpeningView, plan: TrimPlan, truncate: bool) -> list[tuple[Value, ...]]:
    """The cursors that move; `new:-1` is the start of the ledger that opening creates."""
    moves = {move.cursor: move.new for move in plan.moves}
    rows: list[tuple[Value, ...]] = []
    for cursor in view.cursors:
        if cursor.plan is None:
            continue
        new = moves.get(cursor.name, view.ledgers.last_confirmed if truncate else cursor.plan.mark_delete)
        if new == cursor.plan.mark_delete:
            continue
        shown = position_text(new, view.new_ledger)
        left = 0 if truncate else cursor.plan.backlog
        rows.append((str(topic), cursor.name, str(cursor.plan.mark_delete), shown, cursor.plan.backlog, left))
    return rows


def _total(rows: Sequence[tuple[Value, ...]], column: int) -> int:
    return sum(value for row in rows if isinstance(value := row[column], int))


def _change(
    subject: Subject,
    targets: Targets,
    shown: OutputRecord,
    before: Sequence[ChangedRecord],
    cursors: Sequence[SavedCursor],
    lost: Sequence[str] = (),
    *,
    pending: bool = True,
) -> CommandChange:
    return CommandChange(
        command=subject.command,
        subject=str(subject.topic),
        plan=OutputRecord(fields(topic=str(subject.topic)) + shown.fields, shown.tables),
        before=tuple(before),
        managed_ledgers=targets.managed_ledgers,
        cursors=tuple(cursors),
        lost=tuple(lost),
        pending=pending,
    )


async def _delete(url: str, targets: Targets, options: WriteOptions, planned: CommandChange) -> None:
    if targets.partitioned is None:
        await _delete_each(url, targets, options, planned)
        return
    async with await open_store(url) as store:
        version = await mark_deleted(store, targets.named)
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
