"""Spark writes the snapshot that is written without it, and answers questions about snapshots alike."""

import pytest

from metastore.launcher import ZooKeeperServer
from snapshot.exports.errors import FormatNotInstalled
from snapshot.exports.spark import DELTA, check_format
from snapshot.questions import CHANGES, QUESTIONS, create_views, open_snapshots
from tests.support import tables
from tests.support.cli import answer
from tests.support.exports import all_rows, write_varied_cluster
from tests.support.questioned import write_both
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


@pytest.fixture(scope="module")
def questioned(spark, tmp_path_factory):
    """Spark's views of two snapshots, and the same asked without Spark."""
    before, now = write_both(tmp_path_factory.mktemp("questioned-by-spark"))
    create_views(spark, str(now), str(before))
    with open_snapshots(str(now), str(before)) as snapshots:
        yield snapshots


@pytest.mark.parametrize("name", [*QUESTIONS, *CHANGES])
def test_a_question_has_the_same_answer_in_spark(spark, questioned, name):
    found = [row.asDict() for row in spark.table(name).collect()]
    assert found == questioned.ask((QUESTIONS | CHANGES)[name]).to_pylist()


def test_delta_is_refused_where_it_is_not_installed():
    with pytest.raises(FormatNotInstalled, match="pip install delta-spark"):
        check_format(DELTA)
