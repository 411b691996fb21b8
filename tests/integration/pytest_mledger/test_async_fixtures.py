"""The plugin's async fixtures and its marker in users' projects: with pytest-asyncio, with anyio, with neither."""

import contextlib
import re

import psutil
import pytest

from tests.support.environments.plugin_runs import UserProject, processes_in

ONLY_ASYNCIO = ("-p", "no:anyio", "--strict-markers", "-ra")
ONLY_ANYIO = ("-p", "no:asyncio", "--strict-markers", "-ra")
BOTH = ("--strict-markers", "-ra")
ASYNCIO_SETTINGS = "mledger_bookies = 1\nasyncio_default_fixture_loop_scope = function"
ONE_BOOKIE = "mledger_bookies = 1"

ASYNCIO_TESTS = """
import asyncio, pytest, pytest_asyncio
names = []

@pytest_asyncio.fixture
async def billing(mledger_topic):
    return await mledger_topic.open_cursor("billing")

@pytest.mark.asyncio
async def test_function(mledger_client, mledger_topic, billing):
    await mledger_topic.append([b"order"])
    assert billing.backlog == 1
    names.append(mledger_topic.name)

@pytest.mark.asyncio(loop_scope="module")
async def test_module(mledger_topic):
    await mledger_topic.append([b"order"])
    names.append(mledger_topic.name)

@pytest.mark.asyncio(loop_scope="session")
async def test_session(mledger_client, mledger_topic):
    await mledger_topic.append([b"order"])
    names.append(mledger_topic.name)

def test_each_has_a_topic_of_its_own():
    assert len(set(names)) == 3
"""

AUTO_TESTS = """
import pytest

@pytest.fixture
async def billing(mledger_topic):
    return await mledger_topic.open_cursor("billing")

async def test_auto(mledger_topic, billing):
    await mledger_topic.append([b"order"])
    assert billing.backlog == 1
"""

ANYIO_TESTS = """
import pytest
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.fixture
async def billing(mledger_topic):
    return await mledger_topic.open_cursor("billing")

async def test_order(mledger_client, mledger_topic, billing):
    await mledger_topic.append([b"order"])
    assert billing.backlog == 1
"""

CLOSED = """
import pytest
kept = []

@pytest.mark.asyncio
async def test_open(mledger_topic):
    kept.append(mledger_topic)

@pytest.mark.asyncio
async def test_closed(mledger_client):
    with pytest.raises(Exception, match="clos"):
        await kept[0].append([b"late"])
"""

KILLED = """
import pytest

@pytest.mark.asyncio
async def test_kill(mledger_cluster, mledger_topic):
    await mledger_topic.append([b"order"])
    for bookie in mledger_cluster.bookies:
        bookie.kill()
"""

SHARED = """
import pytest

def test_default(mledger_cluster, mledger_session_cluster, mledger_clusters):
    assert mledger_cluster is mledger_session_cluster is mledger_clusters.get()

@pytest.mark.mledger(settings={"managedLedgerMaxEntriesPerLedger": 2})
class TestSmallLedgers:
    def test_settings_need_no_servers(self, mledger_cluster, mledger_session_cluster, mledger_clusters):
        assert mledger_cluster.config.max_entries_per_ledger == 2
        assert mledger_cluster.bookies is mledger_session_cluster.bookies
        assert mledger_cluster is mledger_clusters.get(settings={"managedLedgerMaxEntriesPerLedger": "2"})

    @pytest.mark.mledger(bookies=2)
    def test_the_nearer_mark_is_added(self, mledger_cluster, mledger_session_cluster):
        assert mledger_cluster.config.max_entries_per_ledger == 2
        assert len(mledger_cluster.bookies) == 2
        assert mledger_cluster.url != mledger_session_cluster.url

@pytest.mark.asyncio
@pytest.mark.mledger(settings={"managedLedgerMaxEntriesPerLedger": 2, "managedLedgerMinLedgerRolloverTimeMinutes": 0})
async def test_topics_have_the_settings(mledger_topic, mledger_client):
    assert mledger_topic.config.max_entries_per_ledger == 2
"""

ZOOKEEPER = """
import pytest

@pytest.mark.asyncio
async def test_kill(mledger_cluster, mledger_topic):
    assert mledger_cluster.url == mledger_cluster.zookeeper.url
    await mledger_topic.append([b"order"])
    mledger_cluster.zookeeper.kill()

@pytest.mark.asyncio
async def test_it_serves_again(mledger_cluster, mledger_topic):
    assert mledger_cluster.zookeeper.running
    await mledger_topic.append([b"order"])
"""


WRONG_MARKER = """
import pytest

def test_a(): pass

@pytest.mark.mledger(bookie=1)
def test_it(mledger_cluster): pass
"""
REFUSED = "@pytest.mark.mledger of test_user.py::test_it: unknown argument bookie"


