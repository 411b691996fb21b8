"""Killing either half of an export's Spark driver leaves the previous snapshot, and completed work for the retry."""

import signal

import psutil
import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S
from tests.support.cli import answer
from tests.support.snapshots import tables
from tests.support.snapshots.exports import (
    all_rows,
    processes_below,
    started_export,
    steps_done,
    wait_for,
    wait_until_steps,
    write_varied_cluster,
)
from tests.support.snapshots.spark import spark

__all__ = ["spark"]

pytestmark = [pytest.mark.slow, pytest.mark.spark]

TRY = ("--spark", "-D", "partitions=4")


def ended(processes):
    return psutil.wait_procs(processes, timeout=HANG_S)[1] == []


@pytest.mark.timeout(2400)
def test_a_killed_driver_leaves_the_previous_snapshot_and_the_next_try_continues(tmp_path, spark):
    to = tmp_path / "snapshots"
    with ZooKeeperServer.start(tmp_path / "zookeeper", sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        before = answer("snapshot", "export", to, url=url)

        with started_export(url, to, *TRY, "-D", "rate=30") as process:  # the JVM dies
            wait_until_steps(process, to)
            first = len(steps_done(to))
            wait_for(lambda: processes_below(process, "SparkSubmit"))[0].kill()
            said = process.communicate(timeout=HANG_S)[1].splitlines()
        assert process.returncode == 1
        assert said[-1].startswith("mledger: Spark"), said
        assert said[-1].endswith("run the export again; finished steps are kept")
        assert [each["name"] for each in answer("snapshot", "list", to)] == [before["name"]]
        assert len(steps_done(to)) >= first

        with started_export(url, to, *TRY, "-D", "rate=30") as process:  # Python dies
            wait_for(lambda: processes_below(process, "SparkSubmit"))
            below = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert ended(below)
        assert [each["name"] for each in answer("snapshot", "list", to)] == [before["name"]]
        assert answer("snapshot", "verify", to)["whole"]
        kept = len(steps_done(to))

        done = answer("snapshot", "export", to, *TRY, url=url)
        assert done["steps_kept"] == kept >= first
        assert all_rows(done["snapshot"]) == tables.read({"metadata": url})
        assert answer("snapshot", "verify", done["snapshot"])["whole"]
