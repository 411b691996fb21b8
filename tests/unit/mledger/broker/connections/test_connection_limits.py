"""Which connections are one too many."""

import pytest

from mledger.broker.connections.connection_limits import plan_admission
from mledger.broker.settings import BrokerSettings


@pytest.mark.parametrize(
    ("most", "of_host", "hosts", "refusal"),
    [
        (0, 0, ["a"] * 1000, ""),
        (2, 0, ["b"], ""),
        (2, 0, ["b", "c"], "brokerMaxConnections"),
        (0, 2, ["a", "b", "b"], ""),
        (0, 2, ["a", "a"], "on a: 2"),
        (9, 2, ["a", "b", "a"], "brokerMaxConnectionsPerIp"),
        (2, 9, ["a", "a"], "brokerMaxConnections"),
    ],
)
def test_limits_hold_for_all_and_for_one_address(most, of_host, hosts, refusal):
    settings = BrokerSettings(max_connections=most, max_connections_per_host=of_host)
    why = plan_admission(settings, "a", hosts)
    assert bool(why) == bool(refusal)
    assert refusal in why


def test_one_of_the_last_files_of_the_process_is_one_too_many():
    assert "open files" in plan_admission(BrokerSettings(), "a", [], last_files=True)
