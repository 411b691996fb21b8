"""The age of a backlog, in the figures that a broker answers."""

from mledger.broker.admin_rest.topics.figures import topic_stats
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.clock import MINUTE_MS, Clock

NAMES = ("oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName")


def test_the_age_of_a_backlog_is_known_once_its_ledger_is_closed(broker_url, topic, monkeypatch):
    path = topic.replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:

            async def age():
                stats = await broker.get(f"{path}/stats")
                return [stats[name] for name in NAMES]

            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0")
            assert await age() == [-1, None]
            await broker.done("PUT", f"{path}/unload")
            await age()
            (opened,) = broker.broker.topics.open
            closed_ms = opened.managed_ledger.ledger_list.infos[0].timestamp
            monkeypatch.setattr(topic_stats, "wall_clock_ms", Clock(closed_ms + 2 * MINUTE_MS))
            assert await age() == [120, "sub"]
            await broker.done("POST", f"{path}/subscription/sub/skip_all")
            assert await age() == [-1, None]

    run(main())
