"""`mledger report`: the results of all queries about a snapshot, and trends of all kept ones, on HTML pages."""

import os
from pathlib import Path

import click

from mledger.cli.shared.bounded_work import within_timeout
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import writing_file
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.snapshots.choice import choose
from mledger.cli.snapshots.damaged import warn_of_damaged
from mledger.cli.snapshots.queries import query_resources
from mledger.metastore.runtime.durable_files import replace_file
from mledger.snapshot.exports.directory import find_snapshots
from mledger.snapshot.exports.selection import is_of_same_place
from mledger.snapshot.report.page import ReportRequest, write_namespace_pages, write_report
from mledger.snapshot.report.page_names import INDEX, NAMESPACES_AT
from mledger.snapshot.sql.history import plan_history, read_history
from mledger.snapshot.sql.queries import QueryResources, Snapshots

ROWS = 200
SNAPSHOTS = 30


@click.command(epilog="Example: mledger report /backup/metadata --to report.html")
@click.argument("snapshot_path", metavar="SNAPSHOT")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    default="report.html",
    show_default=True,
    help="The page to write; a directory, or a name without a suffix, gets a page for each namespace, too.",
)
@click.option("--before", metavar="SNAPSHOT", help="An older snapshot to compare with.  [default: the newest but one]")
@click.option(
    "--snapshots", "most", type=click.IntRange(1), default=SNAPSHOTS, show_default=True, help="The newest N for trends."
)
@click.option("--limit", type=click.IntRange(1), default=ROWS, show_default=True, help="Rows of each table.")
@query_resources
@common_options
@click.pass_obj
@within_timeout
def report(
    context: CommandContext,
    snapshot_path: str,
    to: Path,
    before: str | None,
    most: int,
    limit: int,
    resources: QueryResources,
) -> None:
    """Write an HTML page about SNAPSHOT: trends, plots and sortable tables, in one self-contained file.

    SNAPSHOT is a snapshot's directory, or a directory of snapshots: then the newest is shown,
    compared with the one before, with trends over all of them. Snapshots that were read from
    another place than the newest, as those of another cluster, are left out.
    """
    found = find_snapshots(snapshot_path, warn_of_damaged)
    chosen, older = choose(found, [] if before is None else find_snapshots(before, warn_of_damaged))
    kept = plan_history(found[: found.index(chosen) + 1], most)
    if before is None and len(kept) > 1:
        older = kept[-2]
    in_pages = to.is_dir() or (not to.suffix and not to.is_file())
    pages = 1
    with Snapshots(*chosen, older, resources) as snapshots:
        snapshots.keep_views("cursor_backlog", "topic_figures")
        history = read_history(snapshots, kept, resources) if len(kept) > 1 else None
        if history is not None:
            snapshots.add_table("history", history)
        request = ReportRequest(limit, history, in_pages)
        page = write_report(snapshots, request).encode(errors="replace")
        if in_pages:
            with writing_file(to / NAMESPACES_AT):
                (to / NAMESPACES_AT).mkdir(parents=True, exist_ok=True)
            for path, each in write_namespace_pages(snapshots, request):
                with writing_file(to / path):
                    replace_file(to / path, each.encode(errors="replace"))
                pages += 1
        name = snapshots.manifest.name
    index = to / INDEX if in_pages else to
    with writing_file(index):
        replace_file(index, page)
    written = fields(report=os.fspath(to), snapshot=name, bytes=len(page), pages=pages)
    with messages.made(f"{to} was written"):
        context.output.record(OutputRecord(written))
    if others := sum(not is_of_same_place(each, chosen[1]) for _, each in found):
        source = chosen[1].request.source
        context.output.line(f"\nof snapshots of {source}; {others} that were read from other places are left out")
