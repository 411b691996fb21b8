"""Fixtures that every test can use."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.bookies.processes import bookies, cluster_url
from tests.support.java import class_archives
from tests.support.metadata.rocksdb import metadata_process, rocksdb_thread, rocksdb_url
from tests.support.metadata.stores import any_metadata_url, own_server
from tests.support.ports import keep_to_own_ports
from tests.support.runs import directories
from tests.support.runs.garbage import pytest_collection
from tests.support.runs.no_skips import pytest_runtest_makereport
from tests.support.runs.schedule import LongestFirst
from tests.support.runs.slow_tests import pytest_addoption, pytest_collection_modifyitems
from tests.support.zookeeper.ensemble import patient_ensemble, zookeeper_ensemble
from tests.support.zookeeper.server import _new_chroot, metadata_url, shared_zookeeper, zookeeper_server

__all__ = [
    "_new_chroot",
    "any_metadata_url",
    "bookies",
    "cluster_url",
    "metadata_process",
    "metadata_url",
    "own_server",
    "patient_ensemble",
    "pytest_addoption",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_runtest_makereport",
    "rocksdb_thread",
    "rocksdb_url",
    "shared_zookeeper",
    "zookeeper_ensemble",
    "zookeeper_server",
]

# Tests must not touch a cluster that the user has configured.
for variable in ("MLEDGER_METADATA", "MLEDGER_CONTEXT", "MLEDGER_TIMEOUT"):
    os.environ.pop(variable, None)
os.environ["MLEDGER_CONTEXTS"] = os.devnull

# Every run uses the same examples, so that a failure here can be reproduced anywhere.
settings.register_profile(
    "mledger", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("mledger")


def pytest_configure(config):
    """Hooks of a conftest pass over what belongs to the session."""
    config.pluginmanager.register(directories)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The order in which workers take the tests."""
    return LongestFirst(config, log)


keep_to_own_ports()
class_archives.use_zookeepers()
