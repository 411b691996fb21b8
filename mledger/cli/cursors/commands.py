"""`mledger cursors`: subscriptions as durable cursors, and what a restart does to them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import click

from mledger.admin.inspect import CursorInspection, Inspector
from mledger.cli.cursors.changes import clear, delete, repair, reset, set_properties, skip
from mledger.cli.shared.command_group import CommandGroup
from mledger.cli.shared.context import Session, session_options
from mledger.cli.shared.names import cursor_argument, optional_cursor_argument, topic_argument
from mledger.cli.shared.output import Column, Output, Record, Table, Value, columns, fields, pairs, shorten, texts
from mledger.cli.shared.parameters import Properties, PropertyType, StartType
from mledger.cli.shared.read_only import looking
from mledger.cli.shared.topic_owner import WriteOptions, opened_topic, write_options
from mledger.cli.shared.topic_targets import find_targets
from mledger.cursors.entry_bits import bits_of_words
from mledger.cursors.recovery import CursorRecoveryPlan, Start
from mledger.errors import CursorNotFound
from mledger.events import Event
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position

CHANGING = (skip, reset, repair, clear, set_properties, delete)
HOLES_SHOWN = 5
LIST_COLUMNS = columns("cursor", "found_in", "rules", "position", "holes", "backlog", "warnings")
PARTITION_COLUMNS = columns("partition", *(column.key for column in LIST_COLUMNS))


@click.group(cls=CommandGroup)
def cursors() -> None:
    """Create, look at, move and recover the cursors of a topic."""


for changing in CHANGING:
    cursors.add_command(changing)


@cursors.command(epilog="Example: mledger cursors create orders billing --at latest")
@topic_argument
@cursor_argument
@click.option(
    "--at",
    "start",
    type=StartType(),
    default="earliest",
    show_default=True,
    help="earliest, latest, or the mark-delete position LEDGER:ENTRY.",
)
@click.option(
    "--property", "properties", type=PropertyType(), multiple=True, metavar="KEY=VALUE", help="A cursor property."
)
@write_options
@session_options
@click.pass_obj
def create(
    session: Session,
    topic: str,
    cursor: str,
    start: Start,
    properties: Properties,
    options: WriteOptions,
) -> None:
    """Create CURSOR on TOPIC."""
    name = str(TopicName.parse(topic))
    position = session.run(_create(session.url, name, cursor, start, dict(properties), options))
    if session.output.for_programs:
        session.output.record(Record(fields(topic=name, cursor=cursor, mark_delete=str(position))))
    else:
        session.output.line(f"created {cursor}, mark-delete {position}")


@cursors.command("list", epilog="Example: mledger cursors list orders")
@topic_argument
@session_options
@click.pass_obj
def list_command(session: Session, topic: str) -> None:
    """List TOPIC's cursors with the state each would be recovered to; nothing is changed.

    Of a partitioned topic it lists those of every partition.
    """
    found = session.run(_inspect(session.url, TopicName.parse(topic), None))
    session.output.table(_table(found, session.output))
    raise_first_error(found)


@cursors.command(epilog="Example: mledger cursors describe orders billing")
@topic_argument
@cursor_argument
@session_options
@click.pass_obj
def describe(session: Session, topic: str, cursor: str) -> None:
    """Show CURSOR's record and the state it would be recovered to; nothing is changed.

    Of a partitioned topic it shows the subscription as a whole, and its cursor on every partition.
    """
    name = TopicName.parse(topic)
    found = session.run(_inspect(session.url, name, cursor))
    raise_first_error(found)
    if found[0].topic == name:
        session.output.record(_describe(topic, found[0].cursor, session.output))
    else:
        session.output.record(_describe_whole(topic, cursor, found, session.output))


@cursors.command(epilog="Example: mledger cursors recover orders")
@topic_argument
@optional_cursor_argument
@click.option("--apply", is_flag=True, help="Open the topic as its owner and carry the plan out.")
@write_options
@session_options
@click.pass_obj
def recover(session: Session, topic: str, cursor: str | None, apply: bool, options: WriteOptions) -> None:
    """Show what opening TOPIC would do to its cursors (rules R1 to R9); with --apply do it.

    Without --apply nothing is changed and nothing is fenced. What bookies hold beyond what is proven is marked
    unconfirmed.
    """
    name = str(TopicName.parse(topic))
    output = session.output
    plan = session.run(_inspect(session.url, TopicName.parse(topic), cursor))
    if not apply:
        output.table(_table(plan, output))
        raise_first_error(plan)
        output.line("\nnothing was changed; --apply opens the topic as its owner and does this")
        return
    output.line("plan")
    if not output.for_programs:
        output.table(_table(plan, output))
        output.line("\nopening")
    timeline = Timeline(output)
    done = session.run(_apply(session.url, name, cursor, options, timeline))
    if output.for_programs:
        tables = (_table(plan, output, "plan"), Table("events", columns("at_ms", "event", "text"), timeline.rows), done)
        output.record(Record(fields(topic=name), tables))
    else:
        output.line("\ndone")
        output.table(done)


@dataclass(frozen=True, slots=True)
class FoundCursor:
    """A cursor, and the topic that it is on: the one that was asked for, or a partition of it."""

    topic: TopicName
    cursor: CursorInspection


def raise_first_error(found: Sequence[FoundCursor]) -> None:
    """Raise what kept the first cursor from being told; the others were shown."""
    for each in found:
        if each.cursor.error is not None:
            raise each.cursor.error


class Timeline:
    """Events as they come: printed for a person, kept for JSON."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._start = time.monotonic()
        self._rows: list[tuple[Value, ...]] = []

    def __call__(self, event: Event) -> None:
        """Take one event."""
        at_ms = round((time.monotonic() - self._start) * 1000)
        self._rows.append((at_ms, event.name, event.describe()))
        self._output.line(f"{at_ms:6} ms  {event.describe()}")

    @property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        """What came: ms since the start, the event's name, the event in one line."""
        return tuple(self._rows)


