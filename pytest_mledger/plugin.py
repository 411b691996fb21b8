"""What pytest loads at every start, used or not: so only the fixtures are here, what they need is imported for them."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_mledger.cluster import RunningCluster

BOOKIES = "mledger_bookies"
DEFAULT_BOOKIES = 3
TENANT = "test"

_namespaces = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting of the configuration file."""
    help_text = f"how many bookies the fixture mledger_cluster starts (default: {DEFAULT_BOOKIES})"
    parser.addini(BOOKIES, help_text, default=str(DEFAULT_BOOKIES))


@pytest.fixture(scope="session")
def mledger_session_cluster(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """The session's cluster, under pytest-xdist the worker's; for fixtures that live longer than a test."""
    if sys.platform == "win32":
        pytest.fail("the fixtures of mledger start their servers by fork, which this system does not have")
    from pytest_mledger.cluster import RunningCluster

    with RunningCluster.start(tmp_path_factory.mktemp("mledger-cluster"), bookie_count(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def mledger_cluster(mledger_session_cluster: RunningCluster) -> RunningCluster:
    """A running cluster; bookies that an earlier test killed, stopped or froze serve again."""
    mledger_session_cluster.mend()
    return mledger_session_cluster


@pytest.fixture
def mledger_url(mledger_cluster: RunningCluster) -> str:
    """The metadata URL of the running cluster, for `mledger.open_cluster`."""
    return mledger_cluster.url


@pytest.fixture
def mledger_namespace(request: pytest.FixtureRequest) -> str:
    """A namespace, `tenant/namespace`, that no other test has: `persistent://{mledger_namespace}/orders` is new."""
    return f"{TENANT}/{namespace_name(request.node.name, next(_namespaces))}"


def namespace_name(test: str, number: int) -> str:
    """The namespace of the session's test `number`, readable and of letters that Pulsar allows."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', test)[:60].strip('-')}-{number}"


def bookie_count(config: pytest.Config) -> int:
    """How many bookies the configuration file asks for; UsageError when that is not a number from 1 to 16."""
    said = str(config.getini(BOOKIES))
    if not said.isascii() or not said.isdigit() or not 1 <= int(said) <= 16:
        raise pytest.UsageError(f"{BOOKIES} = {said!r} in {config.inipath}: write a number from 1 to 16")
    return int(said)
