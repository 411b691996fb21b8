"""The official clients, unmodified, see of our broker what Pulsar promises them: each pair of what they can do."""

import pytest

from tests.clients.matrix import judge
from tests.clients.scenario import CLIENTS, DISTURBANCES, served

SCENARIOS = sorted(
    (each for client in CLIENTS for each in served(client)),
    key=lambda each: DISTURBANCES.index(each.disturbance),
)
pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def judgements(judged_cluster, tmp_path_factory):
    """Of each scenario; those with the same disturbance run together when the first of them is asked for."""
    found = {}

    def judgement(scenario):
        if scenario not in found:
            disturbance = scenario.disturbance
            together = [each for each in SCENARIOS if each.disturbance == disturbance]
            found.update(judge(judged_cluster, together, disturbance, tmp_path_factory.mktemp("runs")))
        return found[scenario]

    return judgement


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.name)
def test_a_client_sees_what_is_promised(scenario, judgements):
    assert not judgements(scenario).findings, judgements(scenario)
