"""A cluster that `mledger up` started, shared by the tests of a file; each test has topics of its own."""

import itertools

import pytest

from tests.support.cli import answer, ok

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster_directory(tmp_path_factory):
    """The directory of a running cluster."""
    directory = tmp_path_factory.mktemp("cluster")
    ok("up", "--dir", directory)
    yield directory
    ok("down", "--dir", directory)


@pytest.fixture(scope="module")
def url(cluster_directory):
    """The metadata URL of a running cluster."""
    return answer("status", "--dir", cluster_directory)["metadata"]


@pytest.fixture
def topic():
    """The name of a topic that nobody else uses."""
    return f"persistent://public/default/topic-{next(_numbers)}"
