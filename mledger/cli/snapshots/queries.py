"""`mledger snapshot diff` and `ask`: what changed between two snapshots, and queries about one."""

from datetime import datetime
from typing import Any

import click

from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputColumn, OutputRecord, OutputTable, Value, columns, fields
from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.sql.queries import CHANGES, QUERIES, open_snapshots, query_named

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
    """Show the changes from snapshot A to snapshot B: what was added, removed, moved or moved back.

    A and B are directories of one snapshot, or directories of snapshots, of which the newest is
    taken.
    """
    output = context.output
    with open_snapshots(b, a) as snapshots:
        assert snapshots.before is not None
        tables = [as_table(name, snapshots.ask(query)) for name, query in CHANGES.items()]
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
@click.argument("query", required=False, type=click.Choice(list(QUERIES)))
@click.option("--before", metavar="SNAPSHOT", help="An older snapshot, for queries that compare two.")
@click.option("--limit", type=click.IntRange(1), help="The most rows to show.  [default: all]")
@click.option("--sql", is_flag=True, help="Print the SQL instead.")
@common_options
@click.pass_obj
def ask(
    context: CommandContext, snapshot_path: str, query: str | None, before: str | None, limit: int | None, sql: bool
) -> None:
    """Run QUERY on SNAPSHOT; without one, list the queries.

    SNAPSHOT is a snapshot's directory, or a directory of snapshots, of which the newest is taken.
    """
    if query is None:
        context.output.table(_list_of_queries(for_programs=context.output.for_programs))
        return
    chosen = query_named(query)
    if sql:
        click.echo(chosen.sql)
        return
    with open_snapshots(snapshot_path, before) as snapshots:
        found = snapshots.ask(chosen)
    context.output.table(as_table(query, found if limit is None else found.slice(0, limit)))


def _list_of_queries(*, for_programs: bool) -> OutputTable:
    """All queries; `question` and `asks` are the former names of the JSON fields."""
    names, former = ("query", "title", "compares"), ("question", "asks") if for_programs else ()
    rows = tuple(
        (name, each.title, each.compares, *((name, each.title) if former else ())) for name, each in QUERIES.items()
    )
    return OutputTable("queries", columns(*names, *former), rows)


def as_table(name: str, found: Any) -> OutputTable:
    """An Arrow table as commands show it."""
    values = [tuple(map(_value, column.to_pylist())) for column in found.columns]
    rows = tuple(zip(*values, strict=True)) if values else ()
    return OutputTable(name, columns(*found.column_names), rows)


def _value(value: Any) -> Value:
    if isinstance(value, datetime):
        return utc_text(int(value.timestamp() * 1000))
    return tuple(value) if isinstance(value, list) else value
