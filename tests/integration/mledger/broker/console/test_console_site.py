"""The console of a real broker over HTTP: what it shows, what it plans and carries out, and for whom."""

import jwt
import pytest

from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.console.visitor import Visitor, confirmation, console_served, text_of
from tests.support.metadata.namespaces import create_namespace, create_namespace_at

SECRET = b"s" * 32
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
HOSTILE = b"<script>alert(1)</script>"


def page_of(topic, *rest):
    return "/".join(["/topics", topic.replace("://", "/"), *rest])


async def published(broker, topic, *payloads):
    """A client, and the positions of messages on a topic with the subscription `sub`."""
    client = await broker.connect()
    await client.producer(topic=topic)
    await broker.done("PUT", f"{topic.replace('://', '/')}/subscription/sub")
    return client, await client.publish_all(*(payloads or (b"one", b"two", b"three", b"four", b"five")))


async def figures(broker, topic):
    stats = await broker.get(f"{topic.replace('://', '/')}/stats")
    return stats["subscriptions"]


def visited(test, url, *settings):
    async def main():
        async with console_served(url, *settings) as broker:
            await test(broker, Visitor(broker.web_port))

    run(main())


def test_pages_show_the_cluster_a_namespace_a_topic_and_a_subscription(broker_url, topic):
    async def test(broker, visitor):
        client, sent = await published(broker, topic)
        await client.subscribe(permits=3, topic=topic)
        await client.messages(3)
        await client.ack_durably(sent[1])
        assert "Cluster standalone" in await visitor.text("")
        assert topic in await visitor.text("")
        assert "public/default" in await visitor.text("/namespaces")
        local = topic.rsplit("/", 1)[1]
        assert f"{local} 4 1 1 1 " in await visitor.text("/namespaces/public/default", q=local)
        shown = await visitor.text(page_of(topic))
        assert "entries stored 5" in shown
        assert "sub 4 Exclusive 1 " in shown
        shown = await visitor.text(page_of(topic, "subscriptions/sub"))
        assert "backlog, in entries 4" in shown
        assert "acknowledged ranges above mark-delete 1" in shown
        fragment = await visitor.get(page_of(topic, "subscriptions/sub/figures"))
        assert "<html" not in fragment.body
        assert "backlog, in entries 4" in text_of(fragment)
        found = await visitor.get("/find", name=topic)
        assert (found.status, found.headers["location"]) == (303, f"/console{page_of(topic)}")

    visited(test, broker_url)


def test_a_topic_of_another_broker_is_listed_without_figures_and_its_page_has_them(broker_url, topic):
    local = topic.rsplit("/", 1)[1]
    own, others = (
        f"persistent://{create_namespace_at(broker_url, f'public/{local}-{name}')}/orders" for name in ("own", "others")
    )

    async def main():
        async with console_served(broker_url) as broker, console_served(broker_url) as other:
            visitor = Visitor(broker.web_port)
            clients = [await published(broker, own), await published(other, others)]
            assert "orders 5 1 1 0 " in await visitor.text(f"/namespaces/public/{local}-own")
            listed = await visitor.text(f"/namespaces/public/{local}-others")
            assert "orders" in listed
            assert "orders 5" not in listed
            shown = await visitor.text(page_of(others))
            assert "entries stored 5" in shown
            assert "sub 5 " in shown
            assert len(clients) == 2  # they stay connected until here

    run(main())


def test_messages_are_shown_safely(broker_url, topic):
    async def test(broker, visitor):
        await published(broker, topic, HOSTILE, b"\x00\xff\x1b[31m", b'{"a": 1}')
        answer = await visitor.get(page_of(topic, "subscriptions/sub/messages"))
        assert "<script>alert" not in answer.body
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.body
        assert "00 ff 1b 5b 33 31 6d" in answer.body
        assert '"a": 1' in text_of(answer)
        assert "payload JSON, 8 B" in await visitor.text(page_of(topic, "messages"), **{"from": "latest"})
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 3
        for path in ("", page_of(topic), "/static/console.css", "/nowhere"):
            headers = (await visitor.get(path)).headers
            assert "script-src 'self'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"

    visited(test, broker_url)


def test_a_restart_is_shown_before_it_happens(broker_url, topic):
    async def test(broker, visitor):
        client, sent = await published(broker, topic)
        await client.subscribe(permits=5, topic=topic)
        await client.messages(5)
        await client.ack_durably(sent[0], sent[3])
        shown = await visitor.text(page_of(topic, "restart"))
        assert f"mark-delete {sent[0]}" in shown
        assert "backlog 3 entries (now 3)" in shown
        assert "nothing that is acknowledged would be delivered again" in shown

    visited(test, broker_url)


