"""`mledger cursors skip|reset|repair|clear|set-properties|delete`: manual changes, with an undo file.

The plan only reads. To carry it out, a command opens the topic as its owner, moves the cursor, and
closes cleanly. It trims nothing, so that the command can be undone: the next owner trims what the
cursor has consumed.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import click

import mledger
from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector, TopicView
from mledger.admin.undo.undo_file import ChangedRecord
from mledger.admin.undo.undo_plan import saved_cursor
from mledger.cli.cursors.attachments import AttachedToCursor, find_attached_to
from mledger.cli.cursors.unreadable_records import (
    LEDGER_LEFT,
    UnreadableCursor,
    delete_record,
    find_unreadable,
    recreate,
)
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
from mledger.cli.shared.changes.topic_owner import WriteOptions, check_not_back, planned_topic, write_options
from mledger.cli.shared.changes.topic_targets import check_unwritten
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import cursor_argument, topic_argument
from mledger.cli.shared.output.results import OutputRecord, fields, pairs, position_text
from mledger.cli.shared.parameters import Place, PlaceType, Properties, PropertyType, Time
from mledger.cli.shared.read_only import ReadOnlyCluster
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.backlog import backlog
from mledger.cursors.compaction import COMPACTION, check_not_advanced
from mledger.cursors.cursor_properties import check_properties
from mledger.cursors.deduplication import DEDUPLICATION, check_not_passed
from mledger.cursors.entry_time import find_by_time
from mledger.cursors.plans import (
    CursorMovePlan,
    plan_clear_backlog,
    plan_new_record,
    plan_properties,
    plan_reset_to,
    plan_skip,
)
from mledger.cursors.positions import next_valid
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.paths import TopicName, cursor_names, cursor_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import INTERNAL_PROPERTY, NO_CURSOR_LEDGER


@dataclass(frozen=True, slots=True)
class Target:
    """The cursor that a command changes, and the options for opening its topic."""

    context: CommandContext
    command: str
    topic: TopicName
    cursor: str
    options: WriteOptions
    change: ChangeOptions


@dataclass(frozen=True, slots=True)
class Recreation:
    """How to recreate a cursor whose record does not parse: the record, the ledgers, the new position."""

    cursor: UnreadableCursor
    ledgers: LedgerList
    to: Position | str


Decide = Callable[[TopicView, CursorRecoveryPlan], Awaitable[tuple[Facts, bool]]]
Do = Callable[[mledger.Cursor], Awaitable[None]]


@click.command(epilog="Example: mledger cursors skip orders billing 100 --dry-run")
@topic_argument
@cursor_argument
@click.argument("n", type=click.IntRange(0))
@click.option("--include-deleted", is_flag=True, help="Count entries that are already acknowledged too.")
@change_options
@write_options
@common_options
@click.pass_obj
def skip(
    context: CommandContext,
    topic: str,
    cursor: str,
    n: int,
    include_deleted: bool,
    options: WriteOptions,
    change: ChangeOptions,
) -> None:
    """Skip the next N entries of CURSOR: acknowledge them."""
    plans: list[CursorMovePlan] = []

    async def decide(view: TopicView, found: CursorRecoveryPlan) -> tuple[Facts, bool]:
        plans.append(plan_skip(view.ledgers, found, n, include_deleted=include_deleted))
        return _moved(cursor, plans[-1])

    async def do(opened: mledger.Cursor) -> None:
        check_not_back(opened, plans[-1].before.mark_delete)
        await opened.clear_backlog(plans[-1].after.mark_delete)  # a live owner's consumers may have come further since

    _run(Target(context, "cursors skip", TopicName.parse(topic), cursor, options, change), decide, do)


@click.command(epilog="Example: mledger cursors reset orders billing --to 2026-01-31T12:00:00Z --dry-run")
@topic_argument
@cursor_argument
@click.option(
    "--to",
    "place",
    type=PlaceType(),
    required=True,
    help="The first entry to read: earliest, latest, LEDGER:ENTRY, or the first one published at or after a time, "
    "in ISO 8601 (UTC by default) or ms since 1970.",
)
@change_options
@write_options
@common_options
@click.pass_obj
def reset(
    context: CommandContext, topic: str, cursor: str, place: Place, options: WriteOptions, change: ChangeOptions
) -> None:
    """Move CURSOR back or forward; everything from there on becomes unacknowledged.

    A cursor whose record does not parse is recreated there, without properties; the undo file keeps
    the record.
    """
    ends: list[Position] = []

    async def decide(view: TopicView, found: CursorRecoveryPlan) -> tuple[Facts, bool]:
        last = view.ledgers.last_confirmed
        ends.append(Position(last.ledger_id, last.entry_id + 1))
        to = await _place_of_time(view, place) if isinstance(place, Time) else place
        facts, pending = _moved(cursor, plan_reset_to(view.opened, found, to), view.new_ledger)
        return fields(to=str(place)) + facts, pending

    async def do(opened: mledger.Cursor) -> None:
        if isinstance(place, Time):
            await opened.reset_to_time(place.ms, mledger.publish_time)
        else:  # a live owner may have appended since the plan was made
            await opened.reset(ends[-1] if place == "latest" else place)

    _run(Target(context, "cursors reset", TopicName.parse(topic), cursor, options, change), decide, do, place)


@click.command(epilog="Example: mledger cursors repair orders billing --dry-run")
@topic_argument
@cursor_argument
@click.option(
    "--to",
    "place",
    type=PlaceType(),
    default="earliest",
    show_default=True,
    help="The first entry to read, as in `cursors reset`.",
)
@change_options
@write_options
@common_options
@click.pass_obj
def repair(
    context: CommandContext, topic: str, cursor: str, place: Place, options: WriteOptions, change: ChangeOptions
) -> None:
    """Recreate CURSOR if its record does not parse; do nothing if it does.

    Shows the record's bytes; the undo file keeps them. A cursor with such a record cannot be
    opened, and its topic is not trimmed. `cursors delete` deletes the cursor instead.
    """

    async def decide(view: TopicView, found: CursorRecoveryPlan) -> tuple[Facts, bool]:
        return fields(unreadable=None, mark_delete=str(found.mark_delete), backlog=found.backlog), False

    async def do(opened: mledger.Cursor) -> None:
        raise AssertionError("a record that parses is not changed")

    _run(Target(context, "cursors repair", TopicName.parse(topic), cursor, options, change), decide, do, place)


@click.command(epilog="Example: mledger cursors clear orders billing --yes")
@topic_argument
@cursor_argument
@change_options
@write_options
@common_options
@click.pass_obj
def clear(context: CommandContext, topic: str, cursor: str, options: WriteOptions, change: ChangeOptions) -> None:
    """Clear CURSOR's backlog: acknowledge every entry of the topic."""
    ends: list[Position] = []

    async def decide(view: TopicView, found: CursorRecoveryPlan) -> tuple[Facts, bool]:
        ends.append(view.ledgers.last_confirmed)
        return _moved(cursor, plan_clear_backlog(view.ledgers, found))

    async def do(opened: mledger.Cursor) -> None:
        await opened.clear_backlog(ends[-1])  # a live owner may have appended since the plan was made

    _run(Target(context, "cursors clear", TopicName.parse(topic), cursor, options, change), decide, do)


