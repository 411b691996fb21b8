"""Servers started by a process end with it, even if it is killed with -9."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from mledger.metastore.runtime.processes.child_processes import start_child
from tests.support.aio import HANG_S
from tests.support.bookies.processes import ROOT

FROM_A_THREAD = """
import subprocess, sys, threading
from mledger.metastore.runtime.processes.child_processes import start_child
started = []
def start():
    started.append(start_child([sys.executable, "-c", "print('ready', flush=True); input()"], stdin=-1, stdout=-1))
thread = threading.Thread(target=start)
thread.start()
thread.join()
assert started[0].stdout.readline() == b"ready\\n"
print(started[0].pid, flush=True)
sys.stdin.readline()
"""

A_ZOOKEEPER = """
import sys
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
print(ZooKeeperServer.start(sys.argv[1], sync=False).pid, flush=True)
sys.stdin.readline()
"""


def ends(process):
    """Wait until the process has ended, whether or not anything has waited for it."""
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        try:
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="the system kills no children")
@pytest.mark.parametrize("program", [FROM_A_THREAD, A_ZOOKEEPER], ids=["from-a-thread", "zookeeper"])
def test_a_child_ends_with_its_killed_parent_and_not_with_the_thread_that_started_it(program, tmp_path):
    command = [sys.executable, "-c", program, str(tmp_path / "zookeeper")]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            assert child.status() != psutil.STATUS_ZOMBIE
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            assert ends(child)
        finally:
            if not ends(child):
                child.kill()


def test_a_command_that_cannot_run_is_an_error_that_says_so(tmp_path):
    child = start_child([str(tmp_path / "nothing")], stderr=subprocess.PIPE, text=True)
    _, said = child.communicate()
    assert child.returncode != 0
    assert str(tmp_path / "nothing") in said or "No such file" in said