def test_a_change_happens_as_planned_once_it_is_confirmed(broker_url, topic):
    async def test(broker, visitor):
        client, sent = await published(broker, topic)
        plan = await visitor.get(page_of(topic, "subscriptions/sub/changes/clear"))
        assert "backlog, in entries 5 0" in text_of(plan)
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 5
        await client.publish_all(b"later")
        done = await visitor.confirm(plan)
        assert (done.status, "it is done" in text_of(done)) == (200, True)
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 1, "what came after the plan stays"
        again = await visitor.confirm(plan)
        assert (again.status, "Nothing was done" in text_of(again)) == (409, True)
        back = await visitor.get(page_of(topic, "subscriptions/sub/changes/reset"), to=str(sent[2]))
        assert f"the next message that is delivered {sent[4].ledger_id}:5 {sent[2]}" in text_of(back)
        assert (await visitor.confirm(back)).status == 200
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 4

    visited(test, broker_url)


@pytest.mark.parametrize(
    ("change", "query", "left"),
    [
        ("skip", {"count": "2"}, 3),
        ("expire", {"seconds": "1"}, 0),
        ("reset", {"to": "latest"}, 0),
        ("reset", {"to": "2000-01-01T00:00"}, 0),
    ],
)
def test_a_cursor_is_moved(broker_url, topic, change, query, left):
    async def test(broker, visitor):
        await published(broker, topic)
        plan = await visitor.get(page_of(topic, f"subscriptions/sub/changes/{change}"), **query)
        assert f"backlog, in entries 5 {left}" in text_of(plan), text_of(plan)
        assert (await visitor.confirm(plan)).status == 200
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == left

    visited(test, broker_url)


def test_topics_and_subscriptions_are_created_and_deleted(broker_url, topic):
    async def test(broker, visitor):
        namespace, local = "/namespaces/public/default/changes/create-topic", topic.rsplit("/", 1)[1]
        assert (await visitor.confirm(await visitor.get(namespace, name=local, partitions="0"))).status == 200
        assert (await visitor.confirm(await visitor.get(namespace, name=f"{local}-p", partitions="3"))).status == 200
        assert "3 partitions" in await visitor.text(page_of(f"{topic}-p"))
        assert (await visitor.get(namespace, name=local, partitions="0")).status == 409
        plan = await visitor.get(page_of(topic, "changes/subscribe"), name="a/b&c", start="earliest")
        assert (await visitor.confirm(plan)).status == 200
        assert list(await figures(broker, topic)) == ["a/b&c"]
        assert "a/b&c" in await visitor.text(page_of(topic, "subscriptions/a%2Fb%26c"))
        plan = await visitor.get(page_of(topic, "subscriptions/a%2Fb%26c/changes/delete"))
        assert (await visitor.confirm(plan)).status == 200
        assert await figures(broker, topic) == {}
        plan = await visitor.get(page_of(f"{topic}-p", "whole/changes/delete"))
        assert (await visitor.confirm(plan)).status == 200
        plan = await visitor.get(page_of(topic, "changes/delete"))
        client = await broker.connect()
        await client.producer(topic=topic)
        await client.publish_all(b"unexpected")
        client.close()
        refused = await visitor.confirm(plan)
        assert (refused.status, "Nothing was done" in text_of(refused)) == (409, True)

    visited(test, broker_url)


def test_a_topic_is_unloaded_trimmed_truncated_and_terminated(broker_url, topic):
    async def test(broker, visitor):
        client, _ = await published(broker, topic)
        plan = await visitor.get(page_of(topic, "changes/unload"))
        assert "1 producer and 0 consumers look the topic up again" in text_of(plan)
        assert (await visitor.confirm(plan)).status == 200
        await client.expect("close_producer")
        plan = await visitor.get(page_of(topic, "changes/trim"))
        assert "There is nothing to do" in text_of(plan)
        plan = await visitor.get(page_of(topic, "changes/truncate"))
        assert "5 entries fewer" in text_of(plan)
        assert (await visitor.confirm(plan)).status == 200
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 0
        assert (await visitor.confirm(await visitor.get(page_of(topic, "changes/terminate")))).status == 200
        assert "the topic is terminated already" in (await visitor.text(page_of(topic, "changes/terminate"))).lower()

    visited(test, broker_url)


def test_a_topic_whose_name_is_also_in_addresses_is_changed(broker_url):
    async def test(broker, visitor):
        whole = "persistent://public/default/whole"
        await broker.done("PUT", whole.replace("://", "/"))
        answer = await visitor.confirm(await visitor.get(page_of(whole, "changes/delete")))
        assert f"Delete {whole}: it is done." in text_of(answer)
        assert (await visitor.get(page_of(whole))).status == 404

    visited(test, broker_url)


