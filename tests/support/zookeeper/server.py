"""A real ZooKeeper for tests: one shared by a worker's tests, with a chroot for each, or one of a test's own."""

import itertools
import random

import kazoo.protocol.connection
import kazoo.retry
import pytest
from kazoo.client import KazooClient

from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from tests.support.aio import HANG_S

# Kazoo's thread draws jitter all the time, from a generator of its own here: when the global one changes while a
# strategy draws, hypothesis blames the strategy.
kazoo.protocol.connection.random = kazoo.retry.random = random.Random()

SHORT_SESSION_S = 4.0
"""For sessions whose end a test waits for: longer than a busy machine stops a process."""
SETTINGS = {"maxSessionTimeout": "120000"}
"""For the servers of tests: sessions that must not end outlive any stall of the machine."""


@pytest.fixture(scope="session")
def shared_zookeeper(tmp_path_factory):
    """The worker's server. A test must not stop, kill or freeze it: see `zookeeper_server`."""
    with ZooKeeperServer.start(tmp_path_factory.mktemp("zookeeper"), sync=False, settings=SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def _new_chroot(shared_zookeeper):
    client = KazooClient(shared_zookeeper.connect_string)
    client.start(timeout=HANG_S)
    numbers = itertools.count(1)

    def create() -> str:
        chroot = f"/test-{next(numbers)}"
        client.create(chroot)
        return chroot

    yield create
    client.stop()
    client.close()


@pytest.fixture
def metadata_url(shared_zookeeper, _new_chroot):
    """The URL of an empty chroot on the worker's server."""
    return shared_zookeeper.url + _new_chroot()


@pytest.fixture
def zookeeper_server(tmp_path):
    """A server of this test's own, for tests that stop, kill or freeze it."""
    with ZooKeeperServer.start(tmp_path / "zookeeper", sync=False, settings=SETTINGS) as server:
        yield server
