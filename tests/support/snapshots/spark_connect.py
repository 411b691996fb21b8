"""A Spark Connect server on loopback whose workers have the packages that mledger needs, but not mledger."""

import contextlib
import subprocess
from pathlib import Path

from tests.support.java.class_archives import quick_spark
from tests.support.ports import free_late_port
from tests.support.snapshots.exports import wait_for
from tests.support.snapshots.spark_cluster import MEMORY, environment_without_mledger, pyspark_file

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextlib.contextmanager
def spark_connect(directory: Path):
    """The `sc://` URL of a server with two cores, whose files are below `directory`."""
    environment = environment_without_mledger(directory) | {"SPARK_DAEMON_MEMORY": MEMORY}
    port = free_late_port()
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": quick_spark(),
        "spark.local.dir": str(directory),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    told = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [pyspark_file("bin/spark-submit"), "--master", "local[2]", *told, "--class", SERVER]
    with open(directory / "connect.log", "w") as log:
        process = subprocess.Popen([*command, "spark-internal"], cwd=directory, env=environment, stdout=log, stderr=log)
    try:
        wait_for(lambda: _has_started(process, directory / "connect.log"))
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _has_started(process: subprocess.Popen, log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-4000:]
    return "Spark Connect server started at" in log.read_text()
