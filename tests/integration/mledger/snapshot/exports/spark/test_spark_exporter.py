"""Spark writes the snapshot that is written without it, and runs queries about snapshots alike."""

import contextlib
import threading
import time

import psutil
import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.sql.queries import CHANGES, QUERIES, create_views, open_snapshots
from tests.support.cli import answer
from tests.support.snapshots import tables
from tests.support.snapshots.exports import (
    all_rows,
    processes_below,
    started_export,
    steps_done,
    wait_until_steps,
    write_varied_cluster,
)
from tests.support.snapshots.snapshot_pairs import write_both
from tests.support.snapshots.spark import spark

__all__ = ["spark"]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def exported(spark, tmp_path_factory):
    """A cluster's URL and files, and a snapshot of it by Spark."""
    directory = tmp_path_factory.mktemp("exported-by-spark")
    with ZooKeeperServer.start(directory / "zookeeper", sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        done = answer("snapshot", "export", directory / "live", "--spark", "-D", "partitions=1", url=url)
        yield url, f"file://{directory}/zookeeper/data", directory / "live", done


def test_a_snapshot_by_spark_holds_the_same_rows(exported):
    url, _, path, done = exported
    assert all_rows(path) == tables.read({"metadata": url})
    assert {each["table"]: each["rows"] for each in done["tables"]} == {
        name: len(rows) for name, rows in all_rows(path).items()
    }


def test_a_snapshot_by_spark_is_verified_and_listed_like_any_other(exported):
    _, _, path, _ = exported
    assert answer("snapshot", "verify", path)["whole"]
    (listed,) = answer("snapshot", "list", path)
    assert (listed["engine"], listed["format"]) == ("spark", "parquet")


def test_a_killed_python_worker_ends_the_export_in_one_line_and_the_retry_continues(exported, tmp_path):
    url, _, path, _ = exported
    with started_export(url, tmp_path, "--spark", "-D", "partitions=1", "-D", "rate=300") as process:
        wait_until_steps(process, tmp_path)
        before = len(steps_done(tmp_path))
        killing = threading.Thread(target=kill_workers, args=[process])
        killing.start()
        said = process.communicate()[1].splitlines()
        killing.join()
    assert process.returncode == 1
    assert said[-1].startswith("mledger: Spark could not write the tables ")
    assert said[-1].endswith("run the export again; finished steps are kept")
    assert answer("snapshot", "list", tmp_path) == []
    done = answer("snapshot", "export", tmp_path, "--spark", "-D", "partitions=1", url=url)
    assert done["steps_kept"] >= before
    assert all_rows(tmp_path) == all_rows(path)


def kill_workers(process):
    """Kill the export's Python workers, whether they plan or read, until it has ended."""
    while process.poll() is None:
        for worker in processes_below(process, "pyspark.daemon"):
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        time.sleep(0.02)


@pytest.fixture(scope="module")
def queried(spark, tmp_path_factory):
    """Spark's views of two snapshots, and the same without Spark."""
    before, now = write_both(tmp_path_factory.mktemp("queried-by-spark"))
    create_views(spark, str(now), str(before))
    with open_snapshots(str(now), str(before)) as snapshots:
        yield snapshots


@pytest.mark.parametrize("name", [*QUERIES, *CHANGES])
def test_a_query_has_the_same_answer_in_spark(spark, queried, name):
    found = [row.asDict() for row in spark.table(name).collect()]
    assert found == queried.ask((QUERIES | CHANGES)[name]).to_pylist()
