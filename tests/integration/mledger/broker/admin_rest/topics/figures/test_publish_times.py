"""When messages of a topic were published, in the figures that a broker answers."""

from mledger.broker.topics import broker_topic
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.clock import Clock

LAST, CREATED = "lastPublishTimeStamp", "topicCreationTimeStamp"
OF_TOPIC, OF_SUBSCRIPTION = "earliestMsgPublishTimeInBacklogs", "earliestMsgPublishTimeInBacklog"
PUBLISHED_MS = 1  # what raw clients say


def test_the_last_message_was_published_when_it_was_stored_or_as_it_says_after_a_load(broker_url, topic, monkeypatch):
    clock = Clock()
    path = topic.replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)  # keeps the messages
            empty = await broker.get(f"{path}/stats")
            assert empty[LAST] == 0
            assert empty[CREATED] > 1_700_000_000_000
            monkeypatch.setattr(broker_topic, "wall_clock_ms", clock)
            await client.publish_all(b"0", b"1")
            assert (await broker.get(f"{path}/stats"))[LAST] == clock.ms
            await broker.done("PUT", f"{path}/unload")
            assert (await broker.get(f"{path}/stats"))[LAST] == PUBLISHED_MS

    run(main())


def test_the_earliest_message_of_a_backlog_is_read_where_it_is_asked_for(broker_url, topic):
    path = topic.replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(0, topic=topic, subscription="behind")
            await client.subscribe(1, topic=topic, subscription="ahead")
            sent = await client.publish_all(b"0", b"1")
            await client.ack_durably(*sent, number=1)

            async def earliest(query):
                found = await broker.get(f"{path}/stats?{query}")
                of_each = {name: each[OF_SUBSCRIPTION] for name, each in found["subscriptions"].items()}
                return found[OF_TOPIC], of_each

            wanted = "getPreciseBacklog=true&getEarliestTimeInBacklog=true"
            assert await earliest("getPreciseBacklog=true") == (0, {"behind": 0, "ahead": 0})
            assert await earliest(wanted) == (PUBLISHED_MS, {"behind": PUBLISHED_MS, "ahead": -1})
            await client.ack_durably(*sent, number=0)
            assert await earliest(wanted) == (0, {"behind": -1, "ahead": -1})

    run(main())
