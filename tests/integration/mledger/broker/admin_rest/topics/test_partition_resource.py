"""Partitioned topics are created, get more partitions, and are deleted, wherever their partitions are served."""

from http import HTTPStatus

from mledger.broker.admin_rest.fan_out import FanOut
from mledger.broker.admin_rest.requests import AdminAnswer
from mledger.broker.admin_rest.topics.partition_resource import PartitionResource
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run


def path_of(topic):
    return topic.replace("://", "/")


def test_new_partitions_have_the_subscriptions_of_the_others(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 2)
            assert await broker.refused("PUT", f"{path}/partitions", 2) == (409, "This topic already exists")
            assert topic in await broker.get("persistent/public/default/partitioned")
            await broker.done("PUT", f"{path}/subscription/s")
            await broker.done("POST", f"{path}/partitions", 4)
            assert (await broker.get(f"{path}/partitions"))["partitions"] == 4
            for index in range(4):
                assert await broker.get(f"{path}-partition-{index}/subscriptions") == ["s"]
            await broker.done("POST", f"{path}/partitions", 4)
            assert (await broker.refused("POST", f"{path}/partitions", 3))[0] == 422
            await broker.done("DELETE", f"{path}/partitions")
            assert await broker.refused("GET", f"{path}/partitions") == (404, f"Topic {topic} not found")
            assert not [each for each in await broker.get("persistent/public/default") if each.startswith(topic)]

    run(main())


def test_clients_learn_of_new_partitions_once_these_have_the_subscriptions(broker_url, topic, monkeypatch):
    """Else a message that is published to one before another client subscribes there, at its end, is lost to it."""

    async def main():
        async with web_served(broker_url) as broker:
            path, ask_all, seen = path_of(topic), FanOut.ask_all, []
            await broker.done("PUT", f"{path}/partitions", 2)
            await broker.done("PUT", f"{path}/subscription/s")

            async def look_first(fan_out, requests):
                seen.append((await broker.get(f"{path}/partitions"))["partitions"])
                return await ask_all(fan_out, requests)

            monkeypatch.setattr(FanOut, "ask_all", look_first)
            await broker.done("POST", f"{path}/partitions", 4)
            assert seen == [2]
            assert (await broker.get(f"{path}/partitions"))["partitions"] == 4

    run(main())


def test_an_update_that_was_interrupted_is_completed_by_the_next_one(broker_url, topic, monkeypatch):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 1)
            await broker.done("PUT", f"{path}/subscription/s")

            async def fail(_, requests):
                return [AdminAnswer(HTTPStatus.SERVICE_UNAVAILABLE, b'{"reason": "busy"}') for _ in requests]

            with monkeypatch.context() as failing:
                failing.setattr(FanOut, "ask_all", fail)
                assert await broker.refused("POST", f"{path}/partitions", 2) == (503, "busy")
            assert (await broker.get(f"{path}/partitions"))["partitions"] == 1
            await broker.done("POST", f"{path}/partitions", 2)
            assert (await broker.get(f"{path}/partitions"))["partitions"] == 2
            assert await broker.get(f"{path}-partition-1/subscriptions") == ["s"]

    run(main())


def test_a_request_for_a_partitioned_topic_reaches_the_partitions_of_every_broker(broker_url, topic):
    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            name = topic.rsplit("/", 1)[1]
            await one.done("PUT", f"namespaces/public/{name}", {"bundles": {"numBundles": 16}})
            path = f"persistent/public/{name}/t"
            await one.done("PUT", f"{path}/partitions", 12)
            await one.done("PUT", f"{path}/subscription/s")
            owners = {each.web_port: len(each.broker.topics.open) for each in (one, other)}
            assert sum(owners.values()) == 12
            assert all(owners.values())
            assert await other.get(f"{path}/subscriptions") == ["s"]
            stats = await one.get(f"{path}/partitioned-stats")
            assert (len(stats["partitions"]), stats["metadata"]["partitions"]) == (12, 12)
            assert stats["subscriptions"]["s"]["msgBacklog"] == 0
            assert (await one.get(f"{path}/partitioned-stats?perPartition=false"))["partitions"] == {}
            assert len((await other.get(f"{path}/partitioned-internalStats"))["partitions"]) == 12
            await other.done("POST", f"{path}/subscription/s/skip_all")
            assert (await one.refused("PUT", f"{path}/subscription/s"))[0] == 409
            await one.done("DELETE", f"{path}/subscription/s")
            assert (await one.refused("DELETE", f"{path}/subscription/s"))[0] == 404
            answer = await one.ask("POST", f"{path}/terminate/partitions")
            assert set(answer.json) == {str(index) for index in range(12)}
            await other.done("DELETE", f"{path}/partitions")
            assert await one.get(f"persistent/public/{name}") == []

    run(main())


def test_clients_that_come_back_create_no_partitions_of_a_topic_that_is_deleted(broker_url, topic, monkeypatch):
    """Else they would publish to topics that no partitioned topic has, and that keep its name from a smaller one."""

    async def main():
        async with web_served(broker_url) as broker:
            path, ask_all, refused = path_of(topic), FanOut.ask_all, []
            await broker.done("PUT", f"{path}/partitions", 2)
            client = await broker.connect()

            async def come_back(fan_out, requests):
                answers = await ask_all(fan_out, requests)
                refused.append((await client.refused_producer(f"{topic}-partition-0")).error)
                return answers

            monkeypatch.setattr(FanOut, "ask_all", come_back)
            await broker.done("DELETE", f"{path}/partitions?force=true")
            refused.append((await client.refused_producer(f"{topic}-partition-1")).error)
            assert set(refused) == {pb.TopicNotFound}
            assert not [each for each in await broker.get("persistent/public/default") if each.startswith(topic)]

    run(main())


