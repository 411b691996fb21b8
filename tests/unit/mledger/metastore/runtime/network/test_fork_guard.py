"""What a forked process does not keep of its parent's files."""

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest

PARENT = """
import fcntl, os, signal, socket, sys
from mledger.metastore.runtime.network.fork_guard import close_held, hold, hold_listener
from mledger.metastore.runtime.network.listening_port import bind_listener

locked = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(locked, fcntl.LOCK_EX)
hold(locked)
listener = bind_listener(sys.argv[2], 0)
port = listener.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
connection, _ = listener.accept()
path = sys.argv[1] + "/socket"
by_path = socket.socket(socket.AF_UNIX)
by_path.bind(path)
by_path.listen()
hold_listener(by_path)
other = socket.create_server(("127.0.0.1", 0))
freed = os.open(os.devnull, os.O_RDONLY)
hold(freed)
close_held(freed)
reused = os.open(sys.argv[1], os.O_RDONLY)
assert reused == freed
child = os.fork()
if child == 0:
    same = [os.readlink(f"/proc/self/fd/{file}") == os.readlink(f"/proc/{os.getppid()}/fd/{file}")
            for file in (locked, listener.fileno(), connection.fileno(), by_path.fileno())]
    kept = [os.readlink(f"/proc/self/fd/{file}") == os.readlink(f"/proc/{os.getppid()}/fd/{file}")
            for file in (client.fileno(), other.fileno(), reused)]
    listener.close(); connection.close(); os.close(locked)
    print(os.getpid(), port, any(same), all(kept), flush=True)
signal.pause()
"""


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def forked(request, tmp_path):
    """A parent that holds files, its port, and what its child says of them."""
    command = [sys.executable, "-c", PARENT, str(tmp_path), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child, port, *said = parent.stdout.readline().split()
        yield parent, int(port), said
        parent.kill()
        os.kill(int(child), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_forked_process_has_its_parent_s_other_files_only(forked):
    _, _, said = forked
    assert said == ["False", "True"]


def test_the_parent_keeps_them_though_the_child_closed_its_own(forked, tmp_path):
    _, port, _ = forked
    locked = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(locked)
    socket.create_connection(("127.0.0.1", port)).close()


def test_lock_and_port_are_free_once_the_parent_is_killed(forked, tmp_path):
    parent, port, _ = forked
    client = socket.create_connection(("127.0.0.1", port))
    parent.kill()
    parent.wait()
    locked = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(locked)
    with client, contextlib.suppress(ConnectionResetError):  # it had not been accepted
        assert client.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