@click.command(
    "set-properties", epilog="Example: mledger cursors set-properties orders billing owner=alice --remove team"
)
@topic_argument
@cursor_argument
@click.argument("properties", type=PropertyType(), nargs=-1)
@click.option("--remove", "removed", multiple=True, metavar="KEY", help="A property to remove; may be repeated.")
@change_options
@write_options
@common_options
@click.pass_obj
def set_properties(
    context: CommandContext,
    topic: str,
    cursor: str,
    properties: Properties,
    removed: tuple[str, ...],
    options: WriteOptions,
    change: ChangeOptions,
) -> None:
    """Set PROPERTIES of CURSOR, written KEY=VALUE, or remove some; the others stay."""
    if not properties and not removed:
        raise click.UsageError("nothing to set: give KEY=VALUE or --remove KEY")
    both = sorted(dict(properties).keys() & set(removed))
    if both:
        raise click.UsageError(f"cannot both set and remove {', '.join(both)}")
    if internal := sorted(name for name in {*dict(properties), *removed} if name.startswith(INTERNAL_PROPERTY)):
        raise click.UsageError(f"{internal[0]} is the brokers' own: it may name a ledger that nothing else names")

    async def decide(_: TopicView, found: CursorRecoveryPlan) -> tuple[Facts, bool]:
        wanted = plan_properties(found.cursor_properties, dict(properties), removed)
        check_properties(found.properties, tuple(wanted.items()))
        facts = fields(properties_before=pairs(found.cursor_properties), properties_after=pairs(wanted.items()))
        return facts, wanted != dict(found.cursor_properties)

    async def do(opened: mledger.Cursor) -> None:
        current = tuple(opened.cursor_properties.items())
        await opened.set_cursor_properties(plan_properties(current, dict(properties), removed))

    _run(Target(context, "cursors set-properties", TopicName.parse(topic), cursor, options, change), decide, do)


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
        path = await _path(cluster, target)
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


