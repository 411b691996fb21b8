"""The Spark session of an export, from `spark-submit` or on this machine, and its settings for Delta."""

import importlib
import importlib.util
import operator
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any

from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled

DELTA = "delta"
LOCAL: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DELTA_SETTINGS: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_DELTA_JAR = "delta-spark"
_SIGNS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"(<=|>=|==|!=|<|>)\s*([\d.]+)")


def check_format(file_format: str) -> None:
    """Raise FormatNotInstalled if the format's packages are missing, or delta-spark does not fit pyspark."""
    if file_format != DELTA:
        return
    if importlib.util.find_spec("delta") is None:
        raise FormatNotInstalled("--format delta needs the package delta-spark: pip install 'mledger[delta]'")
    if importlib.util.find_spec("pyspark") is None:
        raise FormatNotInstalled("--format delta needs the package pyspark: pip install 'mledger[delta]'")
    delta, spark = metadata.distribution("delta-spark"), metadata.version("pyspark")
    wanted = pyspark_wanted(delta.requires or ())
    if not satisfies(spark, wanted):
        raise FormatNotInstalled(
            f"delta-spark {delta.version} needs pyspark{wanted}, but {spark} is installed: "
            "pip install 'mledger[delta]' installs versions that fit"
        )


def pyspark_wanted(requirements: Iterable[str]) -> str:
    """The versions of pyspark that a package's requirements allow, as in `<=4.2.0,>=4.0.1`; empty: any."""
    found = [each for each in requirements if re.match(r"pyspark\b(?!-)", each)]
    return found[0].removeprefix("pyspark").partition(";")[0].strip(" ()") if found else ""


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version of numbers and dots meets the conditions in `wanted`."""
    return all(_holds(_numbers(version), sign, _numbers(bound)) for sign, bound in _CONDITION.findall(wanted))


def _holds(version: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    length = max(len(version), len(bound))
    left, right = (each + (0,) * (length - len(each)) for each in (version, bound))
    return bool(_SIGNS[sign](left, right))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def start_session(file_format: str) -> Any:
    """The session of `spark-submit`, or one on this machine's cores; ExportError if Spark or its Java is missing."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise FormatNotInstalled("--spark needs the package pyspark: pip install 'mledger[spark]'") from None
    builder = SparkSession.builder.appName("mledger snapshot export")
    settings = DELTA_SETTINGS if file_format == DELTA else {}
    # The settings of spark-submit are in its JVM, and cannot be read here before the session exists.
    ours = "PYSPARK_GATEWAY_PORT" not in os.environ and SparkSession.getActiveSession() is None
    for name, value in (*(LOCAL.items() if ours else ()), *settings.items()):
        builder = builder.config(name, value)
    if ours and file_format == DELTA and _DELTA_JAR not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        builder = importlib.import_module("delta").configure_spark_with_delta_pip(builder)
    try:
        session = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise ExportError(
            f"Spark cannot be started ({first_line(error)}): it needs Java 17 or later, found by JAVA_HOME or PATH"
        ) from None
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return session


@contextmanager
def while_it_lives() -> Iterator[None]:
    """Raise a one-line ExportError if Spark's JVM is gone, wherever the code notices it."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError, EOFError) as error:
        raise ExportError(
            f"Spark's JVM is gone ({first_line(error)}): run the export again; finished steps are kept"
        ) from None


def first_line(error: BaseException) -> str:
    """The one line of Spark's error that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("mledger.")]
    others = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    return (named or others or [type(error).__name__])[0]