def test_partitions_in_use_keep_their_topic(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", {"partitions": 2, "properties": {"a": "b"}})
            assert (await broker.get(f"{path}/partitions"))["properties"] == {"a": "b"}
            live = topic.replace("persistent", "non-persistent")
            await broker.done("PUT", f"{path_of(live)}/partitions", 2)
            listed = await broker.get(f"non-persistent/{TopicName.parse(topic).namespace_name}/partitioned")
            assert live in listed
            assert topic not in listed
            client = await broker.connect()
            await client.producer(topic=f"{topic}-partition-1")
            assert (await broker.refused("DELETE", f"{path}/partitions"))[0] == 412
            found = await broker.get(f"{path}/partitions")
            assert (found["partitions"], found["deleted"]) == (2, False)
            await client.producer(1, topic=f"{topic}-partition-0")  # which is there again
            await broker.done("DELETE", f"{path}/partitions?force=true")

    run(main())


def test_partitions_that_store_nothing_stay_while_they_are_in_use(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            live = topic.replace("persistent", "non-persistent")
            path = f"{path_of(live)}/partitions"
            await broker.done("PUT", path, 2)
            client = await broker.connect()
            await client.producer(topic=f"{live}-partition-1")
            assert (await broker.refused("DELETE", path))[0] == 412
            assert (await broker.get(path))["partitions"] == 2
            await broker.done("DELETE", f"{path}?force=true")
            assert (await client.expect("close_producer")).producer_id == 0
            assert (await broker.get(path))["partitions"] == 0
            assert (await broker.refused("DELETE", path))[0] == 404

    run(main())


def test_wrong_kinds_of_topics_are_told_apart(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", path)
            assert (await broker.refused("DELETE", f"{path}/partitions"))[0] == 409
            assert (await broker.refused("POST", f"{path}/partitions", 3))[0] == 409
            assert (await broker.refused("PUT", f"{path}/partitions", 3))[0] == 409
            assert (await broker.refused("GET", f"{path}/partitioned-stats"))[0] == 404
            assert (await broker.refused("POST", f"{path}/terminate/partitions"))[0] == 405
            await broker.done("PUT", f"{path}-many/partitions", 1)
            assert (await broker.refused("GET", f"{path}-many-partition-0/partitioned-stats"))[0] == 412
            assert (await broker.refused("DELETE", f"{path}-many"))[0] == 409
            assert (await broker.refused("PUT", f"{path}-zero/partitions", 0))[0] == 406

    run(main())


def test_partitions_that_there_are_not_are_not_found(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 1)
            await broker.done("DELETE", f"{path}-partition-0")
            assert (await broker.get(f"{path}-partition-0/partitions"))["partitions"] == 0  # it is of the topic still
            for name in ("-partition-1", "-other-partition-0"):
                refused = await broker.refused("GET", f"{path}{name}/partitions")
                assert refused == (404, f"Topic {topic}{name} not found")

    run(main())


def test_partitioned_topics_of_brokers_are_listed_if_asked(broker_url):
    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", "namespaces/public/of-brokers")
            await broker.done("PUT", "persistent/public/of-brokers/__change_events/partitions", 1)
            events = "persistent://public/of-brokers/__change_events"
            assert await broker.get("persistent/public/of-brokers/partitioned") == []
            assert await broker.get("persistent/public/of-brokers/partitioned?includeSystemTopic=true") == [events]

    run(main())


def test_partitions_that_a_topic_lacks_are_created(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 3)
            await broker.done("DELETE", f"{path}-partition-1")
            await broker.done("POST", f"{path}/createMissedPartitions")
            found = [each for each in await broker.get("persistent/public/default") if each.startswith(topic)]
            assert found == [f"{topic}-partition-{index}" for index in range(3)]
            assert (await broker.refused("POST", f"{path}-other/createMissedPartitions"))[0] == 404

    run(main())


def test_a_deletion_takes_the_partitions_of_an_update_that_was_cut_off(broker_url, topic, monkeypatch):
    """Else nobody could create the topic again with as few partitions as its record had."""

    async def cut_off(*_):
        raise StoreUnavailable("killed")

    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 1)
            with monkeypatch.context() as killed:
                killed.setattr(PartitionResource, "_subscribe", cut_off)
                assert (await broker.refused("POST", f"{path}/partitions", 3))[0] == 503
            await broker.done("DELETE", f"{path}/partitions")
            assert not [each for each in await broker.get("persistent/public/default") if each.startswith(topic)]
            await broker.done("PUT", f"{path}/partitions", 1)

    run(main())


def test_an_update_of_a_topic_that_is_deleted_meanwhile_creates_no_partitions(broker_url, topic, monkeypatch):
    async def main():
        async with web_served(broker_url) as broker:
            path = path_of(topic)
            await broker.done("PUT", f"{path}/partitions", 1)

            async def deleted_meanwhile(*_):
                await broker.done("DELETE", f"{path}/partitions")
                return set()

            monkeypatch.setattr(PartitionResource, "_subscriptions", deleted_meanwhile)
            assert (await broker.refused("POST", f"{path}/partitions", 3))[0] == 409
            assert not [each for each in await broker.get("persistent/public/default") if each.startswith(topic)]

    run(main())
