"""What reads Iceberg's tables beside pyiceberg: a Spark that Iceberg supports, and a DuckDB with its extension."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.support.java.driver import TARGET
from tests.support.snapshots.other_spark import QUICK, OtherSpark, fetch_packages

JARS = ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.xerial:sqlite-jdbc:3.51.1.0")
SPARK = OtherSpark("iceberg", ("pyspark==4.1.4",), JARS)
EXTENSIONS = ("avro", "iceberg")
"""DuckDB's own, signed by it, in packages of PyPI; the second needs the first."""
DUCKDB = ("duckdb==1.5.5", *(f"duckdb-extension-{name}==1.5.5" for name in EXTENSIONS))


@pytest.fixture(scope="module")
def iceberg_environment(tmp_path_factory):
    """The environment of processes that use Iceberg's Spark."""
    return SPARK.environment(tmp_path_factory.mktemp("spark-local"), QUICK)


@pytest.fixture(scope="module")
def duckdb_environment():
    """The environment of processes that use this DuckDB, with the paths of its extensions in the order to load."""
    packages = build_duckdb()
    found = {path.stem: str(path) for path in packages.glob("duckdb_extension_*/extensions/*/*.duckdb_extension")}
    extensions = os.pathsep.join(found[name] for name in EXTENSIONS)
    return os.environ | {"PYTHONPATH": str(packages), "DUCKDB_EXTENSIONS": extensions}


def build_duckdb() -> Path:
    """The directory of its packages. Runs pip if it does not exist yet."""
    directory = TARGET / "duckdb"
    directory.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(DUCKDB)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = directory / "built"
        if not stamp.exists() or stamp.read_text() != wanted:
            fetch_packages(directory / "packages", DUCKDB)
            stamp.write_text(wanted)
    return directory / "packages"
