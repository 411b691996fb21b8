"""A real HDFS on loopback: a name node and a data node, from one jar that Maven fetches and the jars of PySpark."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mledger.snapshot.exports.destination import place_at
from mledger.snapshot.exports.errors import ExportError
from tests.support.java.driver import MAVEN_TIMEOUT_S, QUICK_JAVA, TARGET
from tests.support.ports import free_late_port
from tests.support.snapshots.exports import wait_for

JAR = "org.apache.hadoop:hadoop-client-minicluster:3.5.0"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
BESIDE = ("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "log4j-", "snappy-java")
SERVERS = "org.apache.hadoop.hdfs.server"


def class_path() -> str:
    """The jars. Runs Maven if its jar does not exist yet."""
    directory = TARGET / "hdfs"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may arrive here at once
        if not (directory / "built").exists():
            copy = ["mvn", "-q", "-B", f"{PLUGIN}:copy", f"-Dartifact={JAR}", f"-DoutputDirectory={directory}"]
            done = subprocess.run(copy, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
            assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
            (directory / "built").touch()
    spark = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    beside = [str(path) for name in BESIDE for path in sorted(spark.glob(f"{name}*.jar"))]
    return os.pathsep.join([*map(str, directory.glob("*.jar")), *beside])


def settings(directory: Path, port: int) -> dict[str, str]:
    """One copy of each block, everything on loopback. The system chooses all ports but the name node's."""
    nowhere_else = {
        f"dfs.{name}": "127.0.0.1:0"
        for name in ("namenode.http-address", "datanode.address", "datanode.http.address", "datanode.ipc.address")
    }
    return {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "hadoop.tmp.dir": str(directory / "data"),
        "dfs.replication": "1",
        "dfs.namenode.rpc-address": f"127.0.0.1:{port}",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        **nowhere_else,
    }


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    """The URI of an empty HDFS."""
    if missing := [tool for tool in ("java", "mvn") if shutil.which(tool) is None]:
        pytest.skip(f"HDFS needs {', '.join(missing)}: install maven and a Java of 17 or later")
    directory = tmp_path_factory.mktemp("hdfs")
    port = free_late_port()
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings(directory, port).items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):  # defaults of `dfs.` win over the first
        (directory / name).write_text(f"<configuration>{properties}</configuration>")
    tuning = ["-Xmx128m", *QUICK_JAVA]
    java = ["java", *tuning, "-cp", os.pathsep.join((str(directory), class_path()))]
    form = [*java, f"{SERVERS}.namenode.NameNode", "-format", "-nonInteractive"]
    started = []
    with open(directory / "log", "w") as log:
        subprocess.run(form, stdout=log, stderr=log, timeout=MAVEN_TIMEOUT_S, check=True)
        try:
            for server in ("namenode.NameNode", "datanode.DataNode"):
                process = subprocess.Popen([*java, f"{SERVERS}.{server}"], stdout=log, stderr=log)
                started.append(process)
            uri = f"hdfs://127.0.0.1:{port}"
            wait_for(lambda: serves(uri, started, directory / "log"))
            yield uri
        finally:
            for process in started:
                process.kill()
                process.wait()


def serves(uri: str, processes: list[subprocess.Popen], log: Path) -> bool:
    """Whether it accepts a file yet. AssertionError shows the log if a process has ended."""
    assert all(process.poll() is None for process in processes), log.read_text()[-4000:]
    try:
        place_at(f"{uri}/trial").write("served", b"yes")
    except ExportError:
        return False
    return True
