"""The fixtures `pulsar` and `async_pulsar`, in a pytest of their users' own."""

import contextlib
import re

import psutil
import pytest

from tests.support.environments.plugin_runs import UserProject, processes_in

CLIENT = """
import asyncio

import pytest
from pulsar import Client, InitialPosition, ConsoleLogger, LoggerLevel

def client_of(pulsar):
    return Client(pulsar.service_url, operation_timeout_seconds=120, logger=ConsoleLogger(LoggerLevel.Error))

def subscribe(client, topic):
    return client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest)
"""

TOLD = """
import os, pathlib, time

@pytest.mark.parametrize("number", range(6))
def test_it(pulsar, number):
    here = pathlib.Path(os.environ["PYTEST_XDIST_WORKER"])
    here.touch()
    while len(list(pathlib.Path(".").glob("gw?"))) < 2:  # each worker has had a test
        time.sleep(0.01)
    client = client_of(pulsar)
    subscribe(client, pulsar.topic("orders")).close()
    client.create_producer(pulsar.topic("orders")).send(b"%d" % number)
    if number % 2:
        pulsar.restart()
    consumer = subscribe(client, pulsar.topic("orders"))
    message = consumer.receive(120_000)
    assert message.data() == b"%d" % number
    consumer.acknowledge(message)
    pulsar.wait_until_drained(pulsar.topic("orders"), "sub")
    client.close()
    pathlib.Path(f"{here}-{number}.told").write_text(f"{here} {pulsar.service_url} {pulsar.namespace}")
"""

KILLED = """
def test_kill(pulsar):
    client = client_of(pulsar)
    test_kill.known = pulsar.service_url, pulsar.admin_url, pulsar.pid, pulsar.namespace
    subscribe(client, "persistent://public/default/kept")
    client.create_producer("persistent://public/default/kept").send(b"kept")
    pulsar.kill()
    assert not pulsar.running
    client.close()

def test_look(pulsar):
    service_url, admin_url, pid, namespace = test_kill.known
    assert pulsar.running
    assert (pulsar.service_url, pulsar.admin_url) == (service_url, admin_url)
    assert (pulsar.pid == pid, pulsar.namespace == namespace) == (False, False)
    client = client_of(pulsar)
    assert subscribe(client, "persistent://public/default/kept").receive(120_000).data() == b"kept"
    client.close()

def test_stop(pulsar):
    pulsar.stop()
    assert not pulsar.running
"""

AWAITED = """
@pytest.mark.asyncio
async def test_asyncio(async_pulsar):
    await async_pulsar.stop()
    await async_pulsar.restart()
    assert async_pulsar.running
    client = client_of(async_pulsar)
    topic = async_pulsar.topic("orders")
    consumer = await asyncio.to_thread(subscribe, client, topic)
    await async_pulsar.wait_until_drained(topic, "sub")
    await async_pulsar.kill()
    client.close()

@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_anyio(async_pulsar):
    assert async_pulsar.running
    await async_pulsar.restart()
"""

BOTH = """
@pytest.mark.asyncio
async def test_asyncio(pulsar, async_pulsar):
    assert async_pulsar.namespace == pulsar.namespace
"""

REFUSED = """
from pytest_mledger.servers.processes import ClusterFailed

@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_no_time_of_a_clock(pulsar, seconds):
    with pytest.raises(ValueError):
        pulsar.move_clock(seconds)

def test_killed(pulsar):
    pulsar.kill()
    with pytest.raises(ClusterFailed, match="pulsar does not run: restart it first"):
        pulsar.move_clock(1)
    with pytest.raises(ClusterFailed, match="pulsar does not run: restart it first"):
        pulsar.expire_sessions()
"""

EXPIRED = """
def test_it(pulsar):
    client = client_of(pulsar)
    consumer = subscribe(client, pulsar.topic("orders"))
    producer = client.create_producer(pulsar.topic("orders"))
    producer.send(b"0")
    pulsar.expire_sessions()
    producer.send(b"1")
    client.create_producer(pulsar.topic("others")).send(b"0")  # a new ledger: on a bookie that is registered again
    assert [consumer.receive(120_000).data() for _ in range(2)] == [b"0", b"1"]
    assert pulsar.running
    client.close()

@pytest.mark.asyncio
async def test_asyncio(async_pulsar):
    await async_pulsar.expire_sessions()
    client = client_of(async_pulsar)
    producer = await asyncio.to_thread(client.create_producer, async_pulsar.topic("orders"))
    await asyncio.to_thread(producer.send, b"0")
    client.close()
"""

