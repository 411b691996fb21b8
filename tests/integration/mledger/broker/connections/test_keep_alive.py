"""Clients whose end nobody has told of: what they have open does not keep others out."""

import asyncio

import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served

SOON = "connectionLivenessCheckTimeoutMillis=50"
LONG = "connectionLivenessCheckTimeoutMillis=60000"
DOMAINS = pytest.mark.parametrize("domain", ["persistent", "non-persistent"])


@DOMAINS
def test_a_client_that_does_not_answer_loses_its_producers_name_and_its_exclusive_subscription(
    broker_url, topic, domain
):
    async def main():
        async with served(broker_url, SOON) as broker:
            silent, other = await broker.connect(), await broker.connect()
            wanted = {"topic": topic.replace("persistent", domain)}
            await silent.producer(producer_name="p", **wanted)
            await silent.subscribe(**wanted)
            assert (await other.producer(producer_name="p", **wanted)).producer_name == "p"
            await other.subscribe(**wanted)
            assert len(broker.broker.connections) == 1
            silent.close()

    run(main())


@DOMAINS
def test_a_client_that_answers_keeps_them(broker_url, topic, domain):
    async def main():
        async with served(broker_url, LONG) as broker:
            living, other = await broker.connect(), await broker.connect()
            wanted = {"topic": topic.replace("persistent", domain)}
            await living.producer(producer_name="p", **wanted)
            await living.subscribe(**wanted)
            answering = asyncio.create_task(living.receive())
            assert (await other.refused_producer(producer_name="p", **wanted)).error == pb.ProducerBusy
            sub = {"subscription": "sub", "subType": "Exclusive", "consumer_id": 0}
            refused = await other.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", **sub, **wanted)
            assert refused.error == pb.ConsumerBusy
            answering.cancel()
            await asyncio.wait([answering])

    run(main())
