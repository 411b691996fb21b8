"""The module that pytest loads at every start: it has only the fixtures, which import the rest when they are used."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from mledger import Cluster, ManagedLedger
    from pytest_mledger.clusters.cluster import RunningCluster
    from pytest_mledger.clusters.pulsar import AsyncPulsar, RunningPulsar, SyncPulsar
    from pytest_mledger.clusters.pulsar_cluster import PulsarOnBookies
    from pytest_mledger.clusters.session_clusters import SessionClusters

TENANT = "test"
MARKER_HELP = (
    "mledger(bookies=3, metadata='memory' or 'zookeeper', settings={key: value}): "
    "the cluster that the fixtures of mledger return; settings are keys of Pulsar's broker.conf"
)

_namespaces = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, on the command line and in the configuration file."""
    group = parser.getgroup("mledger")
    for name, metavar, what in (
        ("bookies", "NUMBER", "how many bookies the fixture mledger_cluster starts (1 to 16; default: 3)"),
        ("metadata", "KIND", "its metadata store: memory, or zookeeper for a real one (default: memory)"),
    ):
        group.addoption(f"--mledger-{name}", dest=f"mledger_{name}", metavar=metavar, default=None, help=what)
        parser.addini(f"mledger_{name}", what, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER_HELP)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reject invalid markers before any test runs; in an xdist worker the fixtures of the test reject them.

    Errors in a worker's collection are not shown.
    """
    if hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("mledger") is not None:
            from pytest_mledger.clusters.cluster_options import ClusterOptions, marked_options

            marked_options(item, ClusterOptions())


@pytest.fixture(scope="session")
def mledger_clusters(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SessionClusters]:
    """The clusters of the session, or of the pytest-xdist worker: `get(bookies=1)` takes the marker's arguments."""
    if sys.platform == "win32":
        pytest.fail("the fixtures of mledger start their servers with fork, which this system does not have")
    from pytest_mledger.clusters.cluster_options import read_defaults
    from pytest_mledger.clusters.session_clusters import SessionClusters

    with SessionClusters(lambda: tmp_path_factory.mktemp("mledger-cluster"), read_defaults(pytestconfig)) as clusters:
        yield clusters


@pytest.fixture(scope="session")
def mledger_session_cluster(mledger_clusters: SessionClusters) -> RunningCluster:
    """The cluster of tests without a marker, for fixtures with a wider scope than one test."""
    return mledger_clusters.get()


@pytest.fixture
def mledger_cluster(request: pytest.FixtureRequest, mledger_clusters: SessionClusters) -> RunningCluster:
    """A running cluster as the test's marker says; servers that an earlier test killed or froze run again."""
    from pytest_mledger.clusters.cluster_options import marked_options

    node = request.node
    cluster = mledger_clusters.cluster(marked_options(node, mledger_clusters.defaults), node.nodeid)
    cluster.mend()
    return cluster


@pytest.fixture
def mledger_url(mledger_cluster: RunningCluster) -> str:
    """The metadata URL of the running cluster, for `mledger.open_cluster`."""
    return mledger_cluster.url


@pytest.fixture
def mledger_namespace(request: pytest.FixtureRequest) -> str:
    """A namespace, `tenant/namespace`, for this test only: `persistent://{mledger_namespace}/orders` is new."""
    return f"{TENANT}/{namespace_name(request.node.name, next(_namespaces))}"


@pytest.fixture
def mledger_client(request: pytest.FixtureRequest) -> Cluster:
    """The cluster, opened in the loop of a test that pytest-asyncio or anyio runs, and closed afterwards."""
    from pytest_mledger.async_fixtures import CLIENT, value_in_loop

    return cast("Cluster", value_in_loop(request, CLIENT))


@pytest.fixture
def mledger_topic(request: pytest.FixtureRequest) -> ManagedLedger:
    """A new topic for this test, opened with `mledger_client` and closed afterwards."""
    from pytest_mledger.async_fixtures import TOPIC, value_in_loop

    return cast("ManagedLedger", value_in_loop(request, TOPIC))


@pytest.fixture(scope="session")
def pulsar_settings() -> Mapping[str, str | int | float | bool]:
    """Keys of broker.conf with which `pulsar` starts; to have some, define your own for all tests."""
    return {}


@pytest.fixture(scope="session")
def pulsar_session(
    tmp_path_factory: pytest.TempPathFactory, pulsar_settings: Mapping[str, str | int | float | bool]
) -> Iterator[RunningPulsar]:
    """The broker of the session, or of the pytest-xdist worker, for fixtures with a wider scope than one test."""
    if sys.platform == "win32":
        pytest.fail("the fixtures of mledger start their servers with fork, which this system does not have")
    from pytest_mledger.clusters.pulsar import RunningPulsar

    with RunningPulsar.start(tmp_path_factory.mktemp("mledger-pulsar"), pulsar_settings) as running:
        yield running


@pytest.fixture
def _mledger_pulsar_namespace(
    pulsar_session: RunningPulsar,
    mledger_namespace: str,
    pulsar_settings: Mapping[str, str | int | float | bool],
) -> str:
    """The namespace of this test at the broker, which runs: created once, though a test has `pulsar` in both forms."""
    pulsar_session.check_settings(pulsar_settings)
    pulsar_session.mend()
    pulsar_session.create_namespace(mledger_namespace)
    return mledger_namespace


@pytest.fixture
def pulsar(pulsar_session: RunningPulsar, _mledger_pulsar_namespace: str) -> SyncPulsar:
    """A running broker for Pulsar's clients, and a namespace for this test; an earlier test's kill does not matter."""
    from pytest_mledger.clusters.pulsar import SyncPulsar

    return SyncPulsar(pulsar_session, _mledger_pulsar_namespace)


@pytest.fixture
def async_pulsar(pulsar_session: RunningPulsar, _mledger_pulsar_namespace: str) -> AsyncPulsar:
    """As `pulsar`, with methods to await."""
    from pytest_mledger.clusters.pulsar import AsyncPulsar

    return AsyncPulsar(pulsar_session, _mledger_pulsar_namespace)


@pytest.fixture
def pulsar_cluster(mledger_cluster: RunningCluster, mledger_namespace: str) -> PulsarOnBookies:
    """As `pulsar`, on the bookies of `mledger_cluster`, which the test can kill too."""
    from pytest_mledger.clusters.pulsar_cluster import PulsarOnBookies

    return PulsarOnBookies(mledger_cluster, mledger_namespace)


def namespace_name(test: str, number: int) -> str:
    """The namespace of the session's test `number`: readable, and with only characters that Pulsar allows."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', test)[:60].strip('-')}-{number}"
