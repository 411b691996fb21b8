"""Finds the snapshot that an export continues, and checks that it can be continued."""

from mledger.metastore.runtime.times import wall_clock_ms
from mledger.snapshot.exports.directory import SnapshotDirectory, ignore_damaged
from mledger.snapshot.exports.errors import SnapshotDoesNotFit, SnapshotNotFound
from mledger.snapshot.exports.exporter import ExportRequest
from mledger.snapshot.exports.manifest import INSIDE, POINT, Manifest
from mledger.snapshot.exports.selection import is_ahead
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.errors import InvalidOption

LATEST = "latest"
NOT_COMPARED = (*POINT, "logs")
"""Options that do not change which rows a snapshot has at its point."""


def find_older(to: SnapshotDirectory, asked: ExportRequest, options: ReadOptions) -> Manifest:
    """The snapshot that `asked.since` names; `latest`: the newest one that can be continued.

    Those that were read from the same place come first, since other clusters may have snapshots in the directory, then
    those that are not from the future. One whose manifest is damaged cannot be continued.

    Raises InvalidOption, SnapshotNotFound, SnapshotDoesNotFit.
    """
    if not options.files:
        raise InvalidOption(
            "--since reads ZooKeeper's transaction logs, but metadata names a running store: set --metadata to "
            "ZooKeeper's own files, file:///DIR or a URI, or export fully"
        )
    name = asked.since or LATEST
    if name != LATEST:
        found = to.find(name)
        if found is None:
            raise SnapshotNotFound(f"{to.where} has no complete snapshot {name}: `mledger snapshot list {to.where}`")
        if (problem := why_not(found, asked, options)) is not None:
            raise SnapshotDoesNotFit(f"the snapshot {name} cannot be continued: {problem}; export fully")
        return found
    newest = to.snapshots(ignore_damaged)[::-1]
    fitting = [each for each in newest if why_not(each, asked, options) is None]
    if fitting:
        origin, now_ms = asked.request().origin, wall_clock_ms()
        return min(fitting, key=lambda each: (each.request.origin != origin, is_ahead(each, now_ms)))
    if not newest:
        raise SnapshotNotFound(f"{to.where} has no complete snapshot: export fully first")
    problem = f"{newest[0].name}: {why_not(newest[0], asked, options)}"
    raise SnapshotDoesNotFit(f"no snapshot in {to.where} can be continued; {problem}; export fully")


def why_not(older: Manifest, asked: ExportRequest, options: ReadOptions) -> str | None:
    """Why a snapshot cannot be continued by an export; None if it can."""
    if older.zxid is None:
        return "it is of a running store, not of one transaction"
    if older.format == INSIDE:
        return "it is of format 1"
    if (options.zxid is not None and options.zxid < older.zxid) or (
        options.time_ms is not None and options.time_ms < older.time_ms
    ):
        return f"it is of a later point, zxid {older.zxid:#x}"
    theirs, ours = (
        {name: value for name, value in recorded if name not in NOT_COMPARED}
        for recorded in (older.request.options, asked.request().options)
    )
    different = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    if different:
        return f"it was exported with other options ({', '.join(different)})"
    if {name: table.ddl for name, table in TABLES.items()} != {
        name: table.schema for name, table in older.tables.items()
    }:
        return "its tables have other columns, those of another version of mledger"
    return None
