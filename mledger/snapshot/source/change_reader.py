"""Reads the table `changes` from ZooKeeper's transaction logs, for batches, streams and commands."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.tables.changes import CHANGES, Change, changes_of
from mledger.snapshot.tables.row_builder import BATCH_ROWS
from mledger.snapshot.zookeeper_files.errors import InvalidOption
from mledger.snapshot.zookeeper_files.file_access.arrow_files import data_files
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.transactions.log_range import (
    LogMark,
    LogRange,
    first_point,
    last_point,
    plan_range,
)
from mledger.snapshot.zookeeper_files.transactions.znode_changes import ZnodeChange, read_changes


def log_files(options: ReadOptions) -> DataFiles:
    """The files whose logs the options name; InvalidOption if they name a running store."""
    if not options.files:
        raise InvalidOption(
            "the table changes is made from ZooKeeper's transaction logs: set the option metadata to their directory, "
            "file:///DIR or a URI"
        )
    return data_files(options.metadata, options.logs)


def plan_changes(
    options: ReadOptions, after: int | None = None, until: int | None = None, after_ms: int | None = None
) -> LogRange:
    """The range that the options name, or the one above `after` up to `until`. InvalidOption, SnapshotError.

    `after_ms` is the time of the transaction `after`, if it is known.
    """
    files = log_files(options)
    if until is None:
        until = last_point(files, until=options.zxid, until_ms=options.time_ms).zxid
    return plan_range(files, options.after if after is None else after, until, after_ms)


def end_of_logs(options: ReadOptions) -> LogMark:
    """The last transaction in the logs. InvalidOption, SnapshotError."""
    return last_point(log_files(options), until=options.zxid, until_ms=options.time_ms)


def begin_of_logs(options: ReadOptions) -> int:
    """The zxid after which a reader begins: the option `after`, else that after which the logs begin. SnapshotError."""
    return first_point(log_files(options)) if options.after is None else options.after


def read_change_rows(options: ReadOptions, found: LogRange) -> Iterator[list[Change]]:
    """The changes of a range in lists, in order. They are valid only once the iterator has ended; SnapshotError."""
    waiting: list[tuple[str, ZnodeChange]] = []
    start = len(options.chroot)
    for change in read_changes(log_files(options), found):
        path = change.path
        if not path.startswith(options.chroot) or path[start : start + 1] not in ("", "/"):
            continue
        waiting.append((path[start:] or "/", change))
        if len(waiting) >= BATCH_ROWS:
            yield changes_of(waiting, options.scope, options.ledgers_root)
            waiting = []
    yield changes_of(waiting, options.scope, options.ledgers_root)


def read_change_batches(
    options: ReadOptions, found: LogRange, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The same as Arrow batches, with these columns (None: all)."""
    for rows in read_change_rows(options, found):
        if rows:
            yield CHANGES.batch(rows, columns)
