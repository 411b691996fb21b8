"""`mledger cursors skip|reset|repair|clear|set-properties`: manual changes, with an undo file.

The plan only reads. To carry it out, a command opens the topic as its owner, moves the cursor, and
closes cleanly. It trims nothing, so that the command can be undone: the next owner trims what the
cursor has consumed.
"""

import click

import mledger
from mledger.admin.inspect import TopicView
from mledger.cli.cursors.cursor_change import Target, place_of_time, run_cursor_change
from mledger.cli.shared.changes.change_command import ChangeOptions, Facts, change_options
from mledger.cli.shared.changes.topic_owner import WriteOptions, check_not_back, write_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import cursor_argument, topic_argument
from mledger.cli.shared.output.results import fields, pairs, position_text
from mledger.cli.shared.parameters import Place, PlaceType, Properties, PropertyType, Time, check_property_options
from mledger.cursors.compaction import COMPACTION, check_not_advanced
from mledger.cursors.cursor_properties import check_properties
from mledger.cursors.deduplication import DEDUPLICATION, check_not_passed
from mledger.cursors.plans import CursorMovePlan, plan_clear_backlog, plan_properties, plan_reset_to, plan_skip
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import INTERNAL_PROPERTY


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

    run_cursor_change(Target(context, "cursors skip", TopicName.parse(topic), cursor, options, change), decide, do)


@click.command(epilog="Example: mledger cursors reset orders billing --to 2026-01-31T12:00:00Z --dry-run")
@topic_argument
@cursor_argument
@click.option(
    "--to",
    "place",
    type=PlaceType(),
    required=True,
    help="The first entry to read: earliest, latest, LEDGER:ENTRY, or the first one published at or after a time, "
    "in ISO 8601 (UTC by default), in ms since 1970, or how long ago: 90s, 30m, 2h, 3d, 1w.",
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
        to = await place_of_time(view, place) if isinstance(place, Time) else place
        facts, pending = _moved(cursor, plan_reset_to(view.opened, found, to), view.new_ledger)
        return fields(to=str(place)) + facts, pending

    async def do(opened: mledger.Cursor) -> None:
        if isinstance(place, Time):
            await opened.reset_to_time(place.ms, mledger.publish_time)
        else:  # a live owner may have appended since the plan was made
            await opened.reset(ends[-1] if place == "latest" else place)

    run_cursor_change(
        Target(context, "cursors reset", TopicName.parse(topic), cursor, options, change), decide, do, place
    )


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

    run_cursor_change(
        Target(context, "cursors repair", TopicName.parse(topic), cursor, options, change), decide, do, place
    )


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

    run_cursor_change(Target(context, "cursors clear", TopicName.parse(topic), cursor, options, change), decide, do)


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
    check_property_options(properties, removed)
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

    run_cursor_change(
        Target(context, "cursors set-properties", TopicName.parse(topic), cursor, options, change), decide, do
    )


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
