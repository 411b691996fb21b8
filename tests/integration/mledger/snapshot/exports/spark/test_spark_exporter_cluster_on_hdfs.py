"""An export to HDFS by a Spark cluster whose machines share nothing but the network, with killed processes."""

import json

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.exports.destination import place_at
from mledger.snapshot.exports.errors import DestinationNotReadable
from tests.support.aio import HANG_S
from tests.support.cli import answer
from tests.support.snapshots import tables
from tests.support.snapshots.exports import all_rows, wait_for, write_varied_cluster
from tests.support.snapshots.hdfs import hdfs
from tests.support.snapshots.spark_cluster import spark_cluster

__all__ = ["hdfs"]

pytestmark = pytest.mark.spark

SLOWLY = ("-D", "partitions=4", "-D", "rate=200")


def steps_recorded(to):
    """The records of steps that an unfinished export has completed; none while its directory is being created.

    While a record is being written, its name begins with a dot.
    """
    try:
        names = place_at(to).sizes()
    except DestinationNotReadable:
        return []
    return [name for name in names if name.startswith("_unfinished/") and "/steps/" in name and "/." not in name]


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_driver_and_an_executor_killed_between_two_steps_leave_no_trace_in_the_rows(hdfs, tmp_path):
    to = f"{hdfs}/metadata/cluster"
    with (
        ZooKeeperServer.start(tmp_path / "zookeeper", sync=False) as server,
        spark_cluster(tmp_path) as cluster,
    ):
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        with cluster.submitted(url, to, *SLOWLY) as driver:
            wait_for(lambda: steps_recorded(to) or driver.poll() is not None)
            assert driver.poll() is None, driver.communicate()[1][-4000:]
            cluster.kill(driver)
        assert answer("snapshot", "list", to) == []
        left = len(steps_recorded(to))

        with cluster.submitted(url, to, *SLOWLY) as driver:
            wait_for(
                lambda: (cluster.executors_at_work() and len(steps_recorded(to)) > left) or driver.poll() is not None
            )
            assert driver.poll() is None, driver.communicate()[1][-4000:]
            started = len(list(tmp_path.glob("worker-*/work/*/*")))
            cluster.executors_at_work()[0].kill()
            assert answer("snapshot", "list", to) == []
            out, said = driver.communicate(timeout=HANG_S)
        assert driver.returncode == 0, said[-4000:]
        done = json.loads(out[out.index("{") :])
        assert done["steps_kept"] >= left > 0
        assert len(list(tmp_path.glob("worker-*/work/*/*"))) > started  # an executor took the place of the killed one
        assert answer("snapshot", "verify", to)["whole"]
        answer("snapshot", "export", tmp_path / "one-process", "--workers", 1, url=url)
        assert all_rows(to) == all_rows(tmp_path / "one-process") == tables.read({"metadata": url})
        written = [name for name in place_at(to).sizes() if name.endswith(".parquet")]
        assert {part for name in written for part in name.split("/") if "=" in part} == {f"snapshot={done['name']}"}
        assert not list(tmp_path.glob("worker-*/**/*.parquet"))
