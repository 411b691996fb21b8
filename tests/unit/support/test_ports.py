"""Ports of the servers of a run: no two workers, and no two servers of a worker, choose the same."""

import pytest

from mledger.metastore.runtime.network.port_ranges import SERVER_PORTS
from tests.support.ports import LATE_PORTS, free_late_port, ports_of_worker


@pytest.mark.parametrize("ports", [SERVER_PORTS, LATE_PORTS])
def test_each_worker_has_a_share_of_its_own(ports):
    shares = [ports_of_worker(f"gw{number}", 3, ports) for number in range(3)]
    taken = [port for share in shares for port in share]
    assert len(taken) == len(set(taken))
    assert set(taken) <= set(ports)


def test_a_port_for_later_is_given_out_once_and_no_server_chooses_it_now():
    given = [free_late_port() for _ in range(50)]
    assert len(set(given)) == 50
    assert not set(given) & set(SERVER_PORTS)
