"""`mledger snapshot diff` and `ask`: what changed between two snapshots, and questions about one."""

from datetime import datetime
from typing import Any

import click

from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output import OutputColumn, OutputRecord, OutputTable, Value, columns, fields
from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.sql.queries import CHANGES, QUERIES, open_snapshots, question_named

SHOWN = 50


@click.command(
    epilog="Example: mledger snapshot diff /backup/metadata/snapshot=monday /backup/metadata/snapshot=tuesday"
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="Rows of each kind; JSON has all."
)
@common_options
@click.pass_obj
def diff(context: CommandContext, a: str, b: str, limit: int) -> None:
    """Show what changed from snapshot A to snapshot B: what appeared, vanished, moved, went back.

    A and B are snapshots' directories, or directories of snapshots, whose newest is meant.
    """
    output = context.output
    with open_snapshots(b, a) as snapshots:
        assert snapshots.before is not None
        tables = [as_table(name, snapshots.ask(question)) for name, question in CHANGES.items()]
        facts = fields(
            a=snapshots.before.name,
            a_time=utc_text(snapshots.before.time_ms),
            b=snapshots.manifest.name,
            b_time=utc_text(snapshots.manifest.time_ms),
        )
    if output.for_programs:
        output.record(OutputRecord(facts, tuple(tables)))
        return
    counts = tuple((OutputColumn(table.key), len(table.rows)) for table in tables)
    shown = tuple(OutputTable(table.key, table.columns, table.rows[:limit]) for table in tables)
    output.record(OutputRecord(facts + counts, shown))
    more = [table.key for table in tables if len(table.rows) > limit]
    if more:
        output.line(f"\nonly the first {limit} rows are shown of {', '.join(more)}: use --limit, or --output json")


@click.command(epilog="Example: mledger snapshot ask /backup/metadata backlog --limit 20")
@click.argument("snapshot_path", metavar="SNAPSHOT")
@click.argument("question", required=False, type=click.Choice(list(QUERIES)))
@click.option("--before", metavar="SNAPSHOT", help="An older snapshot, for questions that compare two.")
@click.option("--limit", type=click.IntRange(1), help="At most so many rows.  [default: all]")
@click.option("--sql", is_flag=True, help="Print the query instead.")
@common_options
@click.pass_obj
def ask(
    context: CommandContext, snapshot_path: str, question: str | None, before: str | None, limit: int | None, sql: bool
) -> None:
    """Answer QUESTION about SNAPSHOT; without one, list the questions.

    SNAPSHOT is a snapshot's directory, or a directory of snapshots, whose newest is meant.
    """
    if question is None:
        rows = tuple((name, each.title, each.compares) for name, each in QUERIES.items())
        context.output.table(OutputTable("questions", columns("question", "asks", "compares"), rows))
        return
    asked = question_named(question)
    if sql:
        click.echo(asked.sql)
        return
    with open_snapshots(snapshot_path, before) as snapshots:
        found = snapshots.ask(asked)
    context.output.table(as_table(question, found if limit is None else found.slice(0, limit)))


def as_table(name: str, found: Any) -> OutputTable:
    """An Arrow table as commands show it."""
    values = [tuple(map(_value, column.to_pylist())) for column in found.columns]
    rows = tuple(zip(*values, strict=True)) if values else ()
    return OutputTable(name, columns(*found.column_names), rows)


def _value(value: Any) -> Value:
    if isinstance(value, datetime):
        return utc_text(int(value.timestamp() * 1000))
    return tuple(value) if isinstance(value, list) else value
