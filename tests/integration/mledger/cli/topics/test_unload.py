"""`mledger topics unload` of topics that a real client uses, and of topics that no broker serves."""

import asyncio
import os

import pulsar
import pytest

import mledger as public
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree

SINGLE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """What `mledger up` said of a cluster with a broker."""
    directory = tmp_path_factory.mktemp("unload") / "cluster"
    yield answer("up", "--dir", directory, "--metadata", "memory:", "--bookies", 1)
    ok("down", "--dir", directory)


@pytest.fixture
def client(up):
    """A client of the cluster's broker."""
    found = pulsar.Client(up["service_url"], logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    yield found
    found.close()


def test_the_broker_closes_an_unloaded_topic_and_the_client_goes_on(up, client):
    topic = "persistent://public/default/orders"
    client.subscribe(topic, "keeps")  # else what is published goes with the next trim
    producer = client.create_producer(topic)
    producer.send(b"before")
    done = answer("topics", "unload", topic, url=up["metadata"])
    (bundle,) = done["unloaded"]
    assert (done["topic"], bundle["broker"]) == (topic, up["service_url"])
    assert bundle["bundle"].startswith("public/default/0x")
    producer.send(b"after")
    stats = answer("topics", "stats", topic, url=up["metadata"])
    assert stats["msgInCounter"] == 1  # counted since the topic was opened: again, by the second send
    assert ok("topics", "read", topic, url=up["metadata"]).out == "before\nafter\n"


def test_each_bundle_of_a_partitioned_topic_is_unloaded_once(up, client):
    topic = "persistent://public/default/parts"
    ok("topics", "create", topic, "--partitions", 6, url=up["metadata"])
    producer = client.create_producer(topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
    bundles = [each["bundle"] for each in answer("topics", "unload", topic, url=up["metadata"])["unloaded"]]
    assert bundles
    assert len(set(bundles)) == len(bundles)
    producer.send(b"after")


def _of_namespace(nodes):
    """The nodes of the idle namespace: clients of the other tests' topics come back meanwhile."""
    return {path: node for path, node in nodes.items() if "public/idle" in path}


def test_a_topic_that_no_broker_serves_needs_no_unloading(up):
    topic = "persistent://public/idle/orders"
    ok("topics", "create", topic, *SINGLE, url=up["metadata"])
    before = _of_namespace(tree(up["metadata"]))
    assert before
    assert ok("topics", "unload", topic, url=up["metadata"]).out == f"no broker serves {topic}: nothing to unload\n"
    assert answer("topics", "unload", topic, url=up["metadata"]) == {"topic": topic, "unloaded": []}
    assert _of_namespace(tree(up["metadata"])) == before
    assert mledger("topics", "unload", "persistent://public/idle/none", url=up["metadata"]).code == 3


def test_a_topic_that_a_program_other_than_a_broker_has_open_is_refused(up):
    topic = "persistent://public/program/orders"

    async def main():
        config = public.ManagedLedgerConfig(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
        async with public.open_cluster(up["metadata"], config=config) as cluster:
            opened = await cluster.create_topic(topic)
            done = await asyncio.to_thread(mledger, "topics", "unload", topic, url=up["metadata"])
            await opened.add(b"still open")
            return done

    done = run(main())
    assert done.code == 4
    assert "not served by a broker, but has an owner: process" in done.err
