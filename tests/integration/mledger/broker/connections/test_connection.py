"""Clients that take nothing of what they are sent."""

import asyncio

from tests.support.aio import run
from tests.support.served_broker import served


def test_a_client_that_falls_silent_is_gone_although_it_has_not_taken_what_was_written(broker_url):
    async def main():
        async with served(broker_url, "keepAliveIntervalSeconds=1") as broker:
            client = await broker.connect()
            await client.producer()
            (connection,) = broker.broker.connections
            connection.write(bytes(64 << 20))  # more than the system takes
            await asyncio.shield(connection.lost)
            (topic,) = broker.broker.topics.open
            assert not list(topic.producers)
            client.close()

    run(main())