def _table(found: Sequence[FoundCursor], output: Output, key: str = "cursors") -> Table:
    """A row a cursor; for people, columns that say something."""
    partitioned = any(each.topic.partition_index is not None for each in found)
    shown = PARTITION_COLUMNS if output.for_programs or partitioned else LIST_COLUMNS
    rows = [_row(each.cursor) for each in found]
    if shown is PARTITION_COLUMNS:
        rows = [(each.topic.partition_index, *row) for each, row in zip(found, rows, strict=True)]
    batches = [_batch_count(each.cursor) for each in found]
    if output.for_programs or any(batches):
        shown = (*shown, *columns("partial_batches"))
        rows = [(*row, count) for row, count in zip(rows, batches, strict=True)]
    return Table(key, shown, tuple(rows))


def _batch_count(found: CursorInspection) -> int | None:
    """How many batches are acknowledged in part."""
    return None if found.plan is None else len(found.plan.acks.batch_deletions())


def _row(found: CursorInspection) -> tuple[Value, ...]:
    plan = found.plan
    if plan is None:
        return (found.name, None, None, None, None, None, (str(found.error),))
    return (
        plan.cursor,
        plan.source,
        plan.rules,
        str(plan.mark_delete),
        plan.acks.range_count,
        plan.backlog,
        plan.warnings,
    )


def _describe_whole(topic: str, cursor: str, found: Sequence[FoundCursor], output: Output) -> Record:
    """A subscription of a partitioned topic: its sums, and its cursor on every partition that has one."""
    plans = [each.cursor.plan for each in found if each.cursor.plan is not None]
    facts = fields(
        topic=topic,
        cursor=cursor,
        partitions=len(found),
        backlog=sum(plan.backlog for plan in plans),
        holes=sum(plan.acks.range_count for plan in plans),
        partial_batches=sum(len(plan.acks.batch_deletions()) for plan in plans),
    )
    return Record(facts, (_table(found, output, "partition_cursors"),))


def _describe(topic: str, found: CursorInspection, output: Output) -> Record:
    facts = fields(topic=topic, cursor=found.name, metadata_version=found.version)
    if found.record is not None:
        facts += fields(cursor_ledger=found.record.cursors_ledger_id, snapshot=_text(found.record.mark_delete))
    plan = found.plan
    if plan is None:
        return Record(facts)
    holes = texts(plan.acks.ranges())
    shown: Value = holes if output.for_programs else shorten(holes, HOLES_SHOWN)
    return Record(
        (
            *facts,
            *fields(
                found_in=plan.source,
                rules=plan.rules,
                mark_delete=str(plan.mark_delete),
                read_position=str(plan.read_position),
                backlog=plan.backlog,
                holes=plan.acks.range_count,
                hole_ranges=shown,
                moves_to=_text(plan.move_to),
                properties=pairs(plan.properties),
                cursor_properties=pairs(plan.cursor_properties),
                warnings=plan.warnings,
            ),
            *_partial_batches(plan, output),
        )
    )


def _partial_batches(plan: CursorRecoveryPlan, output: Output) -> tuple[tuple[Column, Value], ...]:
    """Batches acknowledged in part, with the indexes not acknowledged yet; for people only where there are any."""
    batches = [(str(each.position), tuple(map(int, bits_of_words(each.words)))) for each in plan.acks.batch_deletions()]
    if output.for_programs:
        left: Value = tuple({"position": position, "unacknowledged": indexes} for position, indexes in batches)
        return fields(partial_batches=left)
    said = [f"{position} lacks {', '.join(map(str, indexes))}" for position, indexes in batches]
    return fields(partial_batches=shorten(said, HOLES_SHOWN)) if said else ()


def _text(position: Position | None) -> str | None:
    return None if position is None else str(position)


async def _inspect(url: str, topic: TopicName, cursor: str | None) -> list[FoundCursor]:
    """The cursors, or one, of the topic, or of every partition of it; CursorNotFound if no partition has that one."""
    found: list[FoundCursor] = []
    missing: CursorNotFound | None = None
    async with looking(url) as cluster:
        plain = await cluster.metadata.exists(topic.managed_ledger_path) is not None
        topics = (topic,) if plain else (await find_targets(cluster, topic)).topics
        inspector = Inspector(cluster.metadata, cluster.bookies)
        for each in topics:
            try:
                found += [FoundCursor(each, one) for one in await inspector.cursors(str(each), cursor)]
            except CursorNotFound as error:
                missing = error
    if not found and missing is not None:
        raise missing
    return found


async def _create(
    url: str, topic: str, cursor: str, start: Start, properties: dict[str, str], options: WriteOptions
) -> Position:
    async with opened_topic(url, topic, options) as opened:
        created = await opened.open_cursor(cursor, initial=start, cursor_properties=properties, exclusive=True)
        return created.mark_delete


async def _apply(url: str, topic: str, cursor: str | None, options: WriteOptions, timeline: Timeline) -> Table:
    async with opened_topic(url, topic, options, timeline) as opened:
        await opened.initialized()
        rows: list[tuple[Value, ...]] = []
        for name in [cursor] if cursor else opened.cursors:
            found = await opened.open_cursor(name, create=False)
            rows.append((name, str(found.mark_delete), len(found.holes), found.backlog))
    return Table("done", columns("cursor", "position", "holes", "backlog"), tuple(rows))
