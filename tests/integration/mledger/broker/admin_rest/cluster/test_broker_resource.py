"""What the API says of the brokers."""

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
            assert await broker.get("brokers/configuration") == []
            assert (await broker.get("brokers/configuration/runtime"))["defaultNumPartitions"] == "3"
            assert (await broker.get("brokers/internal-configuration"))["ledgersRootPath"] == "/ledgers"
            assert await broker.refused("GET", "brokers/leaderBroker") == (404, "Couldn't find leader broker")
            assert (await broker.refused("POST", "brokers/configuration/x/1"))[0] == 501

    run(main())
