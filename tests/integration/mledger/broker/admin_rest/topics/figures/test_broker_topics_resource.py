"""The figures of all topics of a broker."""

from tests.support.admin_rest import web_served
from tests.support.aio import run


def test_the_figures_of_all_topics_are_shown_by_namespace_and_bundle(broker_url, topic):
    unstored = topic.replace("persistent", "non-persistent")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.producer(1, topic=unstored)
            await client.subscribe(1, topic=unstored, permits=10)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.messages(3)
            await client.ack_durably(sent[0])
            await broker.done("PUT", f"{topic.replace('://', '/')}/subscription/unused")
            found = await broker.get("broker-stats/topics")
            bundles = {each.range for each in broker.broker.owners.owned}
            assert set(found) == {"public/default"}
            assert set(found["public/default"]) <= bundles
            shown = {}
            for kinds in found["public/default"].values():
                for kind, topics in kinds.items():
                    shown |= {(kind, name): each for name, each in topics.items()}
        assert set(shown) == {("persistent", topic), ("non-persistent", unstored)}
        stored = shown["persistent", topic]
        assert (stored["producerCount"], stored["msgInCount"], stored["msgOutCount"]) == (1, 3, 3)
        assert [each["producerId"] for each in stored["publishers"]] == [0]
        assert stored["pendingAddEntriesCount"] == 0
        one, unused = stored["subscriptions"]["sub"], stored["subscriptions"]["unused"]
        assert (one["type"], one["msgBacklog"], one["unackedMessages"]) == ("Shared", 2, 2)
        assert one["numberOfEntriesSinceFirstNotAckedMessage"] == 2
        assert one["consumers"][0]["unackedMessages"] == 2
        assert (unused["consumers"], unused["msgBacklog"]) == ([], 0)
        assert shown["non-persistent", unstored]["subscriptions"]["sub"]["msgDropRate"] == 0.0

    run(main())


def test_a_broker_without_open_topics_has_no_figures(unshared_url):
    async def main():
        async with web_served(unshared_url) as broker:
            assert await broker.get("broker-stats/topics") == {}

    run(main())
