"""Archives of loaded classes, from which the Javas of tests start with a third to a half less work.

An archive fits one Java and one class path, which its file's name holds. It is made by a short program that loads what
servers load, and only used where it exists: nothing depends on it. `python -m tests.support.java.class_archives` makes
all of them.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from kazoo.client import KazooClient

from mledger.metastore.errors import ZooKeeperFailed, ZooKeeperNotFound
from mledger.metastore.zookeeper.launcher import FLAGS_VARIABLE, ZooKeeperServer, find_java, find_zookeeper
from tests.support.java.driver import QUICK_JAVA, TARGET

QUIETLY = "-Xlog:disable"  # otherwise Java lists the classes that it leaves out
SPARK_PROGRAM = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in {settings!r}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.range(9).selectExpr("id", "string(id) as text").write.parquet({to!r})
spark.read.parquet({to!r}).groupBy("text").count().orderBy("text").collect()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()
"""
_TIMEOUT_S = 300


def use_zookeepers() -> None:
    """Let the servers of ZooKeeper that this process and its children start use an archive, made if necessary."""
    archive = _zookeepers()
    if archive is not None:
        os.environ[FLAGS_VARIABLE] = f"{os.environ.get(FLAGS_VARIABLE, '')} {_using(archive)}".strip()


def quick_spark() -> str:
    """The options for Java with which Spark starts quickly; with its archive, if it exists."""
    archive = _spark_archive()
    return " ".join((*QUICK_JAVA, *((_using(archive),) if archive is not None and archive.exists() else ())))


def _using(archive: Path) -> str:
    return f"-XX:SharedArchiveFile={archive}"


def _zookeepers() -> Path | None:
    """The archive of ZooKeeper's classes, None where there is no ZooKeeper or its Java makes none."""
    try:
        runtime = find_zookeeper()
    except ZooKeeperNotFound:  # the tests that need it say so
        return None

    def work(to: Path, directory: Path) -> None:
        making = (QUIETLY, f"-XX:ArchiveClassesAtExit={to}")
        with ZooKeeperServer.start(directory, sync=False, runtime=runtime, java_options=making) as server:
            client = KazooClient(server.connect_string)
            client.start(timeout=_TIMEOUT_S)
            client.create("/node", b"value")
            client.get_children("/")
            client.transaction().commit()
            client.stop()
            client.close()

    try:
        return _made(_file("zookeeper", runtime.java, runtime.classpath), work)
    except ZooKeeperFailed:  # its Java knows no such archives (before 13), or the tests that need it will say more
        return None


def _spark_archive() -> Path | None:
    import pyspark

    try:
        java = find_java()
    except ZooKeeperNotFound:
        return None
    return _file("spark", java, (Path(pyspark.__file__).parent / "jars").glob("*.jar"))


def _make_sparks() -> None:
    archive = _spark_archive()

    def work(to: Path, directory: Path) -> None:
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC {QUIETLY} -XX:ArchiveClassesAtExit={to}",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(directory),
        }
        program = SPARK_PROGRAM.format(settings=settings, to=str(directory / "written"))
        subprocess.run([sys.executable, "-c", program], cwd=directory, timeout=_TIMEOUT_S, check=True)

    if archive is not None:
        _made(archive, work)


def _file(name: str, java: Path, jars: Iterable[Path]) -> Path:
    """Where the archive of this Java and these jars is."""
    parts = (java.resolve(), *sorted(jars))
    fingerprint = repr([(str(part), part.stat().st_size, part.stat().st_mtime_ns) for part in parts])
    return TARGET / "classes-archived" / f"{name}-{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.jsa"


def _made(archive: Path, work: Callable[[Path, Path], None]) -> Path | None:
    """The archive, which `work` writes in a directory of its own if it does not exist; None if Java wrote none."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with open(archive.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test workers may arrive here at once
        if not archive.exists():
            with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
                unfinished = Path(directory, "unfinished.jsa")
                work(unfinished, Path(directory))
                if not unfinished.exists():
                    return None
                unfinished.rename(archive)
    return archive


if __name__ == "__main__":
    _zookeepers()
    _make_sparks()
