"""The listening socket of a server."""

import socket

import pytest

from mledger.metastore.runtime.network.listening_port import PortUnavailable, bind_listener, refuse_waiting


def test_a_port_in_use_is_named():
    with bind_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortUnavailable, match=f"127.0.0.1 port {port}"):
            bind_listener("127.0.0.1", port)


def test_connections_that_nobody_has_accepted_can_be_closed_and_later_ones_are_not():
    with bind_listener("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as early:
            assert refuse_waiting(listener) == 1
            assert early.recv(1) == b""
        with socket.create_connection(address) as late:
            accepted, peer = listener.accept()
            accepted.close()
            assert peer == late.getsockname()
            assert refuse_waiting(listener) == 0
