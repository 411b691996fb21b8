"""Non-persistent topics over real connections: receipts, limits, producers, policies, what is not stored (D12)."""

import json

import pytest

import mledger
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_of, served

DROPPED = (1 << 64) - 1
POLICIES = "/admin/policies/public/np-policies"


async def receipts(client, count):
    """The next receipts: sequence id, ledger, entry."""
    found = [await client.expect("send_receipt") for _ in range(count)]
    return [(each.sequence_id, each.message_id.ledgerId, each.message_id.entryId) for each in found]


async def opened(broker, topic):
    """The topic, which must be open."""
    return broker.broker.topics.find(mledger.TopicName.parse_served(topic))


def test_a_message_goes_to_the_consumer_and_is_stored_nowhere(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=10)
            client.publish(b"one", 0)
            assert await receipts(client, 1) == [(0, 0, 0)]
            (message,) = await client.messages(1)
            assert (message.payload, message.entry) == (b"one", entry_of(b"one", 0))
            assert message.position == Position(0, 0)
            assert message.redeliveries == 0
            assert broker.cluster.opened == {}
            assert await broker.cluster.store.exists("/managed-ledgers/public/default/non-persistent") is None

    run(main())


def test_producers_have_receipts_without_consumers(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            assert await client.publish_all(b"one", b"two") == [Position(0, 0)] * 2
            await client.subscribe(1, topic=topic, permits=10)
            client.publish(b"three", 2)
            await client.expect("send_receipt")
            assert [each.payload for each in await client.messages(1)] == [b"three"]

    run(main())


def test_what_comes_at_once_beyond_the_limit_of_a_connection_is_dropped(broker_url, topic):
    async def main():
        async with served(broker_url, "maxConcurrentNonPersistentMessagePerConnection=2") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=100)
            for sequence in range(5):  # one write: the broker reads all at once
                client.publish(b"%d" % sequence, sequence)
            taken = [(0, 0, 0), (1, 0, 0), (2, 0, 0)]  # one more than the setting says, as in Pulsar
            assert await receipts(client, 5) == [*taken, (3, DROPPED, DROPPED), (4, DROPPED, DROPPED)]
            assert [each.payload for each in await client.messages(3)] == [b"0", b"1", b"2"]
            client.publish(b"again", 5)
            assert await receipts(client, 1) == [(5, 0, 0)]
            (producer,) = (await opened(broker, topic)).producers
            assert producer.drops.dropped == 2
            assert producer.messages_in == 4

    run(main())


def test_messages_in_transactions_are_refused_and_the_others_sent(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=100)
            client.publish(b"in", 0, txnid_least_bits=1, txnid_most_bits=1)
            client.publish(b"out", 1)
            assert (await client.expect("send_error")).error == pb.NotAllowedError
            assert await receipts(client, 1) == [(1, 0, 0)]
            assert [each.payload for each in await client.messages(1)] == [b"out"]
            assert broker.broker.pending_bytes == 0

    run(main())


def test_an_entry_without_metadata_harms_nobody(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=100)
            client.send(pb.BaseCommand.SEND, "send", payload=b"junk", producer_id=0, sequence_id=0)
            client.publish(b"whole", 1)
            assert await receipts(client, 2) == [(0, 0, 0), (1, 0, 0)]
            assert [each.payload for each in await client.messages(1)] == [b"whole"]

    run(main())


def test_the_topic_is_refused_where_the_setting_says_so(broker_url, topic):
    async def main():
        async with served(broker_url, "enableNonPersistentTopics=false") as broker:
            client = await broker.connect()
            for kind, field in ((pb.BaseCommand.PRODUCER, "producer"), (pb.BaseCommand.SUBSCRIBE, "subscribe")):
                more = {"producer_id": 0} if field == "producer" else {
                    "consumer_id": 0, "subscription": "sub", "subType": "Exclusive"
                }  # fmt: skip
                refused = await client.request(kind, field, "error", topic=topic, **more)
                assert refused.error == pb.NotAllowedError
                assert "enableNonPersistentTopics" in refused.message
            report = json.loads((await broker.cluster.store.get(f"/loadbalance/brokers/127.0.0.1:{broker.port}")).data)
            assert report["nonPersistentTopicsEnabled"] is False
            await client.producer(topic=topic.replace("non-", ""))  # others are served

    run(main())


def test_an_exclusive_producer_keeps_others_out(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            assert (await first.producer(topic=topic, producer_access_mode="Exclusive")).topic_epoch == 0
            refused = await second.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0)
            assert refused.error == pb.ProducerBusy
            first.close()
            await first.closed()
            await second.producer(topic=topic)

    run(main())


