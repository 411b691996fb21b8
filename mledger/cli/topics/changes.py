"""`mledger topics terminate|truncate`, and `trim` of one topic: changes with plan and undo file.

Each command changes a topic, or a partitioned topic with all its partitions. The plan only reads;
it is based on the state that opening the topic would produce. Undo cannot restore deleted ledgers:
the plan and the undo file list what is lost.
"""

from collections.abc import Sequence

import click

import mledger
from mledger.admin.inspect import OpeningView
from mledger.admin.policies.trim_policy import check_retention_known
from mledger.admin.topic_plans import lost_ledgers, plan_topic_terminate, plan_topic_trim, plan_topic_truncate
from mledger.admin.undo.undo_file import SavedCursor
from mledger.cli.ledgers.deletion_table import LEDGER_COLUMNS, ledger_rows, left_over, recorded_deletions, total
from mledger.cli.shared.changes.change_command import ChangeOptions, CommandChange, Facts, change_options, run_change
from mledger.cli.shared.changes.topic_owner import WriteOptions, planned_topic, write_options
from mledger.cli.shared.changes.topic_targets import records_of, saved_states
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields, position_text
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cli.shared.targets import find_targets
from mledger.cli.topics.subject import Subject, change_of
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.errors import CursorRecoveryFailed
from mledger.events import Event, RemovingLedger
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, retention_in_force, retention_warnings
from mledger.ledgers.trim_plan import TrimPlan
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.runtime.times import wall_clock_ms

MOVE_COLUMNS = columns("topic", "cursor", "mark_delete_before", "mark_delete_after", "backlog_before", "backlog_after")
TOPIC_COLUMNS = columns("topic", "entries", "last_entry", "terminated")


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
        return change_of(subject, targets, shown, before, cursors, pending=pending)

    async def act(change: CommandChange) -> Facts:
        ends = {}
        planned_at = change.one_by_one()
        for each in change.managed_ledgers:
            async with planned_topic(context.url, each, options, change, planned_at) as opened:
                ends[str(TopicName.of_managed_ledger(each))] = str(await opened.terminate())
        return fields(terminated=ends)

    run_change(context, change, plan, act, **options.of_change)


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
            policies = options.policy_reader(cluster)
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
        await _check_retention(subject, cluster, found, [plan for *_, plan in planned])
        lost = [line for each, _, plan in planned for line in lost_ledgers(str(each), plan.deletions)]
        undeleted = await recorded_deletions(cluster, targets.managed_ledgers)
        left.update(each.managed_ledger for each in undeleted)
        pending = bool(undeleted) or any(_changes(view, plan, truncate=truncate) for _, view, plan in planned)
        shown = _shown(planned, found, truncate, left_over(undeleted))
        return change_of(subject, targets, shown, before, cursors, lost, pending=pending)

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


async def _check_retention(
    subject: Subject, cluster: ReadOnlyCluster, retention: RetentionInForce, plans: Sequence[TrimPlan]
) -> None:
    """Raise RetentionUnknown if something would be deleted by a default that may not be that of the brokers."""
    if any(plan.deletions for plan in plans):
        name, given = subject.topic.managed_ledger_name, subject.options.retention_given
        await check_retention_known(cluster.metadata, name, retention, given=given)


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
        entries_deleted=total(ledgers, 2),
        bytes_deleted=total(ledgers, 3),
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
