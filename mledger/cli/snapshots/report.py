"""`mledger report`: the results of all queries about a snapshot on one HTML page."""

import os
from pathlib import Path

import click

from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.snapshots.queries import query_resources
from mledger.metastore.runtime.durable_files import replace_file
from mledger.snapshot.report.page import write_report
from mledger.snapshot.sql.queries import QueryResources, open_snapshots

ROWS = 200


@click.command(epilog="Example: mledger report /backup/metadata --to report.html")
@click.argument("snapshot_path", metavar="SNAPSHOT")
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    help="The page to write.",
)
@click.option("--before", metavar="SNAPSHOT", help="An older snapshot, for queries that compare two.")
@click.option("--limit", type=click.IntRange(1), default=ROWS, show_default=True, help="Rows of each table.")
@query_resources
@common_options
@click.pass_obj
def report(
    context: CommandContext, snapshot_path: str, to: Path, before: str | None, limit: int, resources: QueryResources
) -> None:
    """Write an HTML page about SNAPSHOT: plots and sortable tables, in one self-contained file.

    SNAPSHOT is a snapshot's directory, or a directory of snapshots, of which the newest is taken.
    """
    with open_snapshots(snapshot_path, before, resources) as snapshots:
        page = write_report(snapshots, limit).encode()
        name = snapshots.manifest.name
    replace_file(to, page)
    context.output.record(OutputRecord(fields(report=os.fspath(to), snapshot=name, bytes=len(page))))
