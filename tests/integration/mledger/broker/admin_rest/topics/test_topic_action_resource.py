"""Topics are unloaded, terminated and emptied under their clients."""

from tests.support.admin_rest import web_served
from tests.support.aio import run


def path_of(topic):
    return topic.replace("://", "/")


def test_an_unloaded_topic_is_opened_again_when_a_client_comes_back(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0")
            await broker.done("PUT", f"{path_of(topic)}/unload")
            await client.expect("close_producer")
            assert not [each for each in broker.broker.topics.open if str(each.name) == topic]
            other = await broker.connect()
            await other.subscribe(topic=topic, permits=1)
            assert [each.position for each in await other.messages(1)] == sent
            assert (await broker.refused("PUT", f"{path_of(topic)}-no/unload"))[0] == 404

    run(main())


def test_a_terminated_topic_takes_no_more_messages(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            path = path_of(topic)
            for _ in range(2):
                answer = await broker.ask("POST", f"{path}/terminate")
                assert (answer.json["ledgerId"], answer.json["entryId"]) == sent[1]
            await client.expect("close_producer")
            client.send(5, "producer", topic=topic, producer_id=1, request_id=client.next_request())
            assert "terminated" in (await client.expect("error")).message
            await client.subscribe(topic=topic, permits=10)
            assert len(await client.messages(2)) == 2

    run(main())


def test_a_truncated_topic_has_no_backlog(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            await client.publish_all(b"0", b"1")
            await broker.done("DELETE", f"{path_of(topic)}/truncate")
            stats = await broker.get(f"{path_of(topic)}/stats")
            assert stats["subscriptions"]["sub"]["msgBacklog"] == 0

    run(main())


def test_properties_are_set_beside_others_and_removed(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"{path_of(topic)}/properties"
            await broker.done("PUT", path_of(topic), {"a": "b"})
            await broker.done("PUT", path, {"c": "d"})
            assert await broker.get(path) == {"a": "b", "c": "d"}
            await broker.done("DELETE", f"{path}?key=a")
            assert await broker.get(path) == {"c": "d"}
            assert (await broker.refused("PUT", path, {"a": 1}))[0] == 400

    run(main())


def test_compaction_is_not_run_here_and_says_so(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"{path_of(topic)}/compaction"
            assert (await broker.refused("GET", path))[0] == 404
            await broker.done("PUT", path_of(topic))
            assert await broker.get(path) == {"status": "NOT_RUN", "lastError": ""}
            assert (await broker.refused("PUT", path))[0] == 501

    run(main())
