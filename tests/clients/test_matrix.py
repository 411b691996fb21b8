"""The official clients, unmodified, see of our broker what Pulsar promises them: each pair of what they can do."""

import pytest

from tests.clients.drivers import ClientDrivers
from tests.clients.matrix import judge
from tests.clients.scenario import CLIENTS, DISTURBANCES, scenarios

SCENARIOS = sorted(
    (each for client in CLIENTS for each in scenarios(client)),
    key=lambda each: DISTURBANCES.index(each.disturbance),
)
pytestmark = [pytest.mark.clients, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def client_drivers(tmp_path_factory):
    """They start once for all disturbances."""
    with ClientDrivers(tmp_path_factory.mktemp("drivers")) as drivers:
        yield drivers


@pytest.fixture(scope="module")
def judgements(judged_cluster, client_drivers, tmp_path_factory):
    """Of each scenario; those with the same disturbance run together when the first of them is asked for."""
    found = {}

    def judgement(scenario):
        if scenario not in found:
            disturbance = scenario.disturbance
            together = [each for each in SCENARIOS if each.disturbance == disturbance]
            directory = tmp_path_factory.mktemp("runs")
            found.update(judge(judged_cluster, client_drivers, together, disturbance, directory))
        return found[scenario]

    return judgement


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_client_sees_what_is_promised(scenario, judgements):
    assert not judgements(scenario).findings, judgements(scenario)
