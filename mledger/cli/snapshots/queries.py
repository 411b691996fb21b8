"""`mledger snapshot diff` and `ask`: what changed between two snapshots, and queries about one."""

import functools
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from mledger.cli.shared.bounded_work import within_timeout
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputColumn, OutputRecord, OutputTable, Value, columns, fields
from mledger.cli.snapshots.choice import chosen_pair
from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.sql.queries import CHANGES, QUERIES, QueryResources, Snapshots, query_named

SHOWN = 50
_MIB = 1024 * 1024

_Command = TypeVar("_Command", bound=Callable[..., Any])


def query_resources(command: _Command) -> _Command:
    """Adds the options for what queries may use, and passes them on as `resources`."""

    @click.option(
        "--memory",
        type=click.IntRange(64),
        metavar="MIB",
        help="Memory that queries may use, in MiB.  [default: 80 % of the machine's]",
    )
    @click.option(
        "--spill",
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
        help="Where queries put what exceeds the memory.  [default: where temporary files are]",
    )
    @functools.wraps(command)
    def with_resources(*args: Any, memory: int | None, spill: Path | None, **options: Any) -> Any:
        found = QueryResources(None if memory is None else memory * _MIB, spill)
        return command(*args, resources=found, **options)

    return with_resources  # type: ignore[return-value]  # a command with two more options


@click.command(
    epilog="Example: mledger snapshot diff /backup/metadata/snapshot=monday /backup/metadata/snapshot=tuesday"
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--limit", type=click.IntRange(1), default=SHOWN, show_default=True, help="Rows of each kind; JSON has all."
)
@query_resources
@common_options
@click.pass_obj
@within_timeout
def diff(context: CommandContext, a: str, b: str, limit: int, resources: QueryResources) -> None:
    """Show the changes from snapshot A to snapshot B: what was added, removed, moved or moved back.

    A and B are directories of one snapshot, or directories of snapshots, of which the newest is
    taken: of the cluster that the other one is of, and for A one that is older than B.
    """
    output = context.output
    chosen, older = chosen_pair(b, a)
    with Snapshots(*chosen, older, resources) as snapshots:
        assert snapshots.before is not None
        facts = fields(
            a=snapshots.before.name,
            a_time=utc_text(snapshots.before.time_ms),
            b=snapshots.manifest.name,
            b_time=utc_text(snapshots.manifest.time_ms),
        )
        most = None if output.for_programs else limit
        tables = tuple(as_table(name, snapshots.ask(query, most)) for name, query in CHANGES.items())
        if output.for_programs:
            output.record(OutputRecord(facts, tables))
            return
        counts = {name: snapshots.count(query) for name, query in CHANGES.items()}
    output.record(OutputRecord(facts + tuple((OutputColumn(name), rows) for name, rows in counts.items()), tables))
    more = [name for name, rows in counts.items() if rows > limit]
    if more:
        output.line(f"\nonly the first {limit} rows are shown of {', '.join(more)}: use --limit, or --output json")


@click.command(epilog="Example: mledger snapshot ask /backup/metadata backlog --limit 20")
@click.argument("snapshot_path", metavar="SNAPSHOT")
@click.argument("query", metavar="[QUERY]", required=False, type=click.Choice(list(QUERIES)))
@click.option("--before", metavar="SNAPSHOT", help="An older snapshot, for queries that compare two.")
@click.option("--limit", type=click.IntRange(1), help="The most rows to show.  [default: all]")
@click.option("--sql", is_flag=True, help="Print the SQL instead.")
@query_resources
@common_options
@click.pass_obj
@within_timeout
def ask(
    context: CommandContext,
    snapshot_path: str,
    query: str | None,
    before: str | None,
    limit: int | None,
    sql: bool,
    resources: QueryResources,
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
    found, older = chosen_pair(snapshot_path, before)
    with Snapshots(*found, older, resources) as snapshots:
        rows = snapshots.ask(chosen, limit)
    context.output.table(as_table(query, rows))


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
