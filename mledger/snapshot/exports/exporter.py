"""Exports all tables into a directory of snapshots: plans the export, carries it out in steps, and publishes it.

- A snapshot that exists already is not written again. An export that was interrupted resumes: steps whose files are
  unchanged are kept. An export of a running store resumes only within `resume_within_ms`.
- Ledgers are read before topics and cursors, so every ledger that none of them names existed before they were read.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mledger.metastore.runtime.times import wall_clock_ms
from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.errors import SnapshotExists
from mledger.snapshot.exports.files import distinct_texts, write_empty
from mledger.snapshot.exports.manifest import (
    PARQUET,
    Manifest,
    Request,
    check_name,
    default_name,
    encode_manifest,
    fingerprint,
    request_of,
    tables_of,
)
from mledger.snapshot.exports.steps import Done, ExportPlan, Steps, is_abandoned, may_resume, share_of, step_of
from mledger.snapshot.exports.workers import run_steps
from mledger.snapshot.source.options import ReadOptions, parse_options
from mledger.snapshot.source.splits import FileShare, LedgerShare, Share, TablePlan, TopicShare
from mledger.snapshot.source.table_reader import check_here, plan_tables, usable_cores
from mledger.snapshot.tables.row_builder import TABLES

RESUME_WITHIN_MS = 3_600_000
MOST_WORKERS = 6  # each holds about 200 MiB, and what the logs touch: all together stay within 2 GiB
SMALL = 2
"""The most shares of topics and ledgers that a small cluster has."""
PYARROW = "pyarrow"

Progress = Callable[[int, int, int], None]
"""Called with the number of steps done, of all steps, and of rows written."""


def ignore_progress(done: int, total: int, rows: int) -> None:
    """A Progress that does nothing."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A requested export: the read options as strings, and the snapshot's name (None: derived from its point in time).

    `workers` None: chosen by size. `since` names an older snapshot for `export_since`, which continues it.
    """

    options: Mapping[str, str]
    name: str | None = None
    engine: str = PYARROW
    file_format: str = PARQUET
    workers: int | None = None
    resume_within_ms: int = RESUME_WITHIN_MS
    since: str | None = None

    def read_options(self) -> ReadOptions:
        """The options, parsed; InvalidOption, InvalidMetadataUrl."""
        if self.name is not None:
            check_name(self.name)
        parsed = parse_options(self.options)
        check_here(parsed)
        return parsed

    def request(self) -> Request:
        """What distinguishes it from other exports."""
        return request_of(self.options, self.engine, self.file_format)


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: the snapshot, whether it existed already, and how many steps an earlier run had done."""

    manifest: Manifest
    already: bool = False
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """A started export; its plan is on disk. `files` is the plan for reading ZooKeeper's files, if it reads any."""

    plan: ExportPlan
    steps: Steps
    files: TablePlan | None


def export(asked: ExportRequest, to: SnapshotDirectory, progress: Progress = ignore_progress) -> Exported:
    """Write a snapshot of all tables; the caller holds `to.writing()`. Do not call it while an event loop runs.

    Raises:
        SnapshotExists: a snapshot of that name exists, with other contents.
        ExportCutOff: a worker process ended.
        MledgerError, OSError: reading or writing failed; finished steps are kept.
    """
    options = asked.read_options()
    begun = begin(asked, options, to, steps_of_shares)
    if isinstance(begun, Exported):
        return begun
    plan, steps = begun.plan, begun.steps
    shares = shares_of(begun)
    finished = kept_steps(plan, steps)
    resumed, rows, total = len(finished), _rows(finished.values()), len(plan.steps)
    workers = asked.workers or plan_workers([share for _, share in shares])
    progress(resumed, total, rows)
    left = [(index, share) for index, share in shares if index not in finished]
    for index, done in run_steps(options, left, steps.place, workers, options.rate):
        finished[index] = done
        rows += _rows([done])
        progress(len(finished), total, rows)
    return finish(asked, to, plan, steps, finished, resumed)


def shares_of(begun: Begun) -> list[tuple[int, Share]]:
    """The share of each step, for an export whose steps come from `steps_of_shares`."""
    files = None if begun.files is None else begun.files.shares[0]
    assert files is None or isinstance(files, FileShare)
    return [(index, share_of(step, files)) for index, step in enumerate(begun.plan.steps)]


