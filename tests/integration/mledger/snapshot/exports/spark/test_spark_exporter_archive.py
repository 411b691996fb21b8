"""An export by Spark's workers whose Python has no package: a virtual environment reaches them by `--archives`."""

import json
import os
import subprocess
import sys

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S
from tests.support.cli import answer
from tests.support.commands.documents import blocks_of
from tests.support.environments.installed import Unreachable, build_wheel, install_from_index
from tests.support.snapshots.exports import all_rows, write_varied_cluster
from tests.support.snapshots.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark

(PACK,) = [
    line
    for block in blocks_of("how-to/spark-clusters.md", "sh")
    for line in block.text.splitlines()
    if line.startswith("tar ")
]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The archive that the guide makes of a virtual environment with mledger; CI's versions."""
    directory = tmp_path_factory.mktemp("packed")
    wheel = f"mledger[hdfs] @ {build_wheel(directory / 'wheel').as_uri()}"
    try:
        install_from_index(wheel, python=sys._base_executable, directory=directory / "env")
    except Unreachable as error:
        pytest.skip(f"the packages of a virtual environment come from an index, and none answers: {error}")
    quickly = os.environ | {"GZIP": "-1"}  # by default it packs for 12 s
    subprocess.run(PACK, shell=True, cwd=directory, env=quickly, check=True, timeout=HANG_S)
    return directory / "env.tar.gz"


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "0.01",
    "spark.speculation.quantile": "0.1",
}
"""Once a first task is done, Spark begins every other one again on a worker that is free."""
EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}


@pytest.fixture(scope="module")
def exported(packed, tmp_path_factory):
    """A directory with an export by speculating Spark, one by a single process, Spark's log of events, and workers'."""
    directory = tmp_path_factory.mktemp("exported")
    (directory / "events").mkdir()
    settings = {**SPECULATION, **EVENT_LOG, "spark.eventLog.dir": (directory / "events").as_uri()}
    with ZooKeeperServer.start(directory / "zookeeper", sync=False) as server:
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        answer("snapshot", "export", directory / "one-process", "--workers", 1, url=url)
        arguments = (url, str(directory / "by-spark"), "-D", "partitions=3", "-D", "rate=200")
        with (
            spark_cluster(directory, packages=False) as cluster,
            cluster.submitted(*arguments, packed=packed, settings=settings) as driver,
        ):
            out, said = driver.communicate(timeout=HANG_S)
    assert driver.returncode == 0, said[-4000:]
    assert json.loads(out[out.index("{") :])["steps_kept"] == 0
    return directory


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_without_packages_write_the_rows_of_a_one_process_export(exported):
    assert list(exported.glob("worker-*/work/*/*/env/bin/python")), "no worker had the archive"
    assert all_rows(str(exported / "by-spark")) == all_rows(exported / "one-process")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tasks_that_spark_begins_again_by_speculation_leave_one_copy_of_each_file(exported):
    (log,) = (exported / "events").iterdir()
    begun = [
        event for event in map(json.loads, log.read_text().splitlines()) if event["Event"] == "SparkListenerTaskStart"
    ]
    assert any(event["Task Info"]["Speculative"] for event in begun), "no task was begun again"
    assert answer("snapshot", "verify", str(exported / "by-spark"))["whole"]  # every file, and no other
