"""An export by a Spark cluster whose machines share nothing but the network, to a bucket, with killed processes."""

import json

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S
from tests.support.cli import answer
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, wait_for, write_varied_cluster
from tests.support.snapshots.s3 import s3, s3_server
from tests.support.snapshots.spark_cluster import spark_cluster

__all__ = ["s3", "s3_server"]

pytestmark = pytest.mark.spark

TO = "s3://metadata/cluster"
SLOWLY = ("-D", "partitions=4", "-D", "rate=60")


def records(s3):
    """The records of steps that an unfinished export has completed."""
    return [name for name in s3.written("cluster") if name.startswith("_unfinished/") and "/steps/" in name]


def visible(s3):
    """What readers of names alone see."""
    return {name for name in s3.written("cluster") if not name.startswith("_")}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_executors_and_drivers_leave_nothing_and_the_result_equals_a_one_process_export(s3, tmp_path):
    with (
        ZooKeeperServer.start(tmp_path / "zookeeper", sync=False) as server,
        spark_cluster(tmp_path) as cluster,
    ):
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        with cluster.submitted(url, TO, *SLOWLY) as driver:
            wait_for(lambda: records(s3) or driver.poll() is not None)
            assert driver.poll() is None, driver.communicate()[1][-4000:]
            cluster.kill(driver)
        assert visible(s3) == set()
        assert answer("snapshot", "list", TO) == []
        left = len(records(s3))

        with cluster.submitted(url, TO, *SLOWLY) as driver:
            found = wait_for(lambda: cluster.executors_at_work() or driver.poll() is not None)
            assert driver.poll() is None, driver.communicate()[1][-4000:]
            found[0].kill()
            out, said = driver.communicate(timeout=HANG_S)
        assert driver.returncode == 0, said[-4000:]
        done = json.loads(out[out.index("{") :])
        assert done["steps_kept"] >= left > 0
        assert answer("snapshot", "verify", TO)["whole"]
        answer("snapshot", "export", tmp_path / "one-process", url=url)
        assert all_rows(TO) == all_rows(tmp_path / "one-process") == tables.read({"metadata": url})
        assert visible(s3) == s3.written("cluster").keys()
        assert not list(tmp_path.glob("worker-*/**/*.parquet"))
