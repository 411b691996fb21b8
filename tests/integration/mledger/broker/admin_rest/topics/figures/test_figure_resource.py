"""The figures of topics, at Pulsar's paths and under Pulsar's names."""

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def path_of(topic, what):
    return f"persistent/{topic.removeprefix('persistent://')}/{what}"


def test_figures_are_those_of_the_clients_and_nothing_is_created(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[1])
            stats = await broker.get(path_of(topic, "stats"))
            internal = await broker.get(path_of(topic, "internalStats"))
            assert await broker.get(path_of(topic, "subscriptions")) == ["sub"]
            assert await broker.refused("GET", path_of(f"{topic}-other", "stats")) == (
                404,
                f"Topic {topic}-other not found",
            )
            assert len(broker.broker.topics.open) == 1
        assert (stats["msgInCounter"], stats["msgOutCounter"], stats["storageSize"] > 0) == (3, 3, True)
        (publisher,) = stats["publishers"]
        assert (publisher["accessMode"], publisher["clientVersion"]) == ("Shared", "raw")
        subscription = stats["subscriptions"]["sub"]
        assert (subscription["type"], subscription["msgBacklog"], subscription["unackedMessages"]) == ("Shared", 2, 2)
        (consumer,) = subscription["consumers"]
        assert (consumer["availablePermits"], consumer["unackedMessages"], consumer["msgOutCounter"]) == (7, 2, 3)
        assert (stats["backlogQuotaLimitSize"], stats["backlogQuotaLimitTime"]) == (-1, -1)
        assert (subscription["msgBacklogNoDelayed"], subscription["msgInReplay"]) == (2, 0)
        assert internal["entriesAddedCounter"] == 3
        assert internal["lastLedgerCreatedTimestamp"].endswith("Z")
        assert internal["cursors"]["sub"]["numberOfEntriesSinceFirstNotAckedMessage"] == 3
        ledger = sent[0].ledger_id
        assert internal["lastConfirmedEntry"] == f"{ledger}:2"
        assert internal["cursors"]["sub"]["individuallyDeletedMessages"] == f"[({ledger}:0..{ledger}:1]]"

    run(main())


def test_clients_are_left_out_where_the_request_says_it(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            path = path_of(topic, "stats")
            without_publishers = await broker.get(f"{path}?excludePublishers=true")
            without_consumers = await broker.get(f"{path}?excludeConsumers=true")
        shown = [
            (len(each["publishers"]), len(each["subscriptions"]["sub"]["consumers"]))
            for each in (without_publishers, without_consumers)
        ]
        assert shown == [(0, 1), (1, 0)]

    run(main())


def test_a_topic_that_is_opened_for_its_figures_has_all_subscriptions(broker_url, topic):
    names = [f"sub-{number}" for number in range(5)]

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            (sent,) = await client.publish_all(b"0")
            for number, name in enumerate(names):
                await client.subscribe(number, topic=topic, subscription=name)
                await client.ack_durably(sent, number=number)
            found = []
            for what in ("stats", "internalStats", "subscriptions"):
                await broker.done("PUT", path_of(topic, "unload"))
                found.append(await broker.get(path_of(topic, what)))
        stats, internal, listed = found
        assert list(stats["subscriptions"]) == list(internal["cursors"]) == listed == names

    run(main())


def test_a_topic_that_is_not_open_stays_so_where_the_request_says_it(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            for what in ("stats", "internalStats", "subscriptions"):
                assert await broker.get(path_of(topic, f"{what}?open=false")) == await broker.get(path_of(topic, what))
            await broker.done("PUT", path_of(topic, "unload"))
            for what in ("stats", "internalStats", "subscriptions"):
                refused = await broker.refused("GET", path_of(topic, f"{what}?open=false"))
                assert refused == (404, f"Topic {topic} not found")
            assert broker.broker.topics.open == []

    run(main())


def test_the_active_consumer_of_a_failover_subscription_is_named(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, subType="Failover", consumer_name="first")
            (opened,) = broker.broker.topics.open
            (subscription,) = opened.subscriptions
            assert subscription.active_consumer.name == "first"

    run(main())


def test_figures_of_a_topic_that_is_not_stored(broker_url, topic):
    live = topic.replace("persistent", "non-persistent")
    path = live.replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=live)
            await client.subscribe(1, topic=live, subType="Failover", consumer_name="first", permits=1)
            for sequence in range(3):
                client.publish(b"four", sequence)
            while broker.broker.topics.nonpersistent[0].messages_in < 3:
                await client.receive()
            stats = await broker.get(f"{path}/stats")
            assert await broker.get(f"{path}/subscriptions") == ["sub"]
            assert await broker.get(f"{path}/internalStats") == {"ledgers": [], "cursors": {"sub": {}}}
        assert (stats["msgInCounter"], stats["msgOutCounter"]) == (3, 1)
        assert stats["msgDropRate"] > 0
        (publisher,) = stats["publishers"]
        assert publisher["msgDropCounter"] == 0
        subscription = stats["subscriptions"]["sub"]
        assert (subscription["type"], subscription["activeConsumerName"]) == ("Failover", "first")
        assert (subscription["msgDropCounter"], subscription["msgBacklog"]) == (2, 0)
        (consumer,) = subscription["consumers"]
        assert (consumer["availablePermits"], consumer["msgOutCounter"]) == (0, 1)

    run(main())


def test_the_size_of_what_lies_after_a_message(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2", b"3")
            path = path_of(topic, "backlogSize")
            total = (await broker.get(path_of(topic, "stats")))["storageSize"]

            async def size(ledger, entry):
                answer = await broker.ask("PUT", path, {"ledgerId": ledger, "entryId": entry})
                assert answer.status == 200, answer
                return answer.json

            assert await size(-1, -1) == total
            assert await size(*sent[0]) == total * 3 // 4
            assert await size(*sent[-1]) == 0
            assert (await broker.refused("PUT", path_of(f"{topic}-other", "backlogSize"), {}))[0] == 404

    run(main())


def test_the_partitions_of_a_topic_that_is_not_stored_are_summed(broker_url, topic):
    path = topic.replace("persistent", "non-persistent").replace("://", "/")

    async def main():
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path}/partitions", 2)
            client = await broker.connect()
            for index in range(2):
                await client.producer(index, topic=f"{path.replace('/', '://', 1)}-partition-{index}")
                client.publish(b"0", 0, index)
                await client.expect("send_receipt")
            found = await broker.get(f"{path}/partitioned-stats")
        assert found["metadata"] == {"partitions": 2, "deleted": False}
        assert (found["msgInCounter"], len(found["publishers"]), len(found["partitions"])) == (2, 2, 2)

    run(main())


def test_the_stored_records_of_a_topic_and_its_cursors_are_shown(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic)
            (sent,) = await client.publish_all(b"0")
            found = await broker.get(path_of(topic, "internal-info"))
            assert [each["ledgerId"] for each in found["ledgers"]] == [sent.ledger_id]
            assert list(found["cursors"]) == ["sub"]
            assert "terminatedPosition" not in found
            await broker.done("POST", path_of(topic, "terminate"))
            found = await broker.get(path_of(topic, "internal-info"))
            assert found["terminatedPosition"] == {"ledgerId": sent.ledger_id, "entryId": sent.entry_id}
            assert (await broker.refused("GET", path_of(f"{topic}-other", "internal-info")))[0] == 404

    run(main())
