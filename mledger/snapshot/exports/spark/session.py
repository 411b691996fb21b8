"""The Spark session of an export: from `spark-submit`, by Spark Connect, or on this machine."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled
from mledger.snapshot.exports.spark.connect import SCHEME, check_server, send_package, without_token

LOCAL: Mapping[str, str] = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_PYTHON_WORKER = "An exception was thrown from the Python worker"
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)$", re.MULTILINE)
"""The line of a traceback that names the exception."""


def start_session(remote: str | None = None) -> Any:
    """The session of `spark-submit`, or of the Spark Connect server `remote` or `SPARK_REMOTE`, or on this machine.

    Raises ExportError if Spark or its Java is missing, or the server does not answer.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise FormatNotInstalled("--spark needs the package pyspark: pip install 'mledger[spark]'") from None
    builder = SparkSession.builder.appName("mledger snapshot export")
    url = remote or os.environ.get("SPARK_REMOTE", "")
    if url.startswith(SCHEME):
        return _connected(builder, url)
    # The settings of spark-submit are in its JVM, and cannot be read here before the session exists.
    if not url and "PYSPARK_GATEWAY_PORT" not in os.environ and SparkSession.getActiveSession() is None:
        for name, value in LOCAL.items():
            builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise ExportError(
            f"Spark cannot be started ({first_line(error)}): it needs Java 17 or later, found by JAVA_HOME or PATH"
        ) from None


def _connected(builder: Any, url: str) -> Any:
    """A session of the server at `url`, whose workers have this mledger."""
    from pyspark.errors import PySparkException

    try:
        check_server(url)
        session = builder.remote(url).getOrCreate()
        send_package(session)
    except ImportError as error:
        raise FormatNotInstalled(
            f"Spark Connect needs more packages ({first_line(error)}): pip install 'mledger[connect]'"
        ) from None
    except (PySparkException, RuntimeError, OSError) as error:
        raise ExportError(
            f"Spark Connect's server at {without_token(url)} cannot be used: {first_line(error)}"
        ) from None
    return session


def spark_errors() -> tuple[type[BaseException], ...]:
    """What a job raises that fails."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # a client of Spark Connect has no JVM
        return (PySparkException,)
    return PySparkException, Py4JError


@contextmanager
def while_it_lives() -> Iterator[None]:
    """Raise a one-line ExportError if Spark's JVM is gone, wherever the code notices it."""
    gone: tuple[type[BaseException], ...] = (*spark_errors(), ConnectionError, EOFError)
    try:
        yield
    except gone as error:
        raise ExportError(
            f"Spark's JVM is gone ({first_line(error)}): run the export again; finished steps are kept"
        ) from None


def first_line(error: BaseException) -> str:
    """The one line of Spark's error that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("mledger.")]
    others = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    raised = _RAISED.findall(str(error)) if others and others[0].startswith(_PYTHON_WORKER) else []
    return (named or raised or others or [type(error).__name__])[0]
