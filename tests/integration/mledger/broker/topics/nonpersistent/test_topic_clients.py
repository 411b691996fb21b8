"""Non-persistent topics under the official Python client, at a broker process (D12)."""

import contextlib
import re

import pulsar
import pytest

from mledger.admin.partitions import create_partitioned_topic
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.brokers.broker_process import ONE_BOOKIE, BrokerRun
from tests.support.cli import mledger, ok

RECEIVE_MS = 120_000
KINDS = ("Exclusive", "Failover", "Shared", "KeyShared")


@pytest.fixture(scope="module")
def broker(broker_bookie, tmp_path_factory):
    """A broker that closes topics without use at once."""
    started = BrokerRun(
        broker_bookie.metadata_url,
        tmp_path_factory.mktemp("broker") / "broker.log",
        settings=(*ONE_BOOKIE, "brokerDeleteInactiveTopicsFrequencySeconds=1"),
        options=("--metrics-port", "0"),
    ).start()
    yield started
    started.stop()


@contextlib.contextmanager
def client_of(broker):
    """The official client."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=120, logger=logger)
    try:
        yield client
    finally:
        client.close()


def receive(consumer, count):
    """The next messages, acknowledged."""
    found = []
    for _ in range(count):
        message = consumer.receive(timeout_millis=RECEIVE_MS)
        consumer.acknowledge(message)
        found.append(message)
    return found


def stats(broker, topic):
    """What the broker says of the topic, None if it is not open."""
    answer = mledger("topics", "stats", topic, "--output", "json", url=broker.metadata_url)
    assert answer.code == 0 or "client uses it" in answer.err, answer.err
    return answer.json if answer.code == 0 else None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batched", [True, False])
def test_a_client_receives_what_is_published_while_it_is_subscribed(broker, topic, kind, batched):
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub", getattr(pulsar.ConsumerType, kind))
        producer = client.create_producer(topic, batching_enabled=batched)
        sent = [b"%d" % number for number in range(100)]
        for payload in sent:
            producer.send_async(payload, lambda result, message_id: None, partition_key="one")
        producer.flush()
        assert [message.data() for message in receive(consumer, 100)] == sent
        consumer.seek(pulsar.MessageId.earliest)
        producer.send(b"after")
        assert [message.data() for message in receive(consumer, 1)] == [b"after"]
        consumer.unsubscribe()


def test_key_shared_consumers_have_the_messages_of_their_keys_in_order(broker, topic):
    with client_of(broker) as client:
        got = {}

        def take(number):
            def taken(consumer, message):
                got.setdefault(message.partition_key(), []).append((number, int(message.data())))

            return taken

        for number in range(3):
            client.subscribe(topic, "sub", pulsar.ConsumerType.KeyShared, message_listener=take(number))
        witness = client.subscribe(topic, "witness")
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(300):
            producer.send(b"%d" % number, partition_key=f"key-{number % 15}")
        receive(witness, 300)
        while sum(map(len, got.values())) < 300:
            producer.flush()
        for key, found in got.items():
            first = int(key.removeprefix("key-"))
            assert found == [(found[0][0], number) for number in range(first, 300, 15)]
        assert len({found[0][0] for found in got.values()}) > 1


def test_a_consumer_that_takes_nothing_loses_messages_and_others_get_all(broker, topic):
    with client_of(broker) as client:
        client.subscribe(topic, "stalled", receiver_queue_size=10)
        taken = client.subscribe(topic, "taken")
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(200):
            producer.send(b"%d" % number)
        assert [int(message.data()) for message in receive(taken, 200)] == list(range(200))
        found = stats(broker, topic)["subscriptions"]
        assert found["stalled"]["msgDropCounter"] == 190
        assert found["stalled"]["msgDropRate"] > 0
        assert found["stalled"]["msgOutCounter"] == 10
        assert found["taken"]["msgDropCounter"] == 0


def test_the_partitions_of_a_topic_are_served(broker, topic):
    async def create():
        async with await open_store(broker.metadata_url) as store:
            assert (await create_partitioned_topic(store, topic, 3)).missing == ()

    run(create())
    with client_of(broker) as client:
        assert len(client.get_topic_partitions(topic)) == 3
        consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic, batching_enabled=False)
        for number in range(30):
            producer.send(b"%d" % number)
        found = receive(consumer, 30)
        assert sorted(int(message.data()) for message in found) == list(range(30))
        assert len({message.topic_name() for message in found}) == 3


def test_a_reader_gets_what_is_published_next_and_cannot_ask_for_the_last(broker, topic):
    with client_of(broker) as client:
        reader = client.create_reader(topic, pulsar.MessageId.latest)
        producer = client.create_producer(topic)
        producer.send(b"one")
        assert reader.read_next(RECEIVE_MS).data() == b"one"
        with pytest.raises(pulsar.PulsarException):
            reader.has_message_available()


def test_a_pattern_finds_the_topics_in_use(broker, topic):
    with client_of(broker) as client:
        producer = client.create_producer(topic)
        stored = client.create_producer(topic.replace("non-", ""))
        pattern = re.compile(f"{topic}.*")
        mode = pulsar.RegexSubscriptionMode
        consumer = client.subscribe(pattern, "sub", regex_subscription_mode=mode.NonPersistentOnly)
        stored.send(b"stored")
        producer.send(b"live")
        assert [message.data() for message in receive(consumer, 1)] == [b"live"]


def test_schemas_are_those_of_the_topic(broker, topic):
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub", schema=pulsar.schema.StringSchema())
        client.create_producer(topic, schema=pulsar.schema.StringSchema()).send("text")
        assert receive(consumer, 1)[0].value() == "text"


def test_a_topic_that_nobody_uses_is_closed(broker, topic):
    with client_of(broker) as client:
        producer = client.create_producer(topic)
        assert stats(broker, topic)["publishers"]
        producer.close()
        while stats(broker, topic) is not None:
            pass
        client.create_producer(topic).send(b"it is opened again")


def test_a_topic_gets_its_partitions_and_is_unloaded_by_commands(broker, topic):
    url = broker.metadata_url
    created = ok("topics", "create", topic, "--partitions", "2", url=url)
    assert "has 2 partitions" in created.out
    assert mledger("topics", "create", topic, "--partitions", "3", url=url).code != 0
    assert "is partitioned" in mledger("topics", "stats", topic, url=url).err
    with client_of(broker) as client:
        consumer = client.subscribe(topic, "sub")
        producer = client.create_producer(topic)
        assert stats(broker, f"{topic}-partition-1")["subscriptions"]["sub"]["consumers"]
        assert "/0x" in ok("topics", "unload", topic, url=url).out
        while stats(broker, f"{topic}-partition-1") is None or stats(broker, f"{topic}-partition-0") is None:
            pass
        while True:
            producer.send(b"later")
            with contextlib.suppress(pulsar.Timeout):
                assert consumer.receive(timeout_millis=100).data() == b"later"
                break
