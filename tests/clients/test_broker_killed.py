"""kill -9 of the broker under the load of all three clients, a bookie down every second time."""

import pytest

from tests.clients.broker_kills import kill_brokers

KILLS = 4


@pytest.mark.clients
@pytest.mark.timeout(1800)
def test_nothing_is_lost_and_nothing_acknowledged_comes_again_over_many_kills(judged_cluster, tmp_path):
    done = kill_brokers(judged_cluster, KILLS, tmp_path)
    assert (done.kills, done.with_bookie_down) == (KILLS, KILLS // 2)
    assert done.acknowledged > 0
    assert not done.findings, done.findings
