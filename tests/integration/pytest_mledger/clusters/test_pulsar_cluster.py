"""The fixture `pulsar_cluster`, in a pytest of its users' own."""

import contextlib

import psutil
import pytest

from tests.support.environments.plugin_runs import UserProject, processes_in

CLIENT = """
import pytest
from pulsar import Client, InitialPosition, ConsoleLogger, LoggerLevel

def client_of(pulsar):
    return Client(pulsar.service_url, operation_timeout_seconds=120, logger=ConsoleLogger(LoggerLevel.Error))

def subscribe(client, topic):
    return client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest)
"""

KILLED = """
def test_kill(pulsar_cluster):
    client = client_of(pulsar_cluster)
    topic = test_kill.topic = pulsar_cluster.topic("orders")
    consumer, producer = subscribe(client, topic), client.create_producer(topic)
    pulsar_cluster.bookies[0].kill()
    producer.send(b"0")
    pulsar_cluster.bookies[1].kill()  # of two copies one is left
    assert consumer.receive(120_000).data() == b"0"
    client.close()
    pulsar_cluster.kill()
    assert not pulsar_cluster.running

def test_look(pulsar_cluster):
    assert pulsar_cluster.running
    assert [bookie.running for bookie in pulsar_cluster.bookies] == 3 * [True]
    client = client_of(pulsar_cluster)
    consumer = subscribe(client, test_kill.topic)
    message = consumer.receive(120_000)
    consumer.acknowledge(message)
    pulsar_cluster.wait_until_drained(test_kill.topic, "sub")
    client.close()
    assert message.data() == b"0"
"""

RESTARTED = """
def test_it(pulsar_cluster):
    service_url, admin_url = pulsar_cluster.service_url, pulsar_cluster.admin_url
    client = client_of(pulsar_cluster)
    consumer = subscribe(client, pulsar_cluster.topic("orders"))
    producer = client.create_producer(pulsar_cluster.topic("orders"))
    pulsar_cluster.restart()
    producer.send(b"0")
    pulsar_cluster.expire_sessions()
    producer.send(b"1")
    assert [consumer.receive(120_000).data() for _ in range(2)] == [b"0", b"1"]
    client.close()
    assert (pulsar_cluster.service_url, pulsar_cluster.admin_url) == (service_url, admin_url)
    pulsar_cluster.stop()
    assert not pulsar_cluster.running
"""

MARKED = """
pids = []

def test_before(pulsar_cluster):
    pids.append(pulsar_cluster.pid)

@pytest.mark.mledger(settings={"allowAutoTopicCreation": False})
def test_other_settings(pulsar_cluster):
    pids.append(pulsar_cluster.pid)
    client = client_of(pulsar_cluster)
    with pytest.raises(Exception, match="TopicNotFound"):
        client.create_producer(pulsar_cluster.topic("orders"))
    client.close()

@pytest.mark.mledger(settings={"allowAutoTopicCreation": False})
def test_the_same_settings(pulsar_cluster):
    pids.append(pulsar_cluster.pid)
    assert pids[0] != pids[1] == pids[2]

@pytest.mark.mledger(bookies=1)
def test_one_bookie(pulsar_cluster):
    client = client_of(pulsar_cluster)
    client.create_producer(pulsar_cluster.topic("orders")).send(b"one copy")
    client.close()
    assert len(pulsar_cluster.bookies) == 1
"""


@pytest.fixture
def project(tmp_path):
    """A user's project. No process of it outlives the test."""
    yield UserProject(tmp_path)
    for process in processes_in(tmp_path):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def test_what_a_test_kills_serves_in_the_next_and_nothing_is_lost(project):
    done = project.run(CLIENT + KILLED)
    assert done.outcomes == {"passed": 2}, done.out
    assert processes_in(project.directory) == []


def test_a_broker_goes_on_at_its_address(project):
    done = project.run(CLIENT + RESTARTED)
    assert done.outcomes == {"passed": 1}, done.out


def test_the_marker_has_the_settings_and_tests_with_the_same_share_a_broker(project):
    done = project.run(CLIENT + MARKED)
    assert done.outcomes == {"passed": 4}, done.out
