"""The ports of the servers of one xdist worker."""

from pytest_mledger.servers.worker_ports import plan_ports


def of_worker(name):
    return {"PYTEST_XDIST_WORKER": name, "PYTEST_XDIST_WORKER_COUNT": "2"}


def test_workers_share_no_port():
    assert plan_ports(of_worker("gw0")) == {"MLEDGER_SERVER_PORTS": "15000-23499"}
    assert plan_ports(of_worker("gw1")) == {"MLEDGER_SERVER_PORTS": "23500-31999"}


def test_without_workers_and_with_a_range_of_the_user_s_nothing_is_set():
    assert plan_ports({}) == {}
    assert plan_ports({**of_worker("gw0"), "MLEDGER_SERVER_PORTS": "1-2"}) == {}
