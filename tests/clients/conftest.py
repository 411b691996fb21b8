"""The cluster that clients judge."""

import pytest

from tests.clients.builds import TOOLS, missing_tools
from tests.clients.judged_broker import our_cluster


@pytest.fixture(scope="session")
def client_tools():
    """The tools of every client. If one is missing the tests are skipped by name."""
    missing = {tool for client in TOOLS for tool in missing_tools(client)}
    if missing:
        pytest.skip(f"the official clients need {', '.join(sorted(missing))}")


@pytest.fixture(scope="module")
def judged_cluster(client_tools, tmp_path_factory):
    """ZooKeeper, four bookies and our broker."""
    with our_cluster(tmp_path_factory.mktemp("judged")) as cluster:
        yield cluster
