"""What is said when the client of Spark Connect cannot begin."""

import sys

import pytest

from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled
from mledger.snapshot.exports.spark.session import first_line, start_session


@pytest.fixture(autouse=True)
def python(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else it would stay set


def test_a_missing_package_of_spark_connect_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(FormatNotInstalled, match=r"grpc.*pip install 'mledger\[connect\]'"):
        start_session("sc://127.0.0.1:1")


def test_a_malformed_url_of_a_server_is_named_without_its_token():
    with pytest.raises(
        ExportError, match=r"^Spark Connect's server at sc://127.0.0.1:1/path cannot be used: "
    ) as raised:
        start_session("sc://127.0.0.1:1/path/;token=secret")
    assert "secret" not in str(raised.value)


def test_the_exception_of_a_python_worker_is_named_and_not_only_that_there_was_one():
    said = """
  An exception was thrown from the Python worker. Please see the stack trace below.
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/spark/python/lib/pyspark.zip/pyspark/serializers.py", line 483, in loads
    return cloudpickle.loads(obj, encoding=encoding)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ModuleNotFoundError: No module named 'mledger'
 SQLSTATE: 38000"""
    assert first_line(RuntimeError(said)) == "ModuleNotFoundError: No module named 'mledger'"
