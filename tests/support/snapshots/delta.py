"""A Spark that delta-spark supports, beside the one that the project tests: packages and jars in one directory.

Its environment runs `mledger` on it. Its packages come before those of the interpreter, which has the rest.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import ROOT
from tests.support.java.driver import MAVEN_TIMEOUT_S, TARGET, missing_tools

PACKAGES = ("pyspark==4.2.0", "delta-spark==4.4.0", "importlib_metadata==8.7.1", "zipp==3.23.0")
JARS = "io.delta:delta-spark_4.2_2.13:4.4.0"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
PIP_TIMEOUT_S = 900
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>mledger</groupId><artifactId>delta</artifactId><version>1</version>
<dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies></project>
"""


def build() -> Path:
    """The directory with `packages` and `jars`. Runs pip and Maven if it does not exist yet."""
    directory = TARGET / "delta"
    directory.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join((*PACKAGES, JARS))
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = directory / "built"
        if not stamp.exists() or stamp.read_text() != wanted:
            (directory / "pom.xml").write_text(POM.format(*JARS.split(":")))
            # Spark ships all of their dependencies except Delta's own.
            jars = ["-DincludeGroupIds=io.delta", f"-DoutputDirectory={directory / 'jars'}"]
            _run("mvn", "-q", "-B", f"{PLUGIN}:copy-dependencies", *jars, at=directory, timeout=MAVEN_TIMEOUT_S)
            pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(directory / "packages"))
            _run(sys.executable, *pip, *PACKAGES, at=directory, timeout=PIP_TIMEOUT_S)
            stamp.write_text(wanted)
    return directory


def _run(*command: str, at: Path, timeout: float) -> None:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-4000:]}"


@pytest.fixture(scope="module")
def delta_environment(tmp_path_factory):
    """The environment of processes that use delta-spark and its Spark."""
    if missing := missing_tools():
        pytest.skip(f"delta-spark needs {', '.join(missing)}: install maven and a Java of 17 or later")
    built = build()
    jars = ",".join(map(str, sorted((built / "jars").glob("*.jar"))))
    local = tmp_path_factory.mktemp("spark-local")
    options = (
        "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions=1",
        "spark.sql.codegen.wholeStage=false",
        "spark.databricks.delta.snapshotPartitions=1",
    )
    told = [word for option in options for word in ("--conf", f'"{option}"')]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join((str(built / "packages"), str(ROOT))),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join(("--jars", jars, "--driver-memory", "1g", *told, "pyspark-shell")),
        "SPARK_LOCAL_DIRS": str(local),
    }
