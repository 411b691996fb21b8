"""A Spark beside the one that the project tests, which a format does not support: packages and jars in one directory.

Its environment runs `mledger` on it. Its packages come before those of the interpreter, which has the rest.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.cli import ROOT
from tests.support.java.driver import MAVEN_TIMEOUT_S, QUICK_JAVA, TARGET, missing_tools

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
PIP_TIMEOUT_S = 900
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>mledger</groupId><artifactId>{}</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class OtherSpark:
    """The packages and jars of a format, each with its version."""

    def __init__(self, name: str, packages: Sequence[str], jars: Sequence[str]) -> None:
        self.name = name
        self.packages = packages
        self.jars = jars

    def build(self) -> Path:
        """The directory with `packages` and `jars`. Runs pip and Maven if it does not exist yet."""
        directory = TARGET / self.name
        directory.mkdir(parents=True, exist_ok=True)
        wanted = "\n".join((*self.packages, *self.jars))
        with open(directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stamp = directory / "built"
            if not stamp.exists() or stamp.read_text() != wanted:
                self._fetch_jars(directory)
                fetch_packages(directory / "packages", self.packages)
                stamp.write_text(wanted)
        return directory

    def environment(self, local: Path, settings: Mapping[str, str]) -> dict[str, str]:
        """The environment of processes that use this Spark, which writes to `local`. Skips the test without Java."""
        if missing := missing_tools():
            pytest.skip(f"Spark's {self.name} needs {', '.join(missing)}: install maven and a Java of 17 or later")
        built = self.build()
        jars = ",".join(map(str, sorted((built / "jars").glob("*.jar"))))
        told = [word for name, value in settings.items() for word in ("--conf", f'"{name}={value}"')]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join((str(built / "packages"), str(ROOT))),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": " ".join(("--jars", jars, "--driver-memory", "1g", *told, "pyspark-shell")),
            "SPARK_LOCAL_DIRS": str(local),
        }

    def _fetch_jars(self, directory: Path) -> None:
        named = "".join(DEPENDENCY.format(*each.split(":")) for each in self.jars)
        (directory / "pom.xml").write_text(POM.format(self.name, named))
        # Spark ships all of their dependencies except those of the format's own groups.
        groups = ",".join(sorted({each.partition(":")[0] for each in self.jars}))
        jars = [f"-DincludeGroupIds={groups}", f"-DoutputDirectory={directory / 'jars'}"]
        _run("mvn", "-q", "-B", f"{PLUGIN}:copy-dependencies", *jars, at=directory, timeout=MAVEN_TIMEOUT_S)


QUICK: Mapping[str, str] = {
    "spark.driver.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings that make small jobs quick."""


def fetch_packages(to: Path, packages: Sequence[str]) -> None:
    """Have pip install these packages, without what they depend on, into a directory."""
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(to))
    _run(sys.executable, *pip, *packages, at=to.parent, timeout=PIP_TIMEOUT_S)


def _run(*command: str, at: Path, timeout: float) -> None:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {(done.stdout + done.stderr)[-4000:]}"
