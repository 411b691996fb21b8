"""The pytest plugin, in a pytest of its users' own."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from tests.support.aio import HANG_S
from tests.support.environments.plugin_runs import ROOT, UserProject, end_by_themselves, processes_in

TELL_URL = """
import os, pathlib, time

def tell(cluster):
    here = pathlib.Path(os.environ["PYTEST_XDIST_WORKER"])
    here.touch()
    while len(list(pathlib.Path(".").glob("gw?"))) < 2:  # each worker has had a test
        time.sleep(0.01)
    assert all(bookie.running for bookie in cluster.bookies)
    here.with_suffix(".url").write_text(cluster.url)

def test_one(mledger_cluster):
    tell(mledger_cluster)

def test_two(mledger_cluster):
    tell(mledger_cluster)
"""

STAND_STILL = """
import time

def test_stand_still(mledger_cluster):
    print("ready", flush=True)
    while True:  # a signal that comes just before signal.pause() would not end that
        time.sleep(0.01)
"""

KILL_AND_LOOK = """
def test_kill(mledger_cluster):
    one, two, three = mledger_cluster.bookies
    one.kill(); two.stop(); three.freeze()
    assert [bookie.running for bookie in mledger_cluster.bookies] == [False, False, True]
    test_kill.known = [(bookie.pid, bookie.address) for bookie in mledger_cluster.bookies]

def test_look(mledger_cluster):
    now = [(bookie.pid, bookie.address) for bookie in mledger_cluster.bookies]
    assert all(bookie.running and not bookie.frozen for bookie in mledger_cluster.bookies)
    assert [address for _, address in now] == [address for _, address in test_kill.known]
    assert not {pid for pid, _ in now} & {pid for pid, _ in test_kill.known}
"""

NAMESPACES = """
import pytest

@pytest.mark.parametrize("what", ["a/b", "ä ö", "x" * 300, ""])
def test_names(mledger_namespace, what):
    print("NAME", mledger_namespace)
"""


@pytest.fixture
def project(tmp_path):
    """A user's project. No process of it outlives the test."""
    yield UserProject(tmp_path)
    for process in processes_in(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize(("document", "tests"), [("how-to/testing.md", 12), ("how-to/move-tests.md", 1)])
def test_the_tests_in_a_document_pass(project, document, tests):
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / document).read_text(), re.DOTALL)
    done = project.run("\n\n".join(shown), settings="asyncio_default_fixture_loop_scope = function")
    assert done.outcomes == {"passed": tests}, done.out


def test_each_worker_of_xdist_has_a_cluster_of_its_own(project):
    done = project.run(TELL_URL, "-n", "2", "--dist", "each", settings="mledger_bookies = 1")
    urls = {path.read_text() for path in project.directory.glob("*.url")}
    assert done.code == 0, done.out
    assert len(urls) == 2
    assert processes_in(project.directory) == []


def test_processes_and_data_end_with_the_session_and_the_logs_stay(project):
    done = project.run("def test_it(mledger_url): print(mledger_url)", "-s", settings="mledger_bookies = 2")
    directory = project.base / "mledger-cluster0"
    assert f"rocksdb:{directory}" in done.out
    assert processes_in(project.directory) == []
    assert {path.suffix for path in directory.iterdir()} == {".log"}


def test_no_process_outlives_a_killed_pytest(project):
    run = project.start(STAND_STILL)
    read_until_ready(run)
    servers = processes_in(project.base)
    run.kill()
    run.wait()
    assert len(servers) == 5
    assert end_by_themselves(servers)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process that its parent ended")
def test_no_server_outlives_the_process_that_forked_it(project):
    run = project.start(STAND_STILL)
    read_until_ready(run)
    servers = processes_in(project.base)
    (fork_server,) = [process for process in servers if process.ppid() == run.pid]
    fork_server.kill()
    servers.remove(fork_server)
    assert end_by_themselves(servers)
    run.kill()
    run.wait()


def test_an_interrupt_ends_the_session_in_order(project):
    run = project.start(STAND_STILL)
    read_until_ready(run)
    run.send_signal(signal.SIGINT)
    assert run.wait(HANG_S) == 2
    assert processes_in(project.base) == []
    assert [path.suffix for path in project.base.glob("mledger-cluster*/*") if path.is_dir()] == []


def test_a_bookie_that_one_test_kills_serves_in_the_next(project):
    done = project.run(KILL_AND_LOOK)
    assert done.outcomes == {"passed": 2}, done.out


def test_every_test_has_a_namespace_of_its_own_that_pulsar_allows(project):
    names = re.findall(r"NAME (.*)", project.run(NAMESPACES, "-s").out)
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"[-=:.\w]+/[-=:.\w]+", name, re.ASCII) and len(name) < 80 for name in names)


@pytest.mark.parametrize("said", ["0", "17", "three", "³", "-1"])
def test_a_setting_that_is_no_count_is_refused_by_name(project, said):
    done = project.run("def test_it(mledger_cluster): pass", settings=f"mledger_bookies = {said}")
    assert done.outcomes == {"error": 1}
    assert f"mledger_bookies = '{said}'" in done.out
    assert "write a number from 1 to 16" in done.out


def test_loading_the_plugin_imports_nothing_that_slows_a_start_of_pytest():
    lines = (
        "import sys, pytest",
        "old = set(sys.modules)",
        "import pytest_mledger.plugin",
        "print(*set(sys.modules) - old)",
    )
    command = [sys.executable, "-c", "; ".join(lines)]
    loaded = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert set(loaded.stdout.split()) == {"pytest_mledger", "pytest_mledger.plugin"}


def test_a_session_that_does_not_use_the_plugin_starts_nothing(project):
    unwanted = {"mledger", "pytest_mledger.clusters", "numpy"}
    source = f"import sys\n\ndef test_it(): assert not {unwanted} & set(sys.modules)"
    assert project.run(source).outcomes == {"passed": 1}
    assert not list(project.base.glob("mledger-cluster*"))


def read_until_ready(run: "subprocess.Popen[str]") -> None:
    """Wait until the test in the other pytest runs."""
    assert run.stdout is not None
    assert any("ready" in line for line in run.stdout), "pytest ended"
    assert psutil.pid_exists(run.pid)
