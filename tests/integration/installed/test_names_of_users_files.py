"""Files of users may have any name: none is imported in place of a module of ours."""

import json
import shutil

import pytest

from tests.support.java.class_archives import quick_spark

NAMES = ("admin", "bench", "bookie", "broker", "cli", "cluster", "cursors", "demo", "errors", "events", "ledgers")
NAMES += ("logging_", "main", "messages", "metastore", "metrics", "settings", "snapshot", "tests", "topics", "wire")
USES_THE_FIXTURES = """
import mledger

def test_it(mledger_url, mledger_cluster):
    assert mledger_url.startswith("rocksdb:")
    assert all(bookie.running for bookie in mledger_cluster.bookies)
    assert mledger_cluster.config.ensemble_size == 1
"""
READS_A_TABLE = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
session = session.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
session = session.config("spark.driver.extraJavaOptions", sys.argv[2]).config("spark.sql.codegen.wholeStage", "false")
session = session.getOrCreate()
rows = session.read.format("mledger").option("metadata", sys.argv[1]).load("topics").collect()
print([row.topic for row in rows])
"""


@pytest.fixture
def place(tmp_path):
    """A directory with files that must not be imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the user was imported')\n")
    return tmp_path


@pytest.fixture
def mledger(installed, place):
    """Run `mledger` there, with that directory also on PYTHONPATH; it must succeed."""

    def run(*arguments: object, python_path: str = str(place)) -> str:
        done = installed.run(installed.command, *arguments, at=place, PYTHONPATH=python_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    if (place / "mledger-data").exists():
        run("down")


@pytest.fixture
def cluster(mledger):
    """The URL of a cluster that `mledger up` started there, with one topic."""
    mledger("--metadata", "rocksdb:metadata", "up", "--no-broker", "--bookies", "1")
    url = mledger("status", "--url").strip()
    one_bookie = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")
    mledger("--metadata", url, "topics", "create", "orders", *one_bookie)
    return url


def test_up_status_and_down_work_among_them(mledger, cluster) -> None:
    processes = json.loads(mledger("status", "--output", "json"))["processes"]
    assert [(each["name"], each["state"]) for each in processes] == [("rocksdb", "running"), ("bookie-1", "running")]
    topics = json.loads(mledger("--metadata", cluster, "topics", "list", "--output", "json"))
    assert [each["topic"] for each in topics] == ["persistent://public/default/orders"]
    assert mledger("down") == "stopped bookie-1, rocksdb\n"


def test_processes_of_an_export_work_among_them(mledger, cluster, place) -> None:
    mledger("--metadata", cluster, "snapshot", "export", place / "snapshot", "--workers", "2")
    assert list((place / "snapshot").rglob("*.parquet"))


def test_the_fixtures_of_the_plugin_work_among_them(installed, place) -> None:
    (place / "test_user.py").write_text(USES_THE_FIXTURES)
    (place / "pytest.ini").write_text("[pytest]\nmledger_bookies = 1\n")
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={place / 'base'}", "test_user.py")
    done = installed.run(installed.python, "-m", "pytest", *options, at=place, PYTHONPATH=str(place))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_workers_of_spark_find_the_data_source_among_them(installed, mledger, cluster, place) -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'mledger[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java of 17 or later: install one (Debian: apt-get install default-jdk-headless)")
    (place / "read_a_table.py").write_text(READS_A_TABLE)
    variables = {"PYTHONPATH": str(place), "PYSPARK_PYTHON": str(installed.python)}
    done = installed.run(installed.python, "read_a_table.py", cluster, quick_spark(), at=place, **variables)
    assert "['persistent://public/default/orders']" in done.stdout, done.stderr
