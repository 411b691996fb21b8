"""One Spark for all tests of a worker: two cores, loopback only, no user interface."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.java.class_archives import quick_spark

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session whose workers import this checkout."""
    from pyspark.sql import SparkSession

    if shutil.which("java") is None:
        pytest.skip("Spark needs a Java of 17 or later: install one (Debian: apt-get install default-jdk-headless)")
    directory = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master("local[2]").appName("mledger-tests")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": quick_spark(),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.enabled": "false",
        "spark.network.timeout": "900s",
        "spark.executor.heartbeatInterval": "60s",
        "spark.python.authenticate.socketTimeout": "600s",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
