"""A cluster of four bookies for a module's tests that do not stop the bookies."""

import pytest

from tests.support.bookies.processes import shared_cluster


@pytest.fixture(scope="module")
def cluster(shared_zookeeper, _new_chroot, tmp_path_factory):
    """Four bookies that run throughout. Tests must not stop them."""
    url = shared_zookeeper.url + _new_chroot()
    with shared_cluster(url, tmp_path_factory.mktemp("cluster")) as processes:
        yield processes
