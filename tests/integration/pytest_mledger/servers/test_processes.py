"""The servers of a test's process: beside processes that it forks, in several threads, and frozen by anyone."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from pytest_mledger.servers.processes import Servers
from tests.support.aio import HANG_S
from tests.support.environments.plugin_runs import UserProject, end_by_themselves, processes_in

FORKED_WORKER = """
import os, signal, sys
from pathlib import Path
from pytest_mledger.servers.processes import Servers

servers = Servers(Path(sys.argv[1]))
worker = os.fork()
if worker == 0:
    signal.pause()
{before_the_end}
servers.close()
print(servers._process.returncode)
os.kill(worker, signal.SIGKILL)
"""

STAND_STILL = """
import os, time

def test_stand_still(pulsar):
    worker = os.fork()
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""

FORKED_TEST = """
import os, pytest
from pytest_mledger.servers.processes import ClusterFailed

@pytest.fixture(scope="session")
def in_child(pulsar_session, mledger_session_cluster):
    def run(test):
        child = os.fork()
        if child == 0:
            try:
                test()
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return run

def test_the_child_uses_it(pulsar, in_child):
    assert in_child(lambda: pulsar._running.create_namespace("test/child")) == 0
    assert in_child(lambda: pulsar.running or os._exit(2)) == 0

def test_the_child_cannot_end_it(pulsar, in_child):
    def kill():
        with pytest.raises(ClusterFailed, match="was forked from process"):
            pulsar.kill()
    assert in_child(kill) == 0
    assert pulsar.running

def test_the_child_ends_the_session(pulsar, mledger_cluster, in_child, request):
    assert in_child(lambda: request.session._setupstate.teardown_exact(None)) == 0
    pulsar.restart()
    mledger_cluster.bookies[0].restart()
"""

FROZEN = """
import os, signal, psutil

def freeze(pid):
    os.kill(pid, signal.SIGSTOP)
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:  # once its threads have noticed
        pass

def test_frozen(pulsar):
    test_frozen.pid = pulsar.pid
    freeze(pulsar.pid)

def test_it_serves(pulsar):
    assert pulsar.pid != test_frozen.pid
    freeze(pulsar.pid)
    pulsar.stop()
    assert not pulsar.running

def test_frozen_on_bookies(pulsar_cluster):
    test_frozen.pid = pulsar_cluster.pid
    for pid in (pulsar_cluster.pid, pulsar_cluster.bookies[0].pid):
        freeze(pid)

def test_it_serves_on_bookies(pulsar_cluster):
    assert pulsar_cluster.pid != test_frozen.pid
    assert all(bookie.serves for bookie in pulsar_cluster.bookies)
"""

LEFT_ALONE = """
import asyncio, pytest

@pytest.mark.asyncio
async def test_left_alone(async_pulsar):
    pid = async_pulsar.pid
    restart = asyncio.create_task(async_pulsar.restart())
    while async_pulsar.running and async_pulsar.pid == pid:
        await asyncio.sleep(0)
    restart.cancel()

def test_it_serves(pulsar):
    assert pulsar.running
"""


@pytest.fixture
def servers(tmp_path):
    servers = Servers(tmp_path)
    yield servers
    servers.close()


@pytest.fixture
def project(tmp_path):
    """A user's project. No process of it outlives the test."""
    yield UserProject(tmp_path)
    for process in processes_in(tmp_path):
        process.kill()


@pytest.mark.parametrize("before_the_end", ["", "os.kill(servers._process.pid, signal.SIGSTOP)"])
def test_the_end_waits_for_no_forked_worker(tmp_path, before_the_end):
    source = FORKED_WORKER.format(before_the_end=before_the_end)
    command = [sys.executable, "-W", "ignore", "-c", source, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.stdout.strip() == ("-9" if before_the_end else "0"), done.stderr


def test_servers_end_with_a_killed_pytest_though_a_worker_that_it_forked_lives(project):
    run = project.start(STAND_STILL)
    for line in run.stdout:
        if "ready" in line:
            break
    servers = processes_in(project.base)
    (worker,) = [process for process in psutil.Process(run.pid).children() if process not in servers]
    run.kill()
    run.wait()
    assert len(servers) == 2
    assert end_by_themselves(servers)
    worker.kill()


def test_a_forked_test_leaves_servers_and_data_to_its_parent(project):
    done = project.run(FORKED_TEST)
    assert done.outcomes == {"passed": 3}, done.out


def test_threads_may_look_while_another_waits(servers):
    """A thread that was woken for what another has read must not wait for more."""
    server = servers.start("initialization", "pytest_mledger.initialization", "none://")
    ended = threading.Event()

    def look():
        while not ended.is_set():
            servers.look()

    with ThreadPoolExecutor(4) as threads:
        looks = [threads.submit(look) for _ in range(4)]
        for _ in range(50):
            assert servers.wait_ended(server) == 1
            server = servers.start("initialization", "pytest_mledger.initialization", "none://")
        ended.set()
    assert [look.result() for look in looks] == [None] * 4


def test_a_frozen_broker_is_replaced_for_the_next_test(project):
    done = project.run(FROZEN)
    assert done.outcomes == {"passed": 4}, done.out


def test_a_restart_that_a_test_left_alone_is_waited_for(project):
    done = project.run(LEFT_ALONE, "-p", "pytest_asyncio")
    assert done.outcomes == {"passed": 2}, done.out
