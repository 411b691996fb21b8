"""`mledger snapshot export --format delta` with delta-spark itself, on a Spark that it supports."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.sql.queries import CHANGES, QUERIES
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.aio import HANG_S
from tests.support.cli import answer, mledger
from tests.support.snapshots import tables
from tests.support.snapshots.delta import delta_environment
from tests.support.snapshots.exports import (
    all_rows,
    started_export,
    steps_done,
    wait_until_steps,
    write_varied_cluster,
)

__all__ = ["delta_environment"]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(2400)]
SCRIPT = Path(__file__).with_name("delta_snapshot.py")
SPARK_TIMEOUT_S = 1800


@pytest.fixture(scope="module")
def exported(delta_environment, tmp_path_factory):
    """A cluster's URL, a directory with a snapshot of Delta tables, the output of its export, and what Delta reports.

    A first try was interrupted by kill -9 of its driver, and a second one continued.
    """
    directory = tmp_path_factory.mktemp("delta")
    with ZooKeeperServer.start(directory / "zookeeper", sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        to = directory / "snapshots"
        slowly = ("--format", "delta", "-D", "partitions=1", "-D", "rate=30")
        with started_export(url, to, *slowly, environment=delta_environment) as process:
            wait_until_steps(process, to)
            below = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert psutil.wait_procs(below, timeout=HANG_S)[1] == []
        kept = len(steps_done(to))
        assert answer("snapshot", "list", to) == []
        command = [sys.executable, str(SCRIPT), url, str(to)]
        done = subprocess.run(command, env=delta_environment, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S)
        assert done.returncode == 0, done.stderr[-4000:]
        said, delta = done.stdout.rstrip().rpartition("\n")[::2]
        yield url, to, json.loads(said) | {"kept_before": kept}, json.loads(delta)


def test_a_retry_keeps_completed_work_and_holds_all_rows(exported):
    url, to, said, _ = exported
    assert said["steps_kept"] == said["kept_before"] > 0
    assert all_rows(to) == tables.read({"metadata": url})
    assert {each["table"]: each["rows"] for each in said["tables"]} == {
        name: len(rows) for name, rows in all_rows(to).items()
    }


def test_delta_reads_its_tables_which_have_one_version(exported):
    _, to, _, delta = exported
    assert delta["rows"] == {name: len(rows) for name, rows in all_rows(to).items()}
    assert delta["columns"] == [column.name for column in TABLES["topics"].columns]
    assert delta["versions"] == [0]


def test_it_is_listed_and_verified_with_the_logs_of_its_tables(exported):
    _, to, _, _ = exported
    (listed,) = answer("snapshot", "list", to)
    assert (listed["engine"], listed["format"]) == ("spark", "delta")
    assert answer("snapshot", "verify", to)["whole"]
    (log,) = to.glob("snapshot=*/topics/_delta_log/*.json")
    log.write_bytes(log.read_bytes() + b" ")
    try:
        (problem,) = mledger("snapshot", "verify", to, "--output", "json").json["problems"]
    finally:
        log.write_bytes(log.read_bytes()[:-1])
    assert problem["path"] == f"topics/_delta_log/{log.name}"


def test_queries_are_answered_as_with_parquet(exported, tmp_path):
    url, to, _, _ = exported
    answer("snapshot", "export", tmp_path, url=url)
    for name, query in QUERIES.items():
        if not query.compares:
            found, expected = (answer("snapshot", "ask", each, name) for each in (to, tmp_path))
            assert len(found) == len(expected), name
    changed = answer("snapshot", "diff", to, tmp_path)
    assert {name: changed[name] for name in CHANGES if changed[name]} == {}
    page = tmp_path / "report.html"
    answer("report", to, "--to", page)
    assert "persistent://" in page.read_text()
