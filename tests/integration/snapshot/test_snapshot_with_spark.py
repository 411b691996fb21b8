"""Spark writes the snapshot that is written without it."""

import pytest

from metastore.launcher import ZooKeeperServer
from tests.support import tables
from tests.support.cli import answer
from tests.support.exports import all_rows, write_varied_cluster
from tests.support.spark import spark

__all__ = ["spark"]


@pytest.fixture(scope="module")
def exported(spark, tmp_path_factory):
    """A cluster's URL and files, and a snapshot of it by Spark."""
    directory = tmp_path_factory.mktemp("exported-by-spark")
    with ZooKeeperServer.start(directory / "zookeeper", sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        done = answer("snapshot", "export", directory / "live", "--spark", "-o", "partitions=1", url=url)
        yield url, f"file://{directory}/zookeeper/data", directory / "live", done


def test_a_snapshot_by_spark_holds_the_same_rows(exported):
    url, _, path, done = exported
    assert all_rows(path) == tables.read({"metadata": url})
    assert {each["table"]: each["rows"] for each in done["tables"]} == {
        name: len(rows) for name, rows in all_rows(path).items()
    }


def test_a_snapshot_by_spark_is_verified_and_listed_like_any(exported):
    _, _, path, _ = exported
    assert answer("snapshot", "verify", path)["whole"]
    (listed,) = answer("snapshot", "list", path)
    assert (listed["engine"], listed["format"]) == ("spark", "parquet")
