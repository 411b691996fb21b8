"""Exports with Spark: each table is read by `format("mledger")` and written by Spark's own writers, a step each.

The directory has to be one that every executor reaches at the same path.
"""

import importlib
import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from snapshot.assembling import TABLES
from snapshot.exports.directory import SnapshotDirectory, hadoop_path
from snapshot.exports.errors import ExportError, FormatNotInstalled
from snapshot.exports.exporting import Asked, Exported, Progress, begin, finish, ignore_progress, kept_steps
from snapshot.exports.files import record_of
from snapshot.exports.steps import Done
from snapshot.shares import TablePlan

SPARK = "spark"
DELTA = "delta"
FIRST = ("ledgers", "ensembles")
"""Read before what names them."""


def check_format(file_format: str) -> None:
    """FormatNotInstalled if nothing here writes it."""
    if file_format == DELTA and importlib.util.find_spec("delta") is None:
        raise FormatNotInstalled("--format delta needs the package delta-spark: pip install delta-spark")


def export_with_spark(asked: Asked, to: SnapshotDirectory, progress: Progress = ignore_progress) -> Exported:
    """As `exporting.export`, with Spark: the session that is there, or one on this machine."""
    options = asked.read_options()
    check_format(asked.file_format)
    begun = begin(asked, options, to, _steps_of_tables)
    if isinstance(begun, Exported):
        return begun
    plan, steps = begun.plan, begun.steps
    finished = kept_steps(plan, steps)
    resumed, total = len(finished), len(plan.steps)
    session = start_session(asked.file_format)
    given = _options_at(asked.options, plan.zxid)
    for index, step in enumerate(plan.steps):
        if index not in finished:
            finished[index] = _write(session, given, step["table"], steps.tables, asked.file_format)
            steps.note(index, finished[index])
        progress(len(finished), total, sum(file.rows for done in finished.values() for _, file in done))
    return finish(asked, to, plan, steps, finished, resumed)


def start_session(file_format: str) -> Any:
    """The session of `spark-submit`, or one on this machine's cores; ExportError if Spark or its Java is missing."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark import SparkConf
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise FormatNotInstalled("--spark needs the package pyspark: pip install 'mledger[spark]'") from None
    builder = SparkSession.builder.appName("mledger snapshot export")
    if not SparkConf().contains("spark.master") and SparkSession.getActiveSession() is None:
        for name, value in {
            "spark.master": "local[*]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }.items():
            builder = builder.config(name, value)
    if file_format == DELTA:
        builder = importlib.import_module("delta").configure_spark_with_delta_pip(
            builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
                "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
            )
        )
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise ExportError(
            f"Spark cannot be started ({_first_line(error)}): it needs a Java 17 or later, found by JAVA_HOME or PATH"
        ) from None
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return session


def _steps_of_tables(_: TablePlan) -> list[dict[str, Any]]:
    return [{"table": name} for name in sorted(TABLES, key=lambda name: name not in FIRST)]


def _options_at(options: Mapping[str, str], zxid: int | None) -> Mapping[str, str]:
    """The options for all tables: of files, those at one point."""
    if zxid is None:
        return options
    return {name: value for name, value in options.items() if name.lower() not in ("zxid", "time")} | {
        "zxid": str(zxid)
    }


def _write(session: Any, options: Mapping[str, str], table: str, tables: Path, file_format: str) -> Done:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # Of a driver that was killed a JVM may go on for a moment: it writes to a place of its own.
    attempt, place = tables.parent / "attempts" / uuid.uuid4().hex, tables / table
    try:
        frame = session.read.format("mledger").options(**options).load(table)
        frame.write.format(file_format).mode("overwrite").save(hadoop_path(attempt))
    except (PySparkException, Py4JError) as error:
        raise ExportError(
            f"Spark could not write the table {table} ({_first_line(error)}): run it again, what was finished is kept"
        ) from None
    shutil.rmtree(place, ignore_errors=True)
    os.rename(attempt, place)
    done: Done = []
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        if path.name == "_SUCCESS" or path.suffix == ".crc":
            path.unlink()
            continue
        rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else 0
        done.append((table, record_of(path, path.relative_to(tables).as_posix(), rows)))
    return done


def _first_line(error: BaseException) -> str:
    """What of Spark's many lines says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("snapshot.", "metastore.", "bookie.", "mledger."))]
    told = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    return (named or told or [type(error).__name__])[0]