def test_a_confirmation_counts_only_with_the_seal_of_its_plan(broker_url, topic):
    async def test(broker, visitor):
        await published(broker, topic)
        plan = await visitor.get(page_of(topic, "subscriptions/sub/changes/skip"), count="2")
        path, form = confirmation(plan)
        for forged in ({**form, "plan": ""}, {**form, "plan": form["plan"][:-4] + "AAAA"}, {**form, "count": "5"}):
            assert (await visitor.post(path, forged)).status == 409
        assert (await visitor.post(path, form, Origin="https://evil.example")).status == 403
        assert (await visitor.post(path, form, **{"Sec-Fetch-Site": "cross-site"})).status == 403
        assert (await figures(broker, topic))["sub"]["msgBacklog"] == 5

    visited(test, broker_url)


def test_each_role_sees_and_does_what_it_may(broker_url, topic, tmp_path):
    (tmp_path / "key").write_bytes(SECRET)
    settings = (
        "authenticationEnabled=true",
        f"authenticationProviders={PROVIDER}Token",
        f"tokenSecretKey=file://{tmp_path / 'key'}",
        "authorizationEnabled=true",
        "superUserRoles=admin",
    )

    def token(role):
        return jwt.encode({"sub": role}, SECRET, "HS256")

    async def test(broker, visitor):
        namespace = topic.rsplit("/", 1)[1]
        await create_namespace(broker.cluster.store, f"public/{namespace}")
        name = f"persistent://public/{namespace}/orders"
        client = await broker.connect(auth_method_name="token", auth_data=token("admin").encode())
        await client.producer(topic=name)
        await client.publish_all(b"secret", b"more")
        right = {"Authorization": f"Bearer {token('admin')}"}
        allowed = await broker.ask("POST", f"namespaces/public/{namespace}/permissions/reader", ["produce"], **right)
        assert allowed.status in (200, 204), allowed
        await client.request(
            pb.BaseCommand.SUBSCRIBE,
            "subscribe",
            topic=name,
            subscription="sub",
            subType="Exclusive",
            consumer_id=1,
            initialPosition="Earliest",
        )

        refused = await visitor.get("")
        assert (refused.status, "Log in with the token" in text_of(refused)) == (401, True)
        assert "is needed" not in text_of(refused), "an alarm before anything is wrong"
        wrong = await visitor.post("/console/login", {"token": jwt.encode({"sub": "admin"}, b"f" * 32, "HS256")})
        assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
        assert "the token's signature is not" in text_of(wrong)

        async def logged_in(role):
            answer = await visitor.post("/console/login", {"token": token(role), "next": f"/console{page_of(name)}"})
            assert (answer.status, answer.headers["location"]) == (303, f"/console{page_of(name)}")
            cookie = answer.headers["set-cookie"]
            assert cookie.endswith("; Path=/console; HttpOnly; SameSite=Strict")
            return Visitor(visitor.port, Cookie=cookie.partition(";")[0])

        admin, reader, stranger = [await logged_in(role) for role in ("admin", "reader", "stranger")]
        assert "Delete the topic" in await admin.text(page_of(name))
        shown = await reader.text(page_of(name))
        assert "entries stored 2" in shown
        for hidden in ("Delete the topic", "Unload", "Last messages", "Policies in force", "Schema"):
            assert hidden not in shown
        assert (await reader.get(page_of(name, "messages"))).status == 403
        assert (await reader.get(page_of(name, "subscriptions/sub/changes/clear"))).status == 403
        assert (await reader.get(page_of(name, "changes/delete"))).status == 403
        assert f"public/{namespace}" in await reader.text("/namespaces")
        assert f"public/{namespace}" not in await stranger.text("/namespaces")
        for path in (page_of(name), f"/namespaces/public/{namespace}", page_of(name, "restart")):
            assert (await stranger.get(path)).status == 403

        plan = await admin.get(page_of(name, "subscriptions/sub/changes/clear"))
        assert (await reader.confirm(plan)).status == 403
        other = Visitor(visitor.port, Authorization=f"Bearer {jwt.encode({'sub': 'admin', 'x': 1}, SECRET, 'HS256')}")
        assert (await other.confirm(plan)).status == 409, "a plan is its user's"
        assert (await admin.confirm(plan)).status == 200
        out = await admin.post("/console/logout", {})
        assert (out.status, out.headers["set-cookie"].endswith("Max-Age=0")) == (303, True)

    visited(test, broker_url, *settings)
