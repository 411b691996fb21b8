"""The listening socket of a server."""

import pytest

from mledger.metastore.runtime.network.listening_port import PortUnavailable, bind_listener


def test_a_port_in_use_is_named():
    with bind_listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(PortUnavailable, match=f"127.0.0.1 port {port}"):
            bind_listener("127.0.0.1", port)
