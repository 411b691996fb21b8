"""Requests for all partitions of a topic."""

import asyncio
from typing import Any

import pytest

from mledger.broker.admin_rest.fan_out import (
    FanOut,
    plan_first_error,
    plan_headers,
    plan_partition_request,
    plan_request_for,
)
from mledger.broker.admin_rest.http_server import AdminHttpServer
from mledger.broker.admin_rest.requests import DONE, NO_CONTENT, AdminAnswer, AdminRequest, redirect_to
from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.security.peer_settings import PeerSettings
from mledger.broker.security.security_settings import SecuritySettings
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.network.listening_port import bind_listener

UNREAD: Any = None
OPEN = BrokerSecurity(SecuritySettings(), UNREAD)
PEERS = PeerSettings(token="of-the-broker")
TOPIC = TopicName.parse("persistent://t/n/a b")


def test_a_partition_is_asked_the_same_without_the_flag_of_the_first_broker():
    query = {"authoritative": "true", "force": "true"}
    request = AdminRequest("POST", "/admin/v2/persistent/t/n/a%20b/subscription/s/skip_all", query, body=b"1")
    asked = plan_partition_request(request, TOPIC.partition(2))
    assert asked.path == "/admin/v2/persistent/t/n/a%20b-partition-2/subscription/s/skip_all"
    assert (asked.query, asked.body, asked.method) == ({"force": "true"}, b"1", "POST")


def test_another_request_of_a_client_has_its_credentials():
    certificate, headers = {"subject": ()}, {"authorization": "x"}
    asked = AdminRequest("POST", "/a", {"q": "1"}, headers, b"body", encrypted=True, certificate=certificate)
    made = plan_request_for(asked, "DELETE", "/b", query={"force": "true"})
    assert made == AdminRequest("DELETE", "/b", {"force": "true"}, headers, encrypted=True, certificate=certificate)


def test_one_serious_error_is_the_answer_and_an_accepted_one_only_if_all_have_it():
    gone, broken = AdminAnswer(404), AdminAnswer(500)
    assert plan_first_error([DONE, NO_CONTENT]) is None
    assert plan_first_error([DONE, gone, broken], accepted=(404,)) is broken
    assert plan_first_error([DONE, gone], accepted=(404,)) is None
    assert plan_first_error([gone, gone], accepted=(404,)) is gone


def test_requests_for_this_broker_are_answered_in_order():
    async def answer(request):
        await asyncio.sleep(0)
        return AdminAnswer(body=request.path.encode())

    async def main():
        requests = [AdminRequest("GET", f"/{index}") for index in range(40)]
        return await FanOut(answer, OPEN).ask_all(requests)

    assert [each.body for each in asyncio.run(main())] == [f"/{index}".encode() for index in range(40)]


def asked_elsewhere(elsewhere, request):
    """The answer to a request that is redirected to another server, where `elsewhere` answers."""

    async def main():
        listener = bind_listener("127.0.0.1", 0)
        server = AdminHttpServer(elsewhere, {})
        server.start_on(listener)
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/a"
            return await FanOut(lambda _: _answered(redirect_to(url)), OPEN).ask(request)
        finally:
            await server.close()
            listener.close()

    return asyncio.run(main())


def test_a_long_answer_of_another_broker_arrives_whole():
    sent = b"x" * (3 << 20)

    async def elsewhere(_):
        return AdminAnswer(body=sent)

    assert len(asked_elsewhere(elsewhere, AdminRequest("GET", "/a")).body) == len(sent)


def test_a_message_with_large_properties_arrives_from_another_broker():
    properties = "x" * 200_000

    async def elsewhere(_):
        return AdminAnswer(body=b"payload", headers={"X-Pulsar-PROPERTY": properties})

    answer = asked_elsewhere(elsewhere, AdminRequest("GET", "/a"))
    assert (answer.status, answer.headers["X-Pulsar-PROPERTY"]) == (200, properties)


def test_another_broker_is_told_whom_a_proxy_speaks_for():
    given = {"authorization": "Bearer of-the-proxy", "x-original-principal": "app"}
    seen = []

    async def elsewhere(request):
        seen.append({name: request.headers.get(name) for name in given})
        return DONE

    asked_elsewhere(elsewhere, AdminRequest("GET", "/a", headers=given))
    assert seen == [given]


@pytest.mark.parametrize("given", [{}, {"x-original-principal": "app"}], ids=["by_itself", "of_a_proxy"])
def test_a_request_without_credentials_goes_on_with_those_of_the_broker(given):
    request = AdminRequest("GET", "/a", headers={"content-type": "x", **given})
    assert plan_headers(request, PEERS) == {"content-type": "x", "authorization": "Bearer of-the-broker"}
    assert plan_headers(request, PeerSettings(certificate="c", key="k")) == {"content-type": "x"}


def test_a_client_with_a_token_is_asked_for_with_that():
    given = {"authorization": "Bearer of-the-client", "x-original-principal": "app"}
    assert plan_headers(AdminRequest("GET", "/a", headers=given), PEERS) == given


async def _answered(answer):
    return answer
