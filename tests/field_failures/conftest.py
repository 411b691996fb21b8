"""One ZooKeeper chroot with four bookies for the tests that leave them running; others start bookies of their own."""

import itertools

import pytest

from tests.support.bookies.processes import shared_cluster

_topics = itertools.count(1)


@pytest.fixture(scope="session")
def field_bookies(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Four bookies, which the tests that share them must not kill."""
    url = shared_zookeeper.url + _new_chroot()
    with shared_cluster(url, tmp_path_factory.mktemp("field-bookies")) as processes:
        yield processes


@pytest.fixture
def field_url(field_bookies):
    """The URL of that cluster."""
    return field_bookies.metadata_url


@pytest.fixture
def topic():
    """The name of a topic that no other test has."""
    return f"persistent://field/failures/topic-{next(_topics)}"
