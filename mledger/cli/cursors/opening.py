"""`mledger cursors create|recover`: opens a topic as its owner, or shows the effect on its cursors."""

import time

import click

from mledger.cli.cursors.commands import cursor_table, inspect_cursors, raise_first_error
from mledger.cli.shared.changes.topic_owner import WriteOptions, opened_topic, write_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.names import cursor_argument, optional_cursor_argument, topic_argument
from mledger.cli.shared.output.plain_text import escaped
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.shared.parameters import Properties, PropertyType, StartType
from mledger.cursors.recovery import Start
from mledger.errors import CursorExists
from mledger.events import Event
from mledger.metastore.records.paths import TopicName, cursor_path
from mledger.metastore.records.position import Position
from mledger.metastore.url import open_reader


@click.command(epilog="Example: mledger cursors create orders billing --at latest")
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
@common_options
@click.pass_obj
def create(
    context: CommandContext,
    topic: str,
    cursor: str,
    start: Start,
    properties: Properties,
    options: WriteOptions,
) -> None:
    """Create CURSOR on TOPIC."""
    named = TopicName.parse(topic)
    name, path = str(named), cursor_path(named.managed_ledger_name, cursor)
    exists = f"{name} has a cursor {cursor} already: choose another name, or move it with `mledger cursors reset`"
    context.run(_check_new(context.url, path, exists))
    position = context.run(_create(context.url, name, cursor, start, dict(properties), options))
    if context.output.for_programs:
        context.output.record(OutputRecord(fields(topic=name, cursor=cursor, mark_delete=str(position))))
    else:
        context.output.line(f"created {cursor}, mark-delete {position}")


@click.command(epilog="Example: mledger cursors recover orders")
@topic_argument
@optional_cursor_argument
@click.option("--apply", is_flag=True, help="Open the topic as its owner and carry out the plan.")
@write_options
@common_options
@click.pass_obj
def recover(context: CommandContext, topic: str, cursor: str | None, apply: bool, options: WriteOptions) -> None:
    """Show what opening TOPIC would do to its cursors (rules R1 to R9); with --apply do it.

    Without --apply it changes nothing and fences nothing. States beyond the entries that are proven
    acknowledged are marked unconfirmed.
    """
    name = str(TopicName.parse(topic))
    output = context.output
    plan = context.run(inspect_cursors(context.url, TopicName.parse(topic), cursor, options.client.tls))
    if not apply:
        output.table(cursor_table(plan, output))
        raise_first_error(plan)
        output.line("\nnothing was changed; --apply opens the topic as its owner and does this")
        return
    output.line("plan")
    if not output.for_programs:
        output.table(cursor_table(plan, output))
        output.line("\nopening")
    timeline = Timeline(output)
    done = context.run(_apply(context.url, name, cursor, options, timeline))
    if output.for_programs:
        tables = (
            cursor_table(plan, output, "plan"),
            OutputTable("events", columns("at_ms", "event", "text"), timeline.rows),
            done,
        )
        output.record(OutputRecord(fields(topic=name), tables))
    else:
        output.line("\ndone")
        output.table(done)


class Timeline:
    """Events as they arrive: printed for people, collected for JSON."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._start = time.monotonic()
        self._rows: list[tuple[Value, ...]] = []

    def __call__(self, event: Event) -> None:
        """Record one event."""
        at_ms = round((time.monotonic() - self._start) * 1000)
        self._rows.append((at_ms, event.name, event.describe()))
        self._output.line(f"{at_ms:6} ms  {escaped(event.describe())}")

    @property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        """The events: ms since the start, the name, the event in one line."""
        return tuple(self._rows)


async def _check_new(url: str, path: str, otherwise: str) -> None:
    """Raise CursorExists if there is a record at `path`: to find that out the topic need not be opened."""
    async with await open_reader(url) as reader:
        if await reader.exists(path) is not None:
            raise CursorExists(otherwise)


async def _create(
    url: str, topic: str, cursor: str, start: Start, properties: dict[str, str], options: WriteOptions
) -> Position:
    async with opened_topic(url, topic, options) as opened:
        created = await opened.open_cursor(cursor, initial=start, cursor_properties=properties, exclusive=True)
        return created.mark_delete


async def _apply(url: str, topic: str, cursor: str | None, options: WriteOptions, timeline: Timeline) -> OutputTable:
    async with opened_topic(url, topic, options, timeline) as opened:
        await opened.initialized()
        rows: list[tuple[Value, ...]] = []
        for name in [cursor] if cursor else opened.cursors:
            found = await opened.open_cursor(name, create=False)
            rows.append((name, str(found.mark_delete), len(found.holes), found.backlog))
    return OutputTable("done", columns("cursor", "position", "holes", "backlog"), tuple(rows))
