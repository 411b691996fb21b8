"""A Spark that delta-spark supports, beside the one that the project tests."""

import pytest

from tests.support.snapshots.other_spark import QUICK, OtherSpark

PACKAGES = ("pyspark==4.2.0", "delta-spark==4.4.0", "importlib_metadata==8.7.1", "zipp==3.23.0")
JARS = ("io.delta:delta-spark_4.2_2.13:4.4.0",)
SPARK = OtherSpark("delta", PACKAGES, JARS)


@pytest.fixture(scope="module")
def delta_environment(tmp_path_factory):
    """The environment of processes that use delta-spark and its Spark."""
    settings = {**QUICK, "spark.databricks.delta.snapshotPartitions": "1"}
    return SPARK.environment(tmp_path_factory.mktemp("spark-local"), settings)