def begin(
    asked: ExportRequest,
    options: ReadOptions,
    to: SnapshotDirectory,
    steps_of: Callable[[TablePlan], Iterable[dict[str, Any]]],
) -> Exported | Begun:
    """The snapshot if it exists; else an unfinished export of the same request; else a new export.

    Unfinished exports that nobody will take up are removed. Raises SnapshotExists, and what `plan_tables` raises.
    """
    print_of = fingerprint(asked.request())
    started = wall_clock_ms()
    files = _plan_files(asked, options) if options.files else None
    name = asked.name or (None if files is None else default_name(files.time_ms, files.zxid))
    if name is not None and (there := to.find(name)) is not None:
        return already_there(there, asked, None if files is None else files.zxid, to)
    taken: Begun | None = None
    for candidate in to.unfinished_names():
        steps = Steps(to.unfinished(candidate))
        found = steps.plan()
        ours = found is not None and (candidate == name if name is not None else not found.named)
        if found is not None and ours and taken is None and _can_resume(found, print_of, asked, files, started):
            taken = Begun(found, steps, files)
        elif candidate == name or is_abandoned(found, print_of, started):
            to.discard(candidate)
    if taken is not None:
        return taken
    read = files or plan_tables(options, list(TABLES))
    time_ms = started if read.time_ms is None else read.time_ms
    name = name or default_name(time_ms, read.zxid)
    planned = tuple(steps_of(read))
    plan = ExportPlan(name, print_of, time_ms, read.zxid, started, read.warnings, planned, asked.name is not None)
    steps = Steps(to.unfinished(name))
    steps.begin(plan)
    return Begun(plan, steps, files)


def plan_workers(shares: Collection[Share]) -> int:
    """How many worker processes to use; for a small running cluster, starting more than one does not pay."""
    files = sum(isinstance(share, FileShare) for share in shares)
    large = sum(isinstance(share, TopicShare | LedgerShare) for share in shares)
    return 1 if files + large <= 1 or (not files and large <= SMALL) else min(MOST_WORKERS, usable_cores())


def steps_of_shares(read: TablePlan) -> list[dict[str, Any]]:
    """A step for each share, those of ledgers first."""
    return [step_of(share) for share in sorted(read.shares, key=lambda share: not isinstance(share, LedgerShare))]


def _can_resume(plan: ExportPlan, print_of: str, asked: ExportRequest, files: TablePlan | None, started: int) -> bool:
    same = may_resume(plan, print_of, live=files is None, now_ms=started, resume_within_ms=asked.resume_within_ms)
    return same and (files is None or plan.zxid == files.zxid)


def _plan_files(asked: ExportRequest, options: ReadOptions) -> TablePlan:
    """The plan for reading ZooKeeper's files: as many shares as workers, unless the options set the number."""
    return plan_tables(replace(options, partitions=options.partitions or asked.workers), list(TABLES))


def already_there(there: Manifest, asked: ExportRequest, zxid: int | None, to: SnapshotDirectory) -> Exported:
    """The existing snapshot of the requested name, if it has the same contents; `zxid` None: of a running store.

    Raises SnapshotExists.
    """
    same = there.request == asked.request() and zxid in (None, there.zxid)
    if not same:
        raise SnapshotExists(
            f"{to.named(there.name)} exists already, with other contents ({there.request.source}): use another --name"
        )
    to.discard(there.name)
    return Exported(there, already=True)


def kept_steps(plan: ExportPlan, steps: Steps) -> dict[int, Done]:
    """The steps that an earlier run finished; the files of all other steps are removed."""
    found = {index: done for index, done in steps.done().items() if index < len(plan.steps)}
    steps.tidy({file.path for done in found.values() for _, file in done})
    return found


def finish(
    asked: ExportRequest,
    to: SnapshotDirectory,
    plan: ExportPlan,
    steps: Steps,
    finished: Mapping[int, Done],
    resumed: int,
    since: str | None = None,
) -> Exported:
    """Publish the files of all steps; `since` names the snapshot that the export continued."""
    files = [each for index in sorted(finished) for each in finished[index]]
    clusters = distinct_texts(steps.tables, (file for table, file in files if table == "bookies"), "instance_id")
    with_files = {table for table, _ in files}
    files += [write_empty(steps.tables, table) for table in TABLES if table not in with_files]
    manifest = Manifest(
        name=plan.name,
        time_ms=plan.time_ms,
        zxid=plan.zxid,
        request=asked.request(),
        started_ms=plan.started_ms,
        finished_ms=wall_clock_ms(),
        warnings=plan.warnings,
        tables=tables_of(files, plan.name),
        since=since,
        cluster=clusters.pop() if len(clusters) == 1 else None,
    )
    to.publish(plan.name, encode_manifest(manifest))
    return Exported(manifest, resumed=resumed)


def _rows(done: Iterable[Done]) -> int:
    return sum(file.rows for files in done for _, file in files)
