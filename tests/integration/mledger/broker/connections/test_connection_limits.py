"""A connection too many is told so, and the others go on."""

import asyncio

import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


@pytest.mark.parametrize("key", ["brokerMaxConnections", "brokerMaxConnectionsPerIp"])
def test_a_connection_too_many_is_refused_until_another_ends(broker_url, key):
    async def main():
        async with served(broker_url, f"{key}=2") as broker:
            first, second = await broker.connect(), await broker.connect()
            third = await broker.open()
            answer = await third.expect("error")
            assert (answer.error, "maximum number of connections" in answer.message) == (pb.NotAllowedError, True)
            await third.closed()
            await first.producer()
            (ended,) = (each for each in broker.broker.connections if not each.producers)
            second.close()
            await asyncio.shield(ended.lost)
            (await broker.connect()).close()
            first.close()

    run(main())
