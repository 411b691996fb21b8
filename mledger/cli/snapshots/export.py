"""`mledger snapshot export`: writes all tables of a cluster's metadata as files, atomically."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import click

from mledger.cli.shared.bounded_work import bounded
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, columns, fields
from mledger.cli.snapshots.choice import warn_of_the_future
from mledger.cli.snapshots.damaged import warn_of_damaged
from mledger.metastore.runtime.times import utc_text, wall_clock_ms
from mledger.snapshot.exports.directory import OnDamaged, SnapshotDirectory, ignore_damaged, snapshot_directory
from mledger.snapshot.exports.errors import SnapshotNotFound
from mledger.snapshot.exports.exporter import PYARROW, Exported, ExportRequest, export
from mledger.snapshot.exports.manifest import DELTA, ICEBERG, PARQUET, Manifest
from mledger.snapshot.exports.selection import may_be_same_cluster, plan_retention
from mledger.snapshot.exports.since.older_snapshot import find_older
from mledger.snapshot.exports.since.since_exporter import export_since
from mledger.snapshot.exports.spark.connect import SCHEME
from mledger.snapshot.exports.spark.spark_exporter import SPARK, export_with_spark
from mledger.snapshot.tables.pandas_import import leave_pandas_out


@click.command(
    "export",
    epilog="Example: mledger --metadata zk://127.0.0.1:2181 snapshot export /backup/metadata --keep 30 --yes",
)
@click.argument("dest")
@click.option(
    "--option", "-D", "pairs", multiple=True, metavar="NAME=VALUE", help="An option of the tables, as in Spark."
)
@click.option(
    "--name", metavar="NAME", help="The snapshot's name; if it exists already, nothing is written.  [default: its time]"
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Then remove older snapshots of the same place and options, so that N remain.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), metavar="N", help="Processes that read and write.  [default: by size]"
)
@click.option(
    "--since",
    metavar="PREVIOUS",
    help="Continue this snapshot in DEST, or `latest`, with ZooKeeper's logs since; for file:///DIR.",
)
@click.option("--spark", "with_spark", is_flag=True, help="Read and write with Spark.")
@click.option("--remote", metavar="URL", help="With --spark: of this Spark Connect server.  [default: $SPARK_REMOTE]")
@click.option(
    "--format",
    "file_format",
    type=click.Choice((PARQUET, DELTA, ICEBERG)),
    default=PARQUET,
    help="Parquet, or Parquet with the metadata of Delta or Iceberg.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask before removing snapshots.")
@click.option("--dry-run", is_flag=True, help="Show what would be written and removed; change nothing.")
@common_options
@click.pass_obj
def export_command(
    context: CommandContext,
    dest: str,
    pairs: Sequence[str],
    name: str | None,
    keep: int | None,
    workers: int | None,
    since: str | None,
    with_spark: bool,
    remote: str | None,
    file_format: str,
    yes: bool,
    dry_run: bool,
) -> None:
    """Write all tables of the metadata as files into DEST, each time as a new snapshot.

    The metadata may be a running cluster or, as file:///DIR, ZooKeeper's own files. Resumes an
    interrupted export.
    """
    if with_spark and since is not None:
        raise click.UsageError("--since reads and writes in this process: leave out --spark")
    if remote is not None and not with_spark:
        raise click.UsageError("--remote names a Spark Connect server: add --spark")
    if remote is not None and not remote.startswith(SCHEME):
        raise click.UsageError(f"--remote {remote}: write it as sc://HOST:PORT")
    engine = SPARK if with_spark else PYARROW
    if engine == PYARROW:
        leave_pandas_out()
    options = {**options_of(pairs), "metadata": context.url}
    asked = ExportRequest(options, name, engine, file_format, workers, since=since)
    read = asked.read_options()
    to = snapshot_directory(dest)
    to.check_format(file_format)
    if since is not None:
        find_older(to, asked, read)
    removing = _to_remove(to, keep, asked)
    if dry_run:
        _show_plan(context.output, asked, to, removing)
        return
    if removing and not yes:
        _ask(removing)
    with bounded(context), to.writing():
        began = time.monotonic()
        done = _run(context.output, asked, to, remote)
        with messages.made(f"{to.named(done.manifest.name)} is complete"):
            removed = _remove(to, keep, asked, done.manifest, removing)
            _show_done(context.output, to, done, removed, time.monotonic() - began)


def options_of(pairs: Sequence[str]) -> Mapping[str, str]:
    """The options given as NAME=VALUE."""
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--option {pair}: write it as NAME=VALUE")
        found[name] = value
    return found


def _run(output: Output, asked: ExportRequest, to: SnapshotDirectory, remote: str | None) -> Exported:
    with output.progress("exporting", "steps") as shown:
        task = shown.add_task("", total=None)

        def progress(done: int, total: int, rows: int) -> None:
            shown.update(task, completed=done, total=total, description=f"{rows} rows")

        if asked.since is not None:
            return export_since(asked, to, progress, _warn_of_full_export)
        if asked.engine == PYARROW:
            return export(asked, to, progress)
        return export_with_spark(asked, to, progress, remote)


def _warn_of_full_export(why: str) -> None:
    messages.warning(f"nothing is continued: {why}; all metadata is read instead")


def _to_remove(to: SnapshotDirectory, keep: int | None, asked: ExportRequest) -> tuple[Manifest, ...]:
    if keep is None:
        return ()
    with suppress(SnapshotNotFound):
        there = {each.name: each for each in _of_the_same_series(to, asked, warn_of_damaged)}
        completed = {each.name: each for each in to.decided() if each.request.series == asked.request().series}
        same = list((completed | there).values())
        warn_of_the_future(same)
        return plan_retention(same, keep, wall_clock_ms(), asked.name or "")
    return ()


def _of_the_same_series(to: SnapshotDirectory, asked: ExportRequest, on_damaged: OnDamaged) -> list[Manifest]:
    """The older snapshots of what is exported: other clusters, and other jobs, may have theirs in the directory."""
    series = asked.request().series
    return [each for each in to.snapshots(on_damaged) if each.request.series == series]


def _remove(
    to: SnapshotDirectory, keep: int | None, asked: ExportRequest, coming: Manifest, agreed: Sequence[Manifest]
) -> tuple[Manifest, ...]:
    """Remove the snapshots in `agreed` that are still too many; never one not shown, or of another cluster."""
    if keep is None:
        return ()
    names = {each.name for each in agreed}
    series = _of_the_same_series(to, asked, ignore_damaged)  # of which it has warned before
    same = [each for each in series if may_be_same_cluster(each, coming)]
    found = tuple(each for each in plan_retention(same, keep, wall_clock_ms(), coming.name) if each.name in names)
    for each in found:
        to.remove(each.name)
    return found


def _ask(removing: Sequence[Manifest]) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(f"this removes {len(removing)} older snapshots: use --yes, or --dry-run to see which")
    for each in removing:
        click.echo(f"  {each.name}  {utc_text(each.time_ms)}", err=True)
    click.confirm(f"Remove {len(removing)} older snapshots after the export?", abort=True, err=True)


def _show_plan(output: Output, asked: ExportRequest, to: SnapshotDirectory, removing: Sequence[Manifest]) -> None:
    request = asked.request()
    facts = fields(
        destination=to.where,
        source=request.source,
        options=dict(request.options),
        engine=request.engine,
        format=request.file_format,
        dry_run=True,
    )
    output.record(OutputRecord(facts, (_removed(removing),)))
    output.line("\nnothing was written or removed")


def _show_done(
    output: Output, to: SnapshotDirectory, done: Exported, removed: Sequence[Manifest], seconds: float
) -> None:
    manifest = done.manifest
    facts = fields(
        snapshot=to.named(manifest.name),
        name=manifest.name,
        time=utc_text(manifest.time_ms),
        zxid=None if manifest.zxid is None else f"0x{manifest.zxid:x}",
        rows=manifest.rows,
        bytes=manifest.bytes,
        already_there=done.already,
        steps_kept=done.resumed,
        seconds=round(seconds, 3),
        warnings=manifest.warnings,
        dry_run=False,
    )
    rows = tuple((name, table.rows, table.bytes) for name, table in manifest.tables.items())
    output.record(
        OutputRecord(facts, (OutputTable("tables", columns("table", "rows", "bytes"), rows), _removed(removed)))
    )


def _removed(removed: Sequence[Manifest]) -> OutputTable:
    rows = tuple((each.name, utc_text(each.time_ms), each.rows, each.bytes) for each in removed)
    return OutputTable("removed", columns("name", "time", "rows", "bytes"), rows)
