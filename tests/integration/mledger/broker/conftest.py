"""One RocksDB metadata store with a bookie for all tests of the broker in a worker. Tests use different topics."""

import itertools

import pytest

from tests.support.bookies.processes import BookieProcesses, initialize_cluster

_topics = itertools.count(1)


@pytest.fixture(scope="session")
def broker_bookie(rocksdb_thread, tmp_path_factory):
    """The bookie, which the tests that share it must not kill."""
    directory = tmp_path_factory.mktemp("broker")
    server = rocksdb_thread.serve(directory / "metadata")
    initialize_cluster(server.url)
    processes = BookieProcesses(server.url, directory / "bookies")
    processes.start(1)
    yield processes
    processes.close()
    rocksdb_thread.stop(server)


@pytest.fixture
def broker_url(broker_bookie):
    """The URL of a cluster with one bookie."""
    return broker_bookie.metadata_url


@pytest.fixture
def topic():
    """The name of a topic that no other test has."""
    return f"persistent://public/default/broker-{next(_topics)}"