@pytest.fixture
def project(tmp_path):
    """A user's project. No process of it outlives the test."""
    yield UserProject(tmp_path)
    for process in processes_in(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("arguments", [ONLY_ASYNCIO, BOTH], ids=["alone", "with anyio"])
def test_pytest_asyncio_runs_them_in_the_loop_of_each_scope(project, arguments):
    done = project.run(ASYNCIO_TESTS, *arguments, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 4}, done.out


def test_pytest_asyncio_runs_them_in_auto_mode(project):
    done = project.run(AUTO_TESTS, "--asyncio-mode=auto", *BOTH, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 1}, done.out


def test_anyio_runs_them_without_pytest_asyncio(project):
    done = project.run(ANYIO_TESTS, *ONLY_ANYIO, settings=ONE_BOOKIE)
    assert done.outcomes == {"passed": 1}, done.out


def test_anyio_runs_them_beside_pytest_asyncio(project):
    done = project.run(ANYIO_TESTS, *BOTH, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 1}, done.out


def test_another_backend_of_anyio_is_refused_by_name(project):
    source = ANYIO_TESTS.replace('return "asyncio"', 'return "trio"')
    done = project.run(source, *ONLY_ANYIO, settings=ONE_BOOKIE)
    assert done.outcomes == {"error": 1}
    assert "mledger runs on asyncio, not on trio" in done.out


def test_without_either_plugin_the_error_says_what_to_do(project):
    done = project.run("def test_it(mledger_client): pass", "-p", "no:anyio", "-p", "no:asyncio", settings=ONE_BOOKIE)
    assert done.outcomes == {"error": 1}
    assert "use `async with mledger_cluster.open()`" in done.out


def test_the_topic_is_closed_after_its_test(project):
    done = project.run(CLOSED, *ONLY_ASYNCIO, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 2}, done.out


def test_a_test_may_leave_its_bookies_dead(project):
    done = project.run(KILLED, *ONLY_ASYNCIO, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 1}, done.out


def test_clusters_with_equal_options_are_shared(project):
    done = project.run(SHARED, *ONLY_ASYNCIO, settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 4}, done.out
    assert sorted(path.name for path in project.base.glob("mledger-cluster?")) == [
        "mledger-cluster0",
        "mledger-cluster1",
    ]
    assert processes_in(project.directory) == []


def test_an_invalid_marker_ends_the_run_before_any_test(project):
    done = project.run(WRONG_MARKER, "--strict-markers")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert done.outcomes == {}
    assert REFUSED in done.out


def test_a_worker_of_xdist_fails_the_test_with_an_invalid_marker(project):
    done = project.run(WRONG_MARKER, "--strict-markers", "-n", "1")
    assert done.outcomes == {"passed": 1, "error": 1}
    assert REFUSED in done.out


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [(("--mledger-metadata=zookeeper",), ASYNCIO_SETTINGS), ((), f"{ASYNCIO_SETTINGS}\nmledger_metadata = zookeeper")],
    ids=["option", "setting"],
)
def test_a_real_zookeeper_that_a_test_kills_serves_the_next_test(project, arguments, settings):
    done = project.run(ZOOKEEPER, *ONLY_ASYNCIO, *arguments, settings=settings)
    assert done.outcomes == {"passed": 2}, done.out
    assert processes_in(project.directory) == []
    assert (project.base / "mledger-cluster0" / "zookeeper.log").exists()


@pytest.mark.parametrize(("in_ci", "outcome"), [("", "skipped"), ("true", "error")])
def test_without_zookeeper_the_test_is_skipped_by_name_and_fails_in_ci(project, monkeypatch, in_ci, outcome):
    monkeypatch.setenv("JAVA_HOME", str(project.directory))
    monkeypatch.setenv("CI", in_ci)
    monkeypatch.delenv("BUILD_NUMBER", raising=False)
    source = 'import pytest\n\n@pytest.mark.mledger(metadata="zookeeper")\ndef test_it(mledger_cluster): pass'
    done = project.run(source, "-ra")
    assert f"1 {outcome}" in done.out
    assert re.search(r"test_user\.py::test_it needs a real ZooKeeper, and there is none: JAVA_HOME is", done.out)


def test_the_plugin_imports_neither_the_command_nor_pyspark(project):
    source = (
        "import sys, pytest\n\n@pytest.mark.asyncio\nasync def test_it(mledger_topic):\n"
        "    assert not [name for name in sys.modules if name.startswith(('pyspark', 'mledger.cli'))]"
    )
    done = project.run(source, *ONLY_ASYNCIO, "--mledger-metadata=zookeeper", settings=ASYNCIO_SETTINGS)
    assert done.outcomes == {"passed": 1}, done.out
