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


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_workers_without_packages_write_the_rows_of_a_one_process_export(packed, tmp_path):
    with (
        ZooKeeperServer.start(tmp_path / "zookeeper", sync=False) as server,
        spark_cluster(tmp_path, packages=False) as cluster,
    ):
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        to = str(tmp_path / "by-spark")
        with cluster.submitted(url, to, "-D", "partitions=2", packed=packed) as driver:
            out, said = driver.communicate(timeout=HANG_S)
        assert driver.returncode == 0, said[-4000:]
        answer("snapshot", "export", tmp_path / "one-process", "--workers", 1, url=url)
    assert json.loads(out[out.index("{") :])["steps_kept"] == 0
    assert all_rows(to) == all_rows(tmp_path / "one-process")
    unpacked = sorted(tmp_path.glob("worker-*/work/*/*/env/bin/python"))
    assert unpacked, "no worker had the archive"
