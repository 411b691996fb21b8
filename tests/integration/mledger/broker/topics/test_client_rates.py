"""Rates per second in the figures of topics, subscriptions and clients, as the sampler found them."""

import pytest

from mledger.broker.topics import client_rates
from mledger.broker.topics.client_rates import RateSampler
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_with
from tests.support.clock import MINUTE_MS, Clock

IN = ("msgRateIn", "msgThroughputIn", "averageMsgSize")
OUT = ("msgRateOut", "msgThroughputOut", "msgRateRedeliver", "messageAckRate")


@pytest.fixture
def clock(monkeypatch):
    """The clock of the rates."""
    clock = Clock()
    monkeypatch.setattr(client_rates, "steady_ms", clock)
    return clock


async def sampled(broker, clock, topic):
    """The figures after a minute and a sample."""
    clock.ms += MINUTE_MS
    await RateSampler(lambda: broker.broker.topics.open, 60).look(0)
    return await broker.get(f"{topic.replace('://', '/')}/stats")


def rates(figures, names):
    return [figures[name] * 60 for name in names]  # of a minute: whole numbers


def test_what_is_published_in_a_minute(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1", b"2")
            found = await sampled(broker, clock, topic)
            size = found["bytesInCounter"]
            assert rates(found, IN[:2]) == pytest.approx([3, size])
            assert found["averageMsgSize"] == pytest.approx(size / 3)
            assert [found["publishers"][0][name] for name in IN] == [found[name] for name in IN]
            found = await sampled(broker, clock, topic)
            assert [found[name] for name in IN] == [0, 0, 0]

    run(main())


def test_what_a_shared_subscription_gets_gives_back_and_acknowledges_in_a_minute(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[0])
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            await client.messages(2)
            found = await sampled(broker, clock, topic)
            subscription = found["subscriptions"]["sub"]
            assert rates(subscription, OUT) == pytest.approx([5, found["bytesOutCounter"], 2, 1])
            assert [subscription["consumers"][0][name] for name in OUT] == [subscription[name] for name in OUT]
            assert rates(found, OUT[:2]) == pytest.approx([5, found["bytesOutCounter"]])
            ask = pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse"
            stats = await client.request(*ask, consumer_id=0)
            assert [stats.msgRateOut, stats.msgRateRedeliver] == [subscription["msgRateOut"], 2 / 60]
            assert [stats.messageAckRate, stats.msgRateExpired] == [1 / 60, 0]

    run(main())


def test_an_exclusive_consumer_s_acknowledgements_are_counted_by_the_entry_or_the_request(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2", b"3")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(4)
            await client.ack_durably(sent[0], sent[1])
            await client.ack_durably(sent[3], kind="Cumulative")
            found = (await sampled(broker, clock, topic))["subscriptions"]["sub"]
            assert rates(found, ["messageAckRate"]) == pytest.approx([3])

    run(main())


def test_the_rate_of_what_expired_is_that_between_two_expiries(broker_url, topic, clock):
    async def main():
        async with web_served(broker_url) as broker:
            client, path = await broker.connect(), f"{topic.replace('://', '/')}/subscription/sub/expireMessages/60"
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0", b"1", b"2")  # published in 1970
            clock.ms += MINUTE_MS
            await broker.done("POST", path)
            found = (await sampled(broker, clock, topic))["subscriptions"]["sub"]
            assert rates(found, ["msgRateExpired"]) == pytest.approx([3])
            ask = pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse"
            assert (await client.request(*ask, consumer_id=0)).msgRateExpired == found["msgRateExpired"]
            await client.publish_all(b"3")
            await broker.done("POST", path)
            found = (await sampled(broker, clock, topic))["subscriptions"]["sub"]
            assert rates(found, ["msgRateExpired"]) == pytest.approx([1])

    run(main())


def test_a_topic_that_is_not_stored_has_rates_too(broker_url, topic, clock):
    live = topic.replace("persistent", "non-persistent")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=live)
            await client.subscribe(topic=live, permits=10)
            client.publish(b"0", 0)
            await client.expect("send_receipt")
            await client.messages(1)
            found = await sampled(broker, clock, live)
            assert rates(found, ["msgRateIn", "msgRateOut"]) == pytest.approx([1, 1])
            assert found["subscriptions"]["sub"]["consumers"][0]["msgRateOut"] == found["msgRateOut"]

    run(main())


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_chunks_are_counted_of_the_producer_and_of_those_who_get_them(broker_url, topic, clock, domain):
    name = topic.replace("persistent", domain)
    numbers = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 2}

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=name)
            await client.subscribe(topic=name, subType="Shared", permits=10)
            for number in range(2):
                metadata = pb.MessageMetadata(
                    producer_name="raw", sequence_id=0, publish_time=1, chunk_id=number, **numbers
                )
                entry = entry_with(metadata.SerializeToString(), b"%d" % number)
                client.send(pb.BaseCommand.SEND, "send", payload=entry, producer_id=0, sequence_id=0, is_chunk=True)
                await client.receive()
                await client.receive()  # the receipt and the message, in any order
            found = await sampled(broker, clock, name)
            (subscription,) = found["subscriptions"].values()
            of_each = [found["publishers"][0], subscription, subscription["consumers"][0]]
            assert [each["chunkedMessageRate"] * 60 for each in of_each] == pytest.approx([2, 2, 2])
            assert found.get("msgChunkPublished", True)
            consumer = of_each[-1]
            assert 0 < consumer["firstConsumedFlowTimestamp"] <= consumer["firstMessagesSentTimestamp"]

    run(main())
