"""Topics are unloaded, terminated and emptied under their clients."""

import asyncio

from mledger.metastore.errors import StoreUnavailable
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.compacted_topics import publish_keyed, topic_of, view_of


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
            assert (await broker.refused("PUT", path, {"a": [1]}))[0] == 400
            shadow = {"PULSAR.SHADOW_SOURCE": topic}
            assert (await broker.refused("PUT", path, shadow))[0] == 501
            await broker.done("PUT", f"{path_of(topic)}/unload")
            assert await broker.get(path) == {"c": "d"}  # it was opened again

    run(main())


async def ended(broker, path):
    """The status of a compaction that has ended."""
    while (found := await broker.get(path))["status"] == "RUNNING":
        pass
    return found


def test_properties_of_a_partitioned_topic_are_in_its_own_record(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"{path_of(topic)}/properties"
            await broker.done("PUT", f"{path_of(topic)}/partitions", 1)
            assert (await broker.ask("GET", path)).body == ""
            await broker.done("PUT", path, {"a": "b", "c": "d"})
            await broker.done("PUT", path, {"a": "e"})
            await broker.done("DELETE", f"{path}?key=c")
            assert await broker.get(path) == {"a": "e"}
            partitions = await broker.get(f"{path_of(topic)}/partitions")
            assert (partitions["partitions"], partitions["properties"]) == (1, {"a": "e"})
            assert await broker.get(f"{path_of(topic)}-partition-0/properties") == {}

    run(main())


def test_a_topic_is_compacted_and_its_status_says_so(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"{path_of(topic)}/compaction"
            for method in ("GET", "PUT"):
                assert (await broker.refused(method, path))[0] == 404
            await broker.done("PUT", path_of(topic))
            assert await broker.get(path) == {"status": "NOT_RUN", "lastError": ""}
            client = await broker.connect()
            await client.producer(topic=topic)
            await publish_keyed(client, "a1", "a2")
            assert (await broker.ask("PUT", path)).status == 204
            assert await ended(broker, path) == {"status": "SUCCESS", "lastError": ""}
            assert [values for _, values in await view_of(broker, topic)] == [["a2"]]

    run(main())


def test_a_compaction_under_way_and_one_that_failed_are_told(broker_url, topic, monkeypatch):
    async def main():
        async with web_served(broker_url) as broker:
            path = f"{path_of(topic)}/compaction"
            await broker.done("PUT", path_of(topic))
            assert (await broker.get(path))["status"] == "NOT_RUN"
            go_on = asyncio.Event()

            async def failing():
                await go_on.wait()
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(topic_of(broker, topic).compacted, "latest", failing)
            await broker.done("PUT", path)
            assert (await broker.get(path))["status"] == "RUNNING"
            assert await broker.refused("PUT", path) == (409, "Compaction already in progress")
            go_on.set()
            assert await ended(broker, path) == {"status": "ERROR", "lastError": "no server can be reached"}

    run(main())


def test_each_partition_of_a_topic_is_compacted(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path_of(topic)}/partitions", 2)
            await broker.done("PUT", f"{path_of(topic)}/compaction")
            for index in range(2):
                found = await ended(broker, f"{path_of(topic)}-partition-{index}/compaction")
                assert found["status"] == "SUCCESS"
            assert (await broker.refused("GET", f"{path_of(topic)}/compaction"))[0] == 404

    run(main())


def test_a_topic_is_compacted_by_itself_once_enough_was_published(broker_url, topic):
    async def main():
        async with web_served(broker_url, "brokerServiceCompactionThresholdInBytes=100") as broker:
            path = f"{path_of(topic)}/compaction"
            client = await broker.connect()
            await client.producer(topic=topic)
            await publish_keyed(client, "a1")
            opened = topic_of(broker, topic)
            await opened.compaction.start_if_due()
            assert "__compaction" in opened.managed_ledger.cursors
            assert (await broker.get(path))["status"] == "NOT_RUN"
            await publish_keyed(client, *(f"a{number}" for number in range(9)))
            await opened.compaction.start_if_due()
            assert (await ended(broker, path))["status"] == "SUCCESS"
            assert [values for _, values in await view_of(broker, topic)] == [["a8"]]

    run(main())


def test_a_truncation_keeps_what_deduplication_knows_also_after_a_crash(broker_url, topic):
    settings = ("brokerDeduplicationEnabled=true",)

    async def main():
        async with web_served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            await client.publish_all(b"0", b"1", b"2")
            await broker.done("DELETE", f"{path_of(topic)}/truncate")
            for opened in list(broker.cluster.opened.values()):
                await opened.abandon()  # as kill -9 would
        async with web_served(broker_url, *settings) as broker:
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_name="raw")).last_sequence_id == 2

    run(main())


def test_a_topic_that_is_not_stored_is_unloaded(broker_url, topic):
    path = topic.replace("persistent", "non-persistent").replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=path.replace("/", "://", 1))
            await broker.done("PUT", f"{path}/unload")
            await client.expect("close_producer")
            assert broker.broker.topics.nonpersistent == []
            assert (await broker.refused("PUT", f"{path}/unload"))[0] == 404

    run(main())
