"""`mledger topics stats|subscriptions|consumers|peek` of a topic that a real client uses."""

import os

import pulsar
import pytest

from tests.support.cli import answer, mledger, ok

TOPIC = "persistent://public/default/orders"
SINGLE = ("--ensemble-size", "1", "--write-quorum", "1", "--ack-quorum", "1")


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """What `mledger up` said of a cluster with a broker."""
    directory = tmp_path_factory.mktemp("live") / "cluster"
    yield answer("up", "--dir", directory, "--metadata", "memory:", "--bookies", 1)
    ok("down", "--dir", directory)


def test_live_figures_follow_a_client_and_peek_shows_what_it_left(up):
    url = up["metadata"]
    client = pulsar.Client(up["service_url"], logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    consumer = client.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared, consumer_name="till")
    producer = client.create_producer(TOPIC, batching_enabled=False)
    for number in range(3):
        producer.send(b"order %d" % number)
    received = [consumer.receive(timeout_millis=120_000) for _ in range(3)]
    assert answer("topics", "stats", TOPIC, url=url)["msgInCounter"] == 3
    assert "publishers" in ok("topics", "stats", TOPIC, url=url).out
    (subscription,) = answer("topics", "subscriptions", TOPIC, url=url)
    assert (subscription["subscription"], subscription["msgBacklog"], subscription["consumers"]) == ("billing", 3, 1)
    (shown,) = answer("topics", "consumers", TOPIC, "--subscription", "billing", url=url)
    assert (shown["consumerName"], shown["unackedMessages"]) == ("till", 3)
    consumer.acknowledge(received[1])
    client.close()  # sends the acknowledgement first
    assert answer("topics", "consumers", TOPIC, url=url) == []
    assert ok("topics", "peek", TOPIC, "billing", "--count", 5, url=url).out == "order 0\norder 2\n"
    assert ok("topics", "peek", TOPIC, "billing", url=url).out == "order 0\n"
    assert ok("topics", "peek", TOPIC, "billing", "--count", 5, url=url).out == "order 0\norder 2\n"
    for arguments in (("peek", TOPIC, "none"), ("consumers", TOPIC, "--subscription", "none")):
        done = mledger("topics", *arguments, url=url)
        assert (done.code, "has no subscription none" in done.err) == (3, True)


def test_a_topic_that_no_client_uses_is_not_opened_by_asking(up):
    url = up["metadata"]
    idle = "persistent://public/idle/orders"
    ok("topics", "create", idle, *SINGLE, url=url)
    for _ in range(2):
        done = mledger("topics", "stats", idle, url=url)
        assert done.code == 3
        assert done.err == f"mledger: no broker serves {idle}: one does as soon as a client uses it\n"
    assert mledger("topics", "stats", "persistent://public/idle/none", url=url).code == 3


def test_a_stored_topic_of_a_bundle_that_is_served_is_not_opened_by_asking(up):
    url = up["metadata"]
    client = pulsar.Client(up["service_url"], logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull))
    client.subscribe(TOPIC, "billing", pulsar.ConsumerType.Shared)
    idle = [f"persistent://public/default/idle-{number}" for number in range(8)]  # some are in the bundle of TOPIC
    for topic in idle:
        ok("topics", "create", topic, *SINGLE, url=url)
    before = [
        answer("metadata", "get", f"/managed-ledgers/public/default/persistent/{each[-6:]}", url=url) for each in idle
    ]
    asked = [
        mledger("topics", what, topic, url=url) for topic in idle for what in ("stats", "subscriptions", "consumers")
    ]
    asked += [mledger("topics", "peek", topic, "billing", url=url) for topic in idle]
    assert {done.code for done in asked} == {3}
    assert any("does not have" in done.err for done in asked)
    after = [
        answer("metadata", "get", f"/managed-ledgers/public/default/persistent/{each[-6:]}", url=url) for each in idle
    ]
    assert after == before
    client.close()
