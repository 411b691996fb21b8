"""Exports all tables from an older snapshot in the same directory, and what ZooKeeper's logs hold since.

- The older snapshot must be exact at one transaction, with the same options, and have the same columns.
- Nothing of the tree is read again, except what makes up rows from several nodes, the bookies, if such a node changed.
- If a node changed whose rows cannot be told from another's, or are not there, the export is a full one.
- The result equals a full export of the same point, row by row. It is published as one, too.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

import pyarrow as pa

from mledger.metastore.runtime.times import wall_clock_ms
from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.errors import AmbiguousRows
from mledger.snapshot.exports.exporter import (
    MOST_WORKERS,
    Exported,
    ExportRequest,
    Progress,
    already_there,
    export,
    finish,
    ignore_progress,
)
from mledger.snapshot.exports.manifest import Manifest, default_name, fingerprint
from mledger.snapshot.exports.since.anew_nodes import read_anew
from mledger.snapshot.exports.since.older_parts import OlderParts, OlderRow
from mledger.snapshot.exports.since.older_snapshot import find_older
from mledger.snapshot.exports.since.part_rewriter import PartRewriter, TableChange
from mledger.snapshot.exports.since.row_keys import ERRORS, READ_ANEW, Key, RowMatch, tables_anew
from mledger.snapshot.exports.since.row_plan import (
    TOPICS,
    RowPlan,
    kind_below,
    plan_lookups,
    plan_nodes,
    plan_rows,
    uncounted_topics,
)
from mledger.snapshot.exports.steps import Done, ExportPlan, Steps, is_abandoned
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import FoundNode
from mledger.snapshot.tables.row_builder import TABLES, Assembly
from mledger.snapshot.zookeeper_files.errors import LogDoesNotFit
from mledger.snapshot.zookeeper_files.file_access.arrow_files import data_files
from mledger.snapshot.zookeeper_files.file_access.files import DataFiles
from mledger.snapshot.zookeeper_files.transactions.log_tail import LogTail
from mledger.snapshot.zookeeper_files.transactions.node_updates import NodeUpdate, NodeUpdates

STEP = "since"


def export_since(
    asked: ExportRequest,
    to: SnapshotDirectory,
    progress: Progress = ignore_progress,
    on_full: Callable[[str], None] = lambda why: None,
) -> Exported:
    """Write the snapshot that `asked` describes from the one that its `since` names; the caller holds `to.writing()`.

    Where the older rows do not tell enough of a node, `on_full` is called with why, and the export is a full one.

    Raises:
        InvalidOption: the metadata are not ZooKeeper's files.
        SnapshotNotFound, SnapshotDoesNotFit: there is no older snapshot that can be continued.
        SnapshotExists: a snapshot of the new name exists, with other contents.
        MissingLog, LogDoesNotFit, ZxidNotCovered, CorruptFile: the logs do not continue the older snapshot, or may be
            those of another cluster.
        MledgerError, OSError: reading or writing failed.
    """
    try:
        return _continue(asked, to, progress)
    except AmbiguousRows as error:
        on_full(str(error))
        return export(replace(asked, since=None), to, progress)


def _continue(asked: ExportRequest, to: SnapshotDirectory, progress: Progress) -> Exported:
    """The snapshot from the older one; also raises AmbiguousRows."""
    options = asked.read_options()
    older = find_older(to, asked, options)
    started = wall_clock_ms()
    assert older.zxid is not None
    files = data_files(options.metadata, options.logs)
    tail = LogTail(files, older.zxid, after_ms=older.transaction_ms, until=options.zxid, until_ms=options.time_ms)
    updates = NodeUpdates(lambda path: kind_below(path, options) is not None)
    for transaction in tail.transactions():
        updates.apply(transaction)
    _check_origin(older, asked, tail)
    known = (each for each in (tail.time_ms, tail.anchor_ms) if each is not None)
    time_ms = next(known, older.time_ms)
    name = asked.name or default_name(time_ms, tail.zxid)
    if (there := to.find(name)) is not None:
        return already_there(there, asked, tail.zxid, to)
    print_of = f"{fingerprint(asked.request())}-{STEP}"
    for each in to.unfinished_names():
        if each == name or is_abandoned(Steps(to.unfinished(each)).plan(), print_of, started):
            to.discard(each)
    given, steps_planned = asked.name is not None, ({STEP: older.name},)
    plan = ExportPlan(name, print_of, time_ms, tail.zxid, started, tail.warnings, steps_planned, given)
    steps = Steps(to.unfinished(name))
    steps.begin(plan)
    parts = OlderParts(to.there, older)
    changes = _changes(parts, updates.nodes, files, replace(options, zxid=tail.zxid, time_ms=None))
    done = _rewrite(parts, changes, steps, asked.workers, progress)
    return finish(asked, to, plan, steps, {0: done}, 0, since=older.name)


def _check_origin(older: Manifest, asked: ExportRequest, tail: LogTail) -> None:
    """Raise LogDoesNotFit for a snapshot of another place, if the logs do not show that they are of its cluster."""
    if tail.anchor_ms is None and older.request.origin != asked.request().origin:
        raise LogDoesNotFit(
            f"the snapshot {older.name} was read from {older.request.source}, and the logs here begin after its last "
            f"transaction {older.zxid:#x}, so they may be those of another cluster: add the log that holds this "
            "transaction, or export fully"
        )


def _changes(
    older: OlderParts, updates: dict[str, NodeUpdate], files: DataFiles, options: ReadOptions
) -> dict[str, TableChange]:
    """What changes in each table; the options name the new point."""
    nodes, anew = plan_nodes(updates, options)
    rows: defaultdict[tuple[str, Key], list[OlderRow]] = defaultdict(list)
    for table, match in plan_lookups(nodes).items():
        for row in older.rows(table, match):
            rows[table, row.key].append(row)
    uncounted = uncounted_topics(nodes, rows)
    plan = plan_rows(nodes, rows, older.children(uncounted) if uncounted else {}, options)
    found: Iterable[tuple[NodeKind, FoundNode]] = plan.nodes
    if anew:
        found = [*found, *read_anew(files, options)]
    new = _new_rows(found, options)
    return {table: _change(table, plan, new[table], anew=anew) for table in TABLES}


def _new_rows(
    nodes: Iterable[tuple[NodeKind, FoundNode]], options: ReadOptions
) -> defaultdict[str, list[pa.RecordBatch]]:
    assembly = Assembly(dict.fromkeys(TABLES), options.scope, options.ledgers_root)
    new: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
    for kind, node in nodes:
        assembly.add(kind, node)
    for table, batch in assembly.rest():
        new[table].append(batch)
    return new


def _change(table: str, plan: RowPlan, new: list[pa.RecordBatch], *, anew: bool) -> TableChange:
    going = plan.going.get(table, [])
    if anew and table in tables_anew():
        return TableChange(going=None, new=new)
    if anew and table == ERRORS:
        going = [*going, RowMatch(("kind",), frozenset((kind.value,) for kind in READ_ANEW))]
    if table == TOPICS:
        return TableChange(going, new, plan.topics, plan.cursors)
    return TableChange(going, new)


def _rewrite(
    older: OlderParts, changes: dict[str, TableChange], steps: Steps, workers: int | None, progress: Progress
) -> Done:
    """Write all tables; returns their files."""
    rewriter, done = PartRewriter(older, steps.tables), Done()
    with ThreadPoolExecutor(workers or min(MOST_WORKERS, os.cpu_count() or 1)) as threads:
        planned = threads.map(lambda table: rewriter.jobs(table, changes[table]), changes)
        running = [threads.submit(job) for jobs in planned for job in jobs]
        try:
            for count, future in enumerate(as_completed(running), 1):
                done += future.result()
                progress(count, len(running), sum(file.rows for _, file in done))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    return done
