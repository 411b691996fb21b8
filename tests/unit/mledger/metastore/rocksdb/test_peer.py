"""Who is at the other end of a socket."""

import os
import socket
from pathlib import Path

import pytest

from mledger.metastore.rocksdb.peer import is_gone, process_of


@pytest.fixture
def called():
    """Gives this process another name, as the system knows it."""
    comm = Path("/proc/self/comm")
    before = comm.read_bytes()
    yield comm.write_bytes
    comm.write_bytes(before)


@pytest.mark.parametrize("name", ["müller-büro-äöü".encode()[:15], b"a) Z 1 (b", b"\xff\xfe"])
def test_a_process_is_known_whatever_its_name(called, name):
    """The system cuts a name to 15 bytes, maybe inside a character."""
    called(name)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = process_of(ours)
    assert found is not None
    assert found.pid == os.getpid()
    assert not is_gone(found)
