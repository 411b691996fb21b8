"""The ports that servers choose if none is given."""

import pytest

from mledger.metastore.errors import MetadataError
from mledger.metastore.runtime.network.port_ranges import PORTS_VARIABLE, SERVER_PORTS, ports_to_try, server_ports
from mledger.metastore.zookeeper.launcher import free_port


def test_by_default_ports_are_below_those_of_outgoing_connections(monkeypatch):
    monkeypatch.delenv(PORTS_VARIABLE, raising=False)
    assert server_ports() == SERVER_PORTS
    assert set(ports_to_try()) <= set(SERVER_PORTS)


def test_the_variable_narrows_them(monkeypatch):
    monkeypatch.setenv(PORTS_VARIABLE, "20000-20004")
    assert sorted(ports_to_try()) == [20000, 20001, 20002, 20003, 20004]


@pytest.mark.parametrize("text", ["20000", "20004-20000", "0-5", "1-65536", "a-b", "-"])
def test_an_invalid_range_of_ports_is_refused(monkeypatch, text):
    monkeypatch.setenv(PORTS_VARIABLE, text)
    with pytest.raises(MetadataError, match="FIRST-LAST"):
        server_ports()


def test_a_free_port_is_not_given_out_twice_while_there_are_others(monkeypatch):
    first = SERVER_PORTS.stop + 100
    monkeypatch.setenv(PORTS_VARIABLE, f"{first}-{first + 9}")
    assert len({free_port() for _ in range(5)}) == 5
    assert free_port() in range(first, first + 10)