def _run(target: Target, decide: Decide, do: Do, recreate_at: Place | None = None) -> None:
    """Run the change; a cursor whose record does not parse is recreated at `recreate_at`, None: an error."""
    managed_ledger = target.topic.managed_ledger_name
    recreations: list[Recreation] = []

    async def plan(cluster: ReadOnlyCluster) -> CommandChange:
        path = await _path(cluster, target)
        before = await read_before(cluster.metadata, [path])
        relied_on = await read_before(cluster.metadata, [target.topic.managed_ledger_path])
        inspector = Inspector(cluster.metadata, cluster.bookies, target.options.config.password)
        inspected, view = await inspector.cursor_on(str(target.topic), target.cursor)
        damaged = find_unreadable(before[0])
        if damaged is not None and recreate_at is not None:
            to = await _place_of_time(view, recreate_at) if isinstance(recreate_at, Time) else recreate_at
            recreations[:] = [Recreation(damaged, view.ledgers, to)]
            return replace(_recreated(target, inspected.name, before, recreations[0]), relied_on=relied_on)
        found = _readable(inspected)
        facts, pending = await decide(view, found)
        in_ledger = inspected.record is not None and inspected.record.cursors_ledger_id != NO_CURSOR_LEDGER
        unconfirmed = ("the state is not confirmed yet",) if found.unconfirmed else ()
        return CommandChange(
            command=target.command,
            subject=f"{target.topic} {inspected.name}",
            plan=OutputRecord(
                fields(topic=str(target.topic), cursor=inspected.name)
                + facts
                + fields(warnings=(*found.warnings, *unconfirmed))
            ),
            before=before,
            managed_ledgers=(managed_ledger,),
            cursors=(saved_cursor(path, found),) if in_ledger else (),
            pending=pending,
            relied_on=relied_on,
        )

    async def act(change: CommandChange) -> Facts:
        planned_at = change.one_by_one()
        if recreations:
            (wanted,) = recreations
            mark_delete = await recreate(target.context.url, change, wanted.cursor, wanted.ledgers, wanted.to)
            return fields(mark_delete=str(mark_delete))
        async with planned_topic(target.context.url, managed_ledger, target.options, change, planned_at) as opened:
            cursor = await opened.open_cursor(target.cursor, create=False)
            await do(cursor)
            await cursor.flush()
            return fields(
                mark_delete=str(cursor.durable_mark_delete),
                backlog=cursor.backlog,
                holes=len(cursor.holes),
                properties=pairs(cursor.cursor_properties.items()),
            )

    run_change(target.context, target.change, plan, act, **target.options.of_change)


def _recreated(target: Target, cursor: str, before: tuple[ChangedRecord, ...], wanted: Recreation) -> CommandChange:
    record = plan_new_record(wanted.ledgers, wanted.to, 0)
    assert record.mark_delete is not None
    if cursor == COMPACTION:  # how far it was is unknown
        check_not_advanced(wanted.ledgers.first_position, record.mark_delete)
    return CommandChange(
        command=target.command,
        subject=f"{target.topic} {cursor}",
        plan=OutputRecord(
            fields(topic=str(target.topic), cursor=cursor)
            + wanted.cursor.facts
            + fields(
                to=str(wanted.to),
                mark_delete_after=str(record.mark_delete),
                backlog_after=backlog(wanted.ledgers, AckState(record.mark_delete)),
                warnings=(LEDGER_LEFT,),
            )
        ),
        before=before,
        managed_ledgers=(target.topic.managed_ledger_name,),
        lost=("the cursor's position, which cannot be read",),
    )


async def _path(cluster: ReadOnlyCluster, target: Target) -> str:
    """The path of the cursor's record: other programs may have escaped its name differently."""
    topic = target.topic.managed_ledger_path
    (children,) = await cluster.metadata.children_many([topic])
    spelled = (f"{topic}/{child}" for child, name in cursor_names(children or ()).items() if name == target.cursor)
    return next(spelled, cursor_path(target.topic.managed_ledger_name, target.cursor))


def _readable(inspected: CursorInspection) -> CursorRecoveryPlan:
    if inspected.plan is None:
        assert inspected.error is not None
        raise inspected.error
    return inspected.plan


def _moved(cursor: str, plan: CursorMovePlan, new_ledger: int | None = None) -> tuple[Facts, bool]:
    """The fields of the plan, and whether it changes anything; `new_ledger` as in TopicView.

    Raises InvalidPosition where the cursor of compaction or deduplication would move forward.
    """
    if cursor == COMPACTION:
        check_not_advanced(plan.before.mark_delete, plan.after.mark_delete)
    if cursor == DEDUPLICATION:
        check_not_passed(plan.before.mark_delete, plan.after.mark_delete)
    return (
        fields(
            mark_delete_before=str(plan.before.mark_delete),
            mark_delete_after=position_text(plan.after.mark_delete, new_ledger),
            backlog_before=plan.before.backlog,
            backlog_after=plan.after.backlog,
            holes_before=plan.before.holes,
            holes_after=plan.after.holes,
        ),
        plan.changed,
    )


async def _place_of_time(view: TopicView, time: Time) -> Position | str:
    """The first entry published at or after `time`, as `Cursor.reset_to_time` finds it."""
    before = await find_by_time(lambda: view.ledgers, view.read_entry, time.ms, mledger.publish_time)
    return "earliest" if before is None else next_valid(view.ledgers, before)
