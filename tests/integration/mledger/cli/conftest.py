"""A cluster started by `mledger up`, shared by the tests of a file. Each test has topics of its own."""

import itertools

import pytest

from tests.support.aio import run
from tests.support.cli import answer, ok
from tests.support.topics import write_topic

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster_directory(tmp_path_factory):
    """The directory of a running cluster."""
    directory = tmp_path_factory.mktemp("cluster")
    ok("up", "--no-broker", "--dir", directory)
    yield directory
    ok("down", "--dir", directory)


@pytest.fixture(scope="module")
def url(cluster_directory):
    """The metadata URL of a running cluster."""
    return answer("status", "--dir", cluster_directory)["metadata"]


@pytest.fixture
def topic():
    """The name of a topic that no other test uses."""
    return f"persistent://public/default/topic-{next(_numbers)}"


@pytest.fixture
def written(url, topic):
    """The ids of the ledgers of a topic: three of them, with a cursor `one`, and no owner."""
    run(write_topic(url, topic))
    return [each["ledger_id"] for each in answer("topics", "describe", topic, url=url)["ledgers"]]


@pytest.fixture(autouse=True)
def current_directory(tmp_path_factory, monkeypatch):
    """A directory of the test's own: commands leave their undo files in the current one."""
    directory = tmp_path_factory.mktemp("current")
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def undo_file(tmp_path):
    """The path of the undo file."""
    return tmp_path / "undo.json"
