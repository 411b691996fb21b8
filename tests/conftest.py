"""Fixtures that every test can ask for."""

from tests.support.bookies import bookies, cluster_url
from tests.support.no_skips import pytest_runtest_makereport
from tests.support.stores import any_metadata_url
from tests.support.zookeeper import _new_chroot, metadata_url, shared_zookeeper, zookeeper_server

__all__ = [
    "_new_chroot",
    "any_metadata_url",
    "bookies",
    "cluster_url",
    "metadata_url",
    "pytest_runtest_makereport",
    "shared_zookeeper",
    "zookeeper_server",
]
