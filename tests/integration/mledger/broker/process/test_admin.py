"""A broker's read-only admin API: the figures of its topics, at Pulsar's paths and under Pulsar's names."""

from mledger.broker.process.admin import BrokerAdmin
from mledger.metastore.runtime.network.http import HttpServer
from tests.support.aio import run
from tests.support.http import get
from tests.support.served_broker import served


def path_of(topic, what):
    return f"/admin/v2/persistent/{topic.removeprefix('persistent://')}/{what}"


def test_figures_are_those_of_the_clients_and_nothing_is_opened(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[1])
            admin = BrokerAdmin(broker.broker)
            server = HttpServer(admin.routes, admin.below)
            port = await server.start("127.0.0.1", 0)
            try:
                stats = (await get(port, path_of(topic, "stats"))).json
                internal = (await get(port, path_of(topic, "internalStats"))).json
                assert (await get(port, path_of(topic, "subscriptions"))).json == ["sub"]
                for wrong in (path_of(topic, "nothing"), path_of(f"{topic}-other", "stats"), "/admin/v2/persistent/x"):
                    assert (await get(port, wrong)).status == 404
                assert len(broker.broker.topics.open) == 1
            finally:
                await server.close()
        assert (stats["msgInCounter"], stats["msgOutCounter"], stats["storageSize"] > 0) == (3, 3, True)
        (publisher,) = stats["publishers"]
        assert (publisher["accessMode"], publisher["clientVersion"]) == ("Shared", "raw")
        subscription = stats["subscriptions"]["sub"]
        assert (subscription["type"], subscription["msgBacklog"], subscription["unackedMessages"]) == ("Shared", 2, 2)
        (consumer,) = subscription["consumers"]
        assert (consumer["availablePermits"], consumer["unackedMessages"], consumer["msgOutCounter"]) == (7, 2, 3)
        ledger = sent[0].ledger_id
        assert internal["lastConfirmedEntry"] == f"{ledger}:2"
        assert internal["cursors"]["sub"]["individuallyDeletedMessages"] == f"[({ledger}:0..{ledger}:1]]"

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
