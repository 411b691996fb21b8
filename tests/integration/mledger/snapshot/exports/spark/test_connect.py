"""The data source and exports through a real Spark Connect server whose workers do not have mledger."""

import subprocess
import sys

import pytest

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.aio import HANG_S
from tests.support.cli import ROOT, answer, mledger_process
from tests.support.commands.documents import blocks_of
from tests.support.ports import environment_of_commands
from tests.support.snapshots.exports import all_rows, rows_in, write_varied_cluster
from tests.support.snapshots.spark_connect import spark_connect

(PROGRAM,) = blocks_of("how-to/spark-clusters.md", "python")
pytestmark = pytest.mark.spark

READ_ALL = """
import sys
import pyarrow.parquet as pq
for table in sys.argv[2:]:
    rows = spark.read.format("mledger").option("metadata", {url!r}).load(table).toArrow()
    pq.write_table(rows, f"{{sys.argv[1]}}/{{table}}.parquet")
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The URLs of a cluster and of a Spark Connect server, and a snapshot of the cluster by one process."""
    directory = tmp_path_factory.mktemp("spark-connect")
    with (
        ZooKeeperServer.start(directory / "zookeeper", sync=False) as server,
        spark_connect(directory) as remote,
    ):
        url = f"{server.url}/pulsar"
        write_varied_cluster(url)
        answer("snapshot", "export", directory / "one-process", "--workers", 1, url=url)
        yield url, remote, directory / "one-process"


def export_by_connect(url, remote, to, *arguments):
    spark = ("--spark", "--remote", remote, "-D", "partitions=4")
    return mledger_process("snapshot", "export", to, *spark, *arguments, "--output", "json", url=url)


@pytest.mark.slow
def test_an_export_by_spark_connect_equals_a_one_process_export(served, tmp_path):
    url, remote, one_process = served
    done = export_by_connect(url, remote, tmp_path)
    assert done.code == 0, done.err
    assert all_rows(tmp_path) == all_rows(one_process)
    assert answer("snapshot", "verify", tmp_path)["whole"]
    (listed,) = answer("snapshot", "list", tmp_path)
    assert listed["engine"] == "spark"


@pytest.mark.slow
def test_the_program_of_the_guide_reads_every_table_by_spark_connect(served, tmp_path):
    url, remote, one_process = served
    guide = PROGRAM.text.replace("sc://spark:15002", remote).replace("zk://zk-1:2181", url)
    command = [sys.executable, "-c", guide + READ_ALL.format(url=url), str(tmp_path), *TABLES]
    environment = environment_of_commands() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert "|tenant" in done.stdout
    assert {table: rows_in([tmp_path / f"{table}.parquet"], table) for table in TABLES} == all_rows(one_process)


def test_an_export_names_the_server_of_spark_remote_if_it_does_not_answer(served, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1/;token=secret")
    done = mledger_process("snapshot", "export", tmp_path, "--spark", url=served[0])
    assert (done.code, done.err) == (
        1,
        "mledger: no Spark Connect server answers at sc://127.0.0.1:1 within 10 s: "
        "check the address, and that one runs there\n",
    )


def test_an_export_says_what_is_wrong_with_the_url_of_a_server(served, tmp_path):
    done = export_by_connect(served[0], "spark:15002", tmp_path)
    assert done.code == 2, done.err
    assert "sc://HOST:PORT" in done.err


def test_a_server_is_named_only_with_spark(served, tmp_path):
    done = mledger_process("snapshot", "export", tmp_path, "--remote", "sc://127.0.0.1:1", url=served[0])
    assert done.code == 2
    assert "add --spark" in done.err
