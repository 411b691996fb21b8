"""A page of another site changes nothing over HTTP, and programs change what they could."""

import pytest

from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED

ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example", "Content-Type": "text/plain"}
REBOUND = {"Host": "evil.example:8080", "Origin": "http://evil.example:8080"}


@pytest.mark.parametrize("headers", [ELSEWHERE, {"Origin": "null"}, REBOUND], ids=["browser", "old browser", "rebound"])
def test_a_page_of_another_site_clears_no_backlog(broker_url, topic, headers):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            await client.producer(topic=topic)
            await client.publish_all(b"1", b"2")
            path = topic.replace("://", "/")
            answer = await broker.ask("POST", f"{path}/subscription/sub/skip_all", **headers)
            assert (answer.status, "reason" in answer.json) == (403, True)
            stats = await broker.get(f"{path}/stats")
            assert stats["subscriptions"]["sub"]["msgBacklog"] == 2
            await broker.done("POST", f"{path}/subscription/sub/skip_all")
            stats = await broker.get(f"{path}/stats")
            assert stats["subscriptions"]["sub"]["msgBacklog"] == 0
            client.close()

    run(main())


def test_where_credentials_are_needed_the_broker_may_have_any_name(broker_url, topic):
    """A page that had a name lead to this broker has no credentials for it."""

    async def main():
        async with web_served(broker_url, *SECURED) as broker:
            path, body = f"tenants/{topic.rsplit('/', 1)[1]}", {"adminRoles": [], "allowedClusters": ["standalone"]}
            assert (await broker.ask("PUT", path, body, **ELSEWHERE)).status == 403
            assert (await broker.ask("PUT", path, body, **REBOUND)).status == 204

    run(main())
