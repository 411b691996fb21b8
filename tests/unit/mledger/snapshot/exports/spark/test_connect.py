"""What messages show of a Spark Connect server's URL."""

import pytest

from mledger.snapshot.exports.spark.connect import without_token


@pytest.mark.parametrize(
    "url", ["sc://spark:15002", "sc://spark:15002/;token=secret", "sc://spark:15002/;use_ssl=true;token=secret"]
)
def test_a_url_is_shown_without_its_token(url):
    assert without_token(url) == "sc://spark:15002"