MOVED = """
import datetime, time
from pulsar import ConsumerType

HOUR = 3600

@pytest.fixture(scope="session")
def pulsar_settings():
    return {"ttlDurationDefaultInSeconds": HOUR}

def test_a_delayed_message_comes(pulsar):
    client = client_of(pulsar)
    consumer = client.subscribe(pulsar.topic("orders"), "sub", ConsumerType.Shared)
    producer = client.create_producer(pulsar.topic("orders"))
    producer.send(b"0", deliver_after=datetime.timedelta(seconds=HOUR // 2))
    with pytest.raises(ValueError):
        pulsar.move_clock(-1)
    pulsar.move_clock(HOUR // 2)
    assert consumer.receive(120_000).data() == b"0"
    pulsar.restart()
    producer.send(b"1", deliver_at=int(1000 * (time.time() + HOUR // 4)))
    assert {consumer.receive(120_000).data() for _ in range(2)} == {b"0", b"1"}  # the clock is still ahead
    client.close()

def test_a_message_expires(pulsar):
    client = client_of(pulsar)
    subscribe(client, pulsar.topic("orders"))
    client.create_producer(pulsar.topic("orders")).send(b"0")
    pulsar.move_clock(HOUR + 600)
    pulsar.wait_until_drained(pulsar.topic("orders"), "sub")
    client.close()

@pytest.mark.asyncio
async def test_asyncio(async_pulsar):
    pid = async_pulsar.pid
    await async_pulsar.move_clock(HOUR)
    assert async_pulsar.pid == pid
"""

SETTINGS = """
@pytest.fixture(scope="session")
def pulsar_settings():
    return {"allowAutoTopicCreation": False}

def test_it(pulsar):
    client = client_of(pulsar)
    with pytest.raises(Exception, match="TopicNotFound"):
        client.create_producer(pulsar.topic("orders"))
    client.close()

class TestWithOthers:
    @pytest.fixture(scope="session")
    @classmethod
    def pulsar_settings(cls):
        return {}

    def test_it(self, pulsar):
        pulsar.topic("orders")
"""


@pytest.fixture
def project(tmp_path):
    """A user's project. No process of it outlives the test."""
    yield UserProject(tmp_path)
    for process in processes_in(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_each_worker_of_xdist_has_a_broker_and_each_test_a_namespace(project):
    done = project.run(CLIENT + TOLD, "-n", "2")
    told = [path.read_text().split() for path in project.directory.glob("*.told")]
    assert done.code == 0, done.out
    assert len({(worker, url) for worker, url, _ in told}) == len({url for _, url, _ in told}) == 2
    assert len({(worker, namespace) for worker, _, namespace in told}) == 6
    assert processes_in(project.directory) == []


def test_a_broker_that_one_test_kills_serves_in_the_next_where_it_was(project):
    done = project.run(CLIENT + KILLED)
    assert done.outcomes == {"passed": 3}, done.out


def test_async_tests_await_it_in_any_loop(project):
    done = project.run(CLIENT + AWAITED, settings="asyncio_default_fixture_loop_scope = function")
    assert done.outcomes == {"passed": 2}, done.out


def test_a_test_may_have_it_in_both_forms(project):
    done = project.run(CLIENT + BOTH, settings="asyncio_default_fixture_loop_scope = function")
    assert done.outcomes == {"passed": 1}, done.out


def test_what_cannot_be_done_is_refused_at_once(project):
    done = project.run(CLIENT + REFUSED)
    assert done.outcomes == {"passed": 3}, done.out


def test_a_broker_goes_on_after_its_sessions_have_expired(project):
    done = project.run(CLIENT + EXPIRED, settings="asyncio_default_fixture_loop_scope = function")
    assert done.outcomes == {"passed": 2}, done.out


def test_a_moved_clock_makes_due_what_is_due_by_then_until_the_test_ends(project):
    done = project.run(CLIENT + MOVED, settings="asyncio_default_fixture_loop_scope = function")
    assert done.outcomes == {"passed": 3}, done.out


def test_a_fixture_of_the_user_s_has_the_settings_and_a_later_one_with_others_is_refused(project):
    done = project.run(CLIENT + SETTINGS)
    assert done.outcomes == {"passed": 1, "error": 1}, done.out
    assert "was started with (allowAutoTopicCreation=false): define the fixture once" in done.out


def test_the_data_goes_with_the_session_and_the_log_stays(project):
    done = project.run("def test_it(pulsar): print('URL', pulsar.metadata_url)", "-s")
    directory = project.base / "mledger-pulsar0"
    assert re.search(rf"URL rocksdb:{directory}/data/metadata", done.out), done.out
    assert processes_in(project.directory) == []
    assert sorted(path.name for path in directory.iterdir()) == ["fork_server.log", "pulsar.log"]
