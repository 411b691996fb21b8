"""`mledger snapshot list` and `verify`: the snapshots in a directory, and a check of one of them."""

import click

from mledger.cli.shared.bounded_work import within_timeout
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.errors import FAILED, OK
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.cli.snapshots.choice import chosen_snapshot
from mledger.cli.snapshots.damaged import warn_of_damaged
from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.exports.destination import place_at
from mledger.snapshot.exports.directory import snapshot_place, snapshots_in
from mledger.snapshot.exports.errors import ExportError, InvalidManifest
from mledger.snapshot.exports.verification import verify_snapshot, verify_versions


@click.command("list", epilog="Example: mledger snapshot list /backup/metadata")
@click.argument("dest")
@common_options
@click.pass_obj
@within_timeout
def list_command(context: CommandContext, dest: str) -> None:
    """List the complete snapshots in DEST, oldest first."""
    damaged: list[InvalidManifest] = []
    rows = tuple(
        (
            each.name,
            utc_text(each.time_ms),
            None if each.zxid is None else f"0x{each.zxid:x}",
            each.request.source,
            each.request.engine,
            each.request.file_format,
            each.rows,
            each.bytes,
        )
        for each in snapshots_in(place_at(dest), damaged.append)
    )
    keys = columns("name", "time", "zxid", "source", "engine", "format", "rows", "bytes")
    context.output.table(OutputTable("snapshots", keys, rows))
    for problem in damaged:
        warn_of_damaged(problem)
    if damaged:
        context.output.line(f"\n{len(damaged)} damaged: --keep neither counts nor removes them")


@click.command(epilog="Example: mledger snapshot verify /backup/metadata")
@click.argument("snapshot_path", metavar="SNAPSHOT")
@common_options
@click.pass_obj
@within_timeout
def verify(context: CommandContext, snapshot_path: str) -> int:
    """Check SNAPSHOT against its manifest: the bytes and rows of each file, and that there are no other files.

    If it is in Delta or Iceberg tables, check also that its version of each has these files.

    SNAPSHOT is a snapshot's directory, or a directory of snapshots, of which the newest is taken.
    """
    place, manifest = chosen_snapshot(snapshot_path)
    total = sum(len(table.files) for table in manifest.tables.values())
    with context.output.progress("verifying", "files") as shown:
        task = shown.add_task("", total=total)
        problems = verify_snapshot(place, manifest, lambda: shown.advance(task))
    try:
        problems += verify_versions(place, manifest)
    except ExportError as error:
        messages.warning(f"its versions were not checked: {error}")
    rows = tuple((each.path, each.reason) for each in problems)
    context.output.record(
        OutputRecord(
            fields(
                snapshot=str(snapshot_place(place, manifest)),
                name=manifest.name,
                files=total,
                rows=manifest.rows,
                whole=not problems,
            ),
            (OutputTable("problems", columns("path", "reason"), rows),),
        )
    )
    return FAILED if problems else OK