def test_the_limits_of_producers_and_consumers_hold(broker_url, topic):
    settings = ("maxProducersPerTopic=1", "maxConsumersPerTopic=2", "maxSubscriptionsPerTopic=2")

    async def refusal(client, number, name, kind="Shared"):
        wanted = {"subscription": name, "subType": kind, "consumer_id": number}
        return await client.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", topic=topic, **wanted)

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=1)
            assert refused.error == pb.ProducerBusy
            await client.subscribe(1, topic=topic, subscription="a")
            await client.subscribe(2, topic=topic, subscription="b")
            assert (await refusal(client, 3, "a")).error == pb.ConsumerBusy
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=2)
            assert (await refusal(client, 3, "c")).error == pb.NotAllowedError
            assert (await refusal(client, 3, "")).error == pb.MetadataError
            assert (await refusal(client, 3, "a")).error == pb.ConsumerBusy  # of another type
            assert [each.name for each in (await opened(broker, topic)).subscriptions] == ["a", "b"]

    run(main())


@pytest.mark.parametrize("policies", [{"encryption_required": True}, {"max_producers_per_topic": 1}])
def test_policies_of_the_namespace_hold_and_are_followed(broker_url, policies):
    topic = f"non-persistent://public/np-policies/{'-'.join(policies)}"

    async def main():
        async with served(broker_url, policy_cluster="standalone") as broker:
            store = broker.cluster.store
            if await store.exists(POLICIES) is None:
                await store.create(POLICIES, b"{}", parents=True)
            await store.put(POLICIES, b"{}", (await store.get(POLICIES)).version)
            client = await broker.connect()
            await client.producer(0, topic, encrypted=True)
            here, changed = await opened(broker, topic), json.dumps(policies).encode()
            await store.put(POLICIES, changed, (await store.get(POLICIES)).version)
            while here.policies == type(here.policies)():
                await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=99)
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=1)
            assert refused.error in (pb.MetadataError, pb.ProducerBusy)

    run(main())


def test_publish_rates_hold_the_connection_back(broker_url, topic):
    async def main():
        async with served(broker_url, "maxPublishRatePerTopicInMessages=100000") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(*[b"x"] * 50)
            assert [limit.messages_left(0) for limit in (await opened(broker, topic)).publish_limits.limiters]
            here = await opened(broker, topic)
            here.publish_limits.take(200_000, 0)
            assert here.publish_limits.wait_ms(0) > 0

    run(main())


def test_unloading_tells_clients_to_look_the_topic_up_again(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(1, topic=topic, permits=1)
            (bundle,) = broker.broker.owners.owned
            await broker.broker.handover.unload(bundle)
            assert (await client.expect("close_producer")).producer_id == 0
            assert (await client.expect("close_consumer")).consumer_id == 1
            assert await opened(broker, topic) is None
            client.publish(b"late", 0)  # ignored
            other = await broker.connect()
            while await opened(broker, topic) is None:  # refused until nothing of the unloading goes on
                request = other.next_request()
                other.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=0, request_id=request)
                await other.receive()
            assert await other.publish_all(b"new") == [Position(0, 0)]

    run(main())


def test_without_automatic_creation_only_partitions_of_partitioned_topics_are_served(broker_url, topic):
    async def main():
        async with served(broker_url, "allowAutoTopicCreation=false") as broker:
            client = await broker.connect()
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0)
            assert refused.error == pb.TopicNotFound
            name = mledger.TopicName.parse_served(topic)
            await broker.cluster.store.create(name.partitioned_topic_path, b'{"partitions":2}', parents=True)
            await client.producer(0, f"{topic}-partition-1")
            for wrong in (topic, f"{topic}-partition-2"):
                refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=wrong, producer_id=1)
                assert refused.error == pb.NotAllowedError

    run(main())


def test_producers_register_schemas_and_consumers_are_checked(broker_url, topic):
    def schema(kind, data=b""):
        return pb.Schema(name="s", type=kind, schema_data=data)

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            answer = await client.producer(topic=topic, schema=schema(pb.Schema.String))
            assert answer.schema_version == bytes(8)
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE, "subscribe", "error", topic=topic, consumer_id=1, subscription="s",
                subType="Exclusive", schema=schema(pb.Schema.Int32),
            )  # fmt: skip
            assert refused.error == pb.IncompatibleSchema
            await client.subscribe(2, topic=topic, schema=schema(pb.Schema.String))

    run(main())
