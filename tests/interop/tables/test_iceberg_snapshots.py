"""`mledger snapshot export --format iceberg`, read by Iceberg's own Spark and by DuckDB's extension."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mledger.snapshot.tables.row_builder import TABLES
from tests.support.cli import answer
from tests.support.snapshots.exports import all_rows, write_varied_cluster
from tests.support.snapshots.iceberg import duckdb_environment, iceberg_environment

__all__ = ["duckdb_environment", "iceberg_environment"]

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(2400)]
SCRIPT_TIMEOUT_S = 1800
NAMES = ("part", "whole")


@pytest.fixture
def lake(zookeeper_server, tmp_path):
    """A directory of two snapshots, committed to Iceberg tables."""
    url, to = f"{zookeeper_server.url}/pulsar", tmp_path / "lake"
    write_varied_cluster(url)
    export = ("snapshot", "export", to, "--format", "iceberg")
    answer(*export, "--name", "part", "-D", "tenant=golden", url=url)
    answer(*export, "--name", "whole", url=url)
    return to


def run_script(name, to, environment):
    """What a script of this directory prints, as JSON."""
    command = [sys.executable, str(Path(__file__).with_name(name)), str(to)]
    done = subprocess.run(
        command, cwd=to.parent, env=environment, capture_output=True, text=True, timeout=SCRIPT_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.rstrip().rpartition("\n")[2])


def check_rows(lake, read):
    """Every version of every table has the rows of its snapshot, and their keys."""
    for name in NAMES:
        found = all_rows(lake / f"snapshot={name}")
        assert read["rows"][name] == {table: len(rows) for table, rows in found.items()}
        assert read["topics"][name] == [[row["topic"], row["entries"]] for row in found["topics"]]


def test_spark_reads_each_version_as_the_snapshot_that_it_is(iceberg_environment, lake):
    read = run_script("iceberg_snapshot.py", lake, iceberg_environment)
    check_rows(lake, read)
    assert read["current"] == read["rows"]["whole"]
    assert read["earlier"] == ["part"]
    assert read["columns"] == [*(column.name for column in TABLES["topics"].columns), "snapshot"]


def test_duckdb_reads_each_version_as_the_snapshot_that_it_is(duckdb_environment, lake):
    check_rows(lake, run_script("iceberg_snapshot_in_duckdb.py", lake, duckdb_environment))
