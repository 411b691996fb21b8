"""`mledger snapshot export` as an operator sees it."""

import socket

from tests.support.cli import mledger


def test_the_timeout_ends_an_export_that_waits_for_zookeeper(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"zk://127.0.0.1:{silent.getsockname()[1]}"
        done = mledger("--timeout", "0.2", "snapshot", "export", tmp_path / "kept", url=url)
    assert (done.code, done.err) == (5, "mledger: not done within --timeout, 0.2 s\n")
