"""Policies of a topic's schemas and of the size of its messages hold while it is open."""

import time

import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_of, entry_with

AVRO = '{"type": "record", "name": "R", "fields": [%s]}'
A, B = '{"name": "a", "type": "string"}', '{"name": "b", "type": "int"}'


async def followed(broker, method, path, body=None):
    """Change a policy of the only open topic that has clients, which follows it."""
    topic = next(each for each in broker.broker.topics.stored if each.name.local_name == "t")
    await broker.followed(topic, method, path, body)


def schema(*fields):
    return pb.Schema(name="R", type=pb.Schema.Avro, schema_data=(AVRO % ", ".join(fields)).encode())


def test_a_strategy_of_the_topic_comes_before_the_brokers(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(0, own_topic, schema=schema(A))
            assert (await client.refused_producer(own_topic, schema=schema(A, B))).error == pb.IncompatibleSchema
            path = f"{own_topic.replace('://', '/')}/schemaCompatibilityStrategy"
            await followed(broker, "PUT", path, "ALWAYS_COMPATIBLE")
            await client.producer(1, own_topic, schema=schema(A, B))
            await followed(broker, "DELETE", path)
            assert (await client.refused_producer(own_topic, schema=schema(B))).error == pb.IncompatibleSchema

    run(main())


def test_a_topic_that_enforces_schemas_has_no_producer_without_one(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(0, own_topic, schema=schema(A))
            await client.producer(1, own_topic)
            path = f"{own_topic.replace('://', '/')}/schemaValidationEnforced"
            await followed(broker, "POST", path, True)
            assert (await client.refused_producer(own_topic)).error == pb.IncompatibleSchema
            await followed(broker, "POST", path, False)
            await client.producer(2, own_topic)

    run(main())


def test_messages_larger_than_the_topics_limit_are_refused_and_the_others_are_stored(broker_url, own_topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(0, own_topic)
            path = f"{own_topic.replace('://', '/')}/maxMessageSize"
            assert (await broker.refused("POST", path, broker.broker.max_message_size + 1))[0] == 412
            await followed(broker, "POST", path, 200)
            for sequence, payload in enumerate((b"small", b"x" * 200, b"small")):
                client.publish(payload, sequence)
            client.publish(b"a chunk, which is as large as the broker allows".ljust(200), 3, is_chunk=True)
            answers = [await client.receive() for _ in range(4)]
            errors = [each.send_error for each, _ in answers if each.HasField("send_error")]
            assert [(each.sequence_id, each.error) for each in errors] == [(1, pb.NotAllowedError)]
            receipts = [each.send_receipt.sequence_id for each, _ in answers if each.HasField("send_receipt")]
            assert receipts == [0, 2, 3]
            await followed(broker, "DELETE", path)
            await client.publish_all(b"x" * 200)

    run(main())


@pytest.mark.parametrize("scope", ["namespaces", "persistent"])
def test_messages_that_are_to_wait_longer_than_a_policy_allows_are_refused(broker_url, own_topic, scope):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(0, own_topic)
            (opened,) = broker.broker.topics.stored
            of = opened.name.namespace_name if scope == "namespaces" else f"{opened.name.namespace_name}/t"
            path, policy = f"{scope}/{of}/delayedDelivery", {"active": True, "tickTime": 1000}
            await followed(broker, "POST", path, policy | {"maxDeliveryDelayInMillis": 500})
            for sequence, deliver_at in enumerate((501, 502, 0)):  # all say that they were published at 1
                client.publish(b"payload", sequence, deliver_at=deliver_at)
            answers = [await client.receive() for _ in range(3)]
            errors = [each.send_error for each, _ in answers if each.HasField("send_error")]
            assert [(each.sequence_id, each.error) for each in errors] == [(1, pb.NotAllowedError)]
            assert "500 milliseconds" in errors[0].message
            await followed(broker, "POST", path, policy | {"maxDeliveryDelayInMillis": 500, "active": False})
            await client.store(entry_of(b"payload", 3, deliver_at=502), 3)

    run(main())


DOMAINS = pytest.mark.parametrize("domain", ["persistent", "non-persistent"])


@DOMAINS
def test_who_publishes_as_fast_as_the_rate_allows_goes_on_though_the_clock_is_set_back(
    broker_url, own_topic, domain, monkeypatch
):
    now_ns = time.time_ns

    async def main():
        async with web_served(broker_url, "maxPublishRatePerTopicInMessages=100") as broker:
            client = await broker.connect()
            await client.producer(0, own_topic.replace("persistent", domain))
            for sequence in range(120):
                client.publish(b"payload", sequence)
            for sequence in range(120):
                assert (await client.expect("send_receipt")).sequence_id == sequence
            monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 3_600_000_000_000)
            client.publish(b"payload", 120)
            assert (await client.expect("send_receipt")).sequence_id == 120

    run(main())


PLAIN = pb.MessageMetadata(producer_name="raw", sequence_id=0, publish_time=1)
ENCRYPTED = pb.MessageMetadata(
    producer_name="raw", sequence_id=1, publish_time=1, encryption_keys=[pb.EncryptionKeys(key="key", value=b"k")]
)


def entry(metadata):
    return entry_with(metadata.SerializeToString(), b"payload")


@DOMAINS
def test_a_plain_message_is_refused_where_all_have_to_be_encrypted(broker_url, own_topic, domain):
    async def main():
        async with web_served(broker_url, "encryptionRequireOnProducer=true") as broker:
            client = await broker.connect()
            await client.producer(0, own_topic.replace("persistent", domain), encrypted=True)
            for sequence, metadata in enumerate((PLAIN, ENCRYPTED)):
                wanted = {"producer_id": 0, "sequence_id": sequence}
                client.send(pb.BaseCommand.SEND, "send", payload=entry(metadata), **wanted)
            refused = await client.expect("send_error")
            assert (refused.sequence_id, refused.error) == (0, pb.MetadataError)
            assert (await client.expect("send_receipt")).sequence_id == 1

    run(main())


@DOMAINS
def test_producers_that_encrypt_nothing_are_closed_once_their_namespace_wants_it(broker_url, own_topic, domain):
    async def main():
        async with web_served(broker_url) as broker:
            client, topic = await broker.connect(), own_topic.replace("persistent", domain)
            await client.producer(0, topic)
            await client.producer(1, topic, encrypted=True)
            namespace = own_topic.partition("://")[2].rpartition("/")[0]
            await broker.done("POST", f"namespaces/{namespace}/encryptionRequired", True)
            assert (await client.expect("close_producer")).producer_id == 0
            assert (await client.refused_producer(topic)).error == pb.MetadataError
            assert [each.id for each in broker.broker.topics.open[0].producers] == [1]

    run(main())


def test_brokers_write_plain_messages_to_system_topics_all_the_same(broker_url, own_topic):
    async def main():
        async with web_served(broker_url, "encryptionRequireOnProducer=true") as broker:
            client = await broker.connect()
            await client.producer(0, f"{own_topic.rpartition('/')[0]}/__change_events")
            await client.store(entry(PLAIN))

    run(main())
