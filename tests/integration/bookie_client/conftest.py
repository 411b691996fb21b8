"""A cluster of four bookies for a module's tests that leave the bookies alone."""

import pytest

from tests.support.bookies import BookieProcesses, initialize_cluster


@pytest.fixture(scope="module")
def cluster(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Four bookies that run throughout; not to be stopped."""
    url = shared_zookeeper.url + _new_chroot()
    initialize_cluster(url)
    processes = BookieProcesses(url, tmp_path_factory.mktemp("cluster"))
    try:
        processes.start(4)
        yield processes
    finally:
        processes.close()
