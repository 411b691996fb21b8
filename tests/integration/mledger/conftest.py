"""One ZooKeeper chroot with four bookies for all topic tests of a worker. Tests use different topics."""

import itertools

import pytest

from tests.support.bookies.processes import shared_cluster

_topics = itertools.count(1)


@pytest.fixture(scope="session")
def topic_bookies(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Four bookies, which the tests that share them must not kill."""
    url = shared_zookeeper.url + _new_chroot()
    with shared_cluster(url, tmp_path_factory.mktemp("topic-bookies")) as processes:
        yield processes


@pytest.fixture
def topic_url(topic_bookies):
    """The URL of a cluster with four bookies."""
    return topic_bookies.metadata_url


@pytest.fixture
def topic():
    """The name of a topic that no other test has."""
    return f"persistent://tests/ns/topic-{next(_topics)}"
