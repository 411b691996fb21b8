"""Exports with Spark, into a directory that every executor reaches at the same path.

Parquet: Spark tasks carry out the same shares as `exporter`, each read once for all tables. Delta: each table is a
step, read by `format("mledger")` and written by Spark's own writer.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mledger.snapshot.exports.directory import SnapshotDirectory
from mledger.snapshot.exports.errors import ExportError
from mledger.snapshot.exports.exporter import (
    PARQUET,
    Begun,
    Exported,
    ExportRequest,
    Progress,
    begin,
    finish,
    ignore_progress,
    kept_steps,
    shares_of,
    steps_of_shares,
)
from mledger.snapshot.exports.files import is_data, record_of
from mledger.snapshot.exports.session import check_format, first_line, start_session, while_it_lives
from mledger.snapshot.exports.spark_splits import run_with_spark
from mledger.snapshot.exports.steps import Done
from mledger.snapshot.source.options import ReadOptions
from mledger.snapshot.source.splits import LedgerShare, TablePlan
from mledger.snapshot.tables.row_builder import TABLES

SPARK = "spark"
FIRST = ("ledgers", "ensembles")
"""Tables that are read before those that name ledgers."""


def export_with_spark(asked: ExportRequest, to: SnapshotDirectory, progress: Progress = ignore_progress) -> Exported:
    """As `exporter.export`, with Spark: in the current session, or in a new one on this machine."""
    options = asked.read_options()
    check_format(asked.file_format)
    in_shares = asked.file_format == PARQUET
    begun = begin(asked, options, to, steps_of_shares if in_shares else _steps_of_tables)
    if isinstance(begun, Exported):
        return begun
    plan, steps = begun.plan, begun.steps
    finished = kept_steps(plan, steps)
    resumed = len(finished)
    session = start_session(asked.file_format)

    def note(index: int, done: Done) -> None:
        steps.note(index, done)
        finished[index] = done
        progress(len(finished), len(plan.steps), sum(file.rows for each in finished.values() for _, file in each))

    with while_it_lives():
        if in_shares:
            _write_shares(session, options, begun, finished, note)
        else:
            given = _options_at(asked.options, plan.zxid)
            for index, step in enumerate(plan.steps):
                if index not in finished:
                    note(index, _write(session, given, step["table"], steps.tables, asked.file_format))
    return finish(asked, to, plan, steps, finished, resumed)


def _write_shares(
    session: Any, options: ReadOptions, begun: Begun, finished: Collection[int], note: Callable[[int, Done], None]
) -> None:
    """Write all ledgers before what names them, in one job each."""
    left = [each for each in shares_of(begun) if each[0] not in finished]
    ledgers = [each for each in left if isinstance(each[1], LedgerShare)]
    others = [each for each in left if not isinstance(each[1], LedgerShare)]
    at_once = session.sparkContext.defaultParallelism
    for steps in (ledgers, others):
        if steps:
            attempt = begun.steps.directory / "attempts" / uuid.uuid4().hex
            rate = None if options.rate is None else options.rate / min(at_once, len(steps))
            run_with_spark(session, options, steps, attempt, begun.steps.tables, rate, note)


def _steps_of_tables(_: TablePlan) -> list[dict[str, Any]]:
    return [{"table": name} for name in sorted(TABLES, key=lambda name: name not in FIRST)]


def _options_at(options: Mapping[str, str], zxid: int | None) -> Mapping[str, str]:
    """The options for all tables; for ZooKeeper's files, with the zxid of the plan."""
    if zxid is None:
        return options
    return {name: value for name, value in options.items() if name.lower() not in ("zxid", "time")} | {
        "zxid": str(zxid)
    }


def _write(session: Any, options: Mapping[str, str], table: str, tables: Path, file_format: str) -> Done:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # The JVM of a killed driver may run on for a moment, so each attempt writes to its own directory.
    attempt, place = tables.parent / "attempts" / uuid.uuid4().hex, tables / table
    try:
        frame = session.read.format("mledger").options(**options).load(table)
        frame.write.format(file_format).mode("overwrite").save(f"file://{attempt.absolute()}")
    except (PySparkException, Py4JError) as error:
        raise ExportError(
            f"Spark could not write the table {table} ({first_line(error)}): run the export again; "
            "finished steps are kept"
        ) from None
    shutil.rmtree(place, ignore_errors=True)
    os.rename(attempt, place)
    done: Done = []
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        if path.name == "_SUCCESS" or path.name.startswith("."):  # Hadoop's own checksums
            path.unlink()
            continue
        name = path.relative_to(tables).as_posix()
        rows = pq.read_metadata(path).num_rows if is_data(name) else 0
        done.append((table, record_of(path, name, rows)))
    return done
