"""`mledger snapshot export --format delta`, read by Delta's own Spark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mledger.snapshot.tables.row_builder import TABLES
from tests.interop.tables.delta_snapshot import EARLIER
from tests.support.cli import answer
from tests.support.snapshots.delta import delta_environment
from tests.support.snapshots.exports import all_rows, write_varied_cluster

__all__ = ["delta_environment"]

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(2400)]
SCRIPT = Path(__file__).with_name("delta_snapshot.py")
SPARK_TIMEOUT_S = 1800
NAMES = ("part", "whole")


def test_delta_reads_each_version_as_the_snapshot_that_it_is(delta_environment, zookeeper_server, tmp_path):
    url, to = f"{zookeeper_server.url}/pulsar", tmp_path / "lake"
    write_varied_cluster(url)
    export = ("snapshot", "export", to, "--format", "delta")
    answer(*export, "--name", "part", "-D", "tenant=golden", url=url)
    answer(*export, "--name", "whole", url=url)
    command = [sys.executable, str(SCRIPT), str(to)]
    done = subprocess.run(
        command, cwd=tmp_path, env=delta_environment, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S
    )
    assert done.returncode == 0, done.stderr[-4000:]
    read = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    part, whole = ({table: len(rows) for table, rows in all_rows(to / f"snapshot={name}").items()} for name in NAMES)
    assert read["rows"] == [{table: part[table] for table in EARLIER}, whole]
    assert read["columns"] == [*(column.name for column in TABLES["topics"].columns), "snapshot"]
