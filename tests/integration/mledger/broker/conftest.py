"""One RocksDB metadata store with a bookie for all tests of the broker in a worker. Tests use different topics."""

import itertools
from contextlib import contextmanager

import pytest

from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.metadata.namespaces import create_namespace_at

_topics = itertools.count(1)


@contextmanager
def one_bookie(rocksdb_thread, directory):
    """A metadata store with a bookie."""
    server = rocksdb_thread.serve(directory / "metadata")
    initialize_cluster(server.url)
    processes = BookieProcesses(server.url, directory / "bookies")
    processes.start(1)
    yield processes
    processes.close()
    rocksdb_thread.stop(server)


@pytest.fixture(scope="session")
def broker_bookie(rocksdb_thread, tmp_path_factory):
    """The bookie, which the tests that share it must not kill."""
    with one_bookie(rocksdb_thread, tmp_path_factory.mktemp("broker")) as processes:
        yield processes


@pytest.fixture
def unshared_url(rocksdb_thread, tmp_path):
    """The URL of a cluster that no other test uses: for the recorded events, which name `public/kept`."""
    with one_bookie(rocksdb_thread, tmp_path) as processes:
        yield processes.metadata_url


@pytest.fixture
def broker_url(broker_bookie):
    """The URL of a cluster with one bookie."""
    return broker_bookie.metadata_url


@pytest.fixture
def topic():
    """The name of a topic that no other test has."""
    return f"persistent://public/default/broker-{next(_topics)}"


@pytest.fixture
def own_topic(broker_url, topic):
    """A topic in a namespace of its own."""
    namespace = create_namespace_at(broker_url, f"public/{topic.rsplit('/', 1)[1]}")
    return f"persistent://{namespace}/t"
