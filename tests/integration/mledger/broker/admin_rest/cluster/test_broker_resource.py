"""What the API says of the brokers."""

from mledger.broker.dynamic_settings import CONFIGURATION, DYNAMIC_KEYS
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.metadata.namespaces import create_namespace


def test_live_brokers_and_their_bundles_are_listed(broker_url, topic):
    async def main():
        async with web_served(broker_url) as one, web_served(broker_url) as other:
            names = {f"127.0.0.1:{each.web_port}" for each in (one, other)}
            assert set(await one.get("brokers/standalone")) == names
            own = f"persistent://own/{topic.rsplit('/', 1)[1]}/t"
            await create_namespace(one.cluster.store, own.removeprefix("persistent://").removesuffix("/t"))
            client = await one.connect()
            await client.producer(topic=own)
            owner = None
            for name in names:
                owned = await one.get(f"brokers/standalone/{name}/ownedNamespaces")
                owner = name if any(bundle.startswith(own.split("/")[2]) for bundle in owned) else owner
            assert owner == f"127.0.0.1:{one.web_port}"
            assert (await one.refused("GET", "brokers/standalone/nobody:1/ownedNamespaces"))[0] == 404

    run(main())


def test_health_version_and_settings_are_shown(broker_url):
    async def main():
        async with web_served(broker_url, "defaultNumPartitions=3") as broker:
            assert (await broker.ask("GET", "brokers/health")).body == "ok"
            assert (await broker.ask("GET", "brokers/version")).body
            assert (await broker.get("brokers/configuration/runtime"))["defaultNumPartitions"] == "3"
            assert (await broker.get("brokers/internal-configuration"))["ledgersRootPath"] == "/ledgers"
            assert await broker.refused("GET", "brokers/leaderBroker") == (404, "Couldn't find leader broker")

    run(main())


def test_a_setting_that_is_changed_holds_for_open_topics_until_it_is_removed(unshared_url):
    async def main():
        async with web_served(unshared_url, "maxPublishRatePerTopicInMessages=5") as broker:
            base, name = "brokers/configuration", "maxPublishRatePerTopicInMessages"
            assert (await broker.get(base), await broker.get(f"{base}/values")) == (list(DYNAMIC_KEYS), {})
            client = await broker.connect()
            await client.producer(0, "persistent://public/default/a")
            await client.producer(1, "non-persistent://public/default/b")
            for value in (7, 9):
                await broker.done("POST", f"{base}/{name}/{value}")
                assert [rate_of(each) for each in broker.broker.topics.open] == [value, value]
            await broker.done("POST", f"{base}/allowAutoTopicCreation/false")
            values = {name: "9", "allowAutoTopicCreation": "false"}
            assert await broker.get(f"{base}/values") == values
            runtime = await broker.get(f"{base}/runtime")
            assert {key: runtime[key] for key in values} == values
            refused = await client.request(
                pb.BaseCommand.PRODUCER, "producer", "error", topic="persistent://public/default/c", producer_id=2
            )
            assert refused.error == pb.TopicNotFound
            for key in values:
                await broker.done("DELETE", f"{base}/{key}")
            assert [rate_of(each) for each in broker.broker.topics.open] == [5, 5]
            await client.producer(3, "persistent://public/default/c")
            assert await broker.get(f"{base}/values") == {}

    run(main())


def rate_of(topic):
    """How many messages per second the topic takes: what it says, and what it does."""
    assert topic.publish_limits.limiters
    return topic.settings.publish_messages_per_s


def test_settings_that_cannot_change_are_refused_and_nothing_is_stored(unshared_url):
    async def main():
        async with web_served(unshared_url) as broker:
            base = "brokers/configuration"
            assert (await broker.refused("POST", f"{base}/maxTenants/1000"))[0] == 501
            assert (await broker.refused("DELETE", f"{base}/maxTenants"))[0] == 501
            assert await broker.refused("POST", f"{base}/x/1") == (412, "Can't update non-dynamic configuration")
            assert await broker.refused("DELETE", f"{base}/x") == (412, "Can't delete non-dynamic configuration")
            status, why = await broker.refused("POST", f"{base}/maxTopicsPerNamespace/many")
            assert (status, why.startswith("Invalid dynamic-config value")) == (412, True)
            assert await broker.cluster.store.exists(CONFIGURATION) is None

    run(main())
