"""Which Spark a delta-spark supports, according to its package."""

import pytest

from mledger.snapshot.exports.session import pyspark_wanted, satisfies

REQUIRES = ("pyspark<=4.2.0,>=4.0.1", "importlib_metadata<=8.7.1,>=1.0.0", "pyspark-client; extra == 'connect'")


@pytest.mark.parametrize(
    ("requirements", "wanted"),
    [
        (REQUIRES, "<=4.2.0,>=4.0.1"),
        (("pyspark (>=4.0); python_version > '3'",), ">=4.0"),
        (("pyspark",), ""),
        ((), ""),
    ],
)
def test_the_spark_that_a_package_requires(requirements, wanted):
    assert pyspark_wanted(requirements) == wanted


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("4.2.0", "<=4.2.0,>=4.0.1", True),
        ("4.3.0", "<=4.2.0,>=4.0.1", False),
        ("4.0.0", "<=4.2.0,>=4.0.1", False),
        ("4.2", "==4.2.0", True),
        ("4.10.1", "<4.9", False),
        ("4.3.0.dev1", ">=4.3", True),
        ("5.0", "!=5.0.0", False),
        ("9", "", True),
    ],
)
def test_a_version_meets_the_requirement(version, wanted, fits):
    assert satisfies(version, wanted) is fits
