"""Subscriptions are created, moved and deleted while clients use them."""

import json
import time
from http import HTTPStatus

import pytest

from mledger.broker.admin_rest.admin_api import AdminApi
from mledger.broker.admin_rest.requests import AdminRequest
from mledger.broker.admin_rest.topics.message_position import MOST_IN_BATCH
from mledger.broker.process.http_guard import AdminGuard
from mledger.cursors.persistence.store import CursorStore
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.admin_rest import web_served
from tests.support.aio import run
from tests.support.brokers.served_broker import SECURED, credentials_of, entry_of, served, token_of
from tests.support.compacted_topics import compacted, publish_keyed, topic_of, view_of


def path_of(topic):
    return topic.replace("://", "/")


async def backlog(broker, topic, subscription="sub"):
    stats = await broker.get(f"{path_of(topic)}/stats")
    return stats["subscriptions"][subscription]["msgBacklog"]


async def published(broker, topic, count=5):
    """A client, and the positions of messages on a topic with the subscription `sub`."""
    client = await broker.connect()
    await client.producer(topic=topic)
    await broker.done("PUT", f"{path_of(topic)}/subscription/sub")
    return client, await client.publish_all(*(b"%d" % number for number in range(count)))


def test_a_subscription_begins_where_the_request_says(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            _, sent = await published(broker, topic)
            path = f"{path_of(topic)}/subscription"
            await broker.done("PUT", f"{path}/latest")
            await broker.done("PUT", f"{path}/earliest", "earliest")
            at = {"ledgerId": sent[3].ledger_id, "entryId": sent[3].entry_id, "properties": {"a": "b"}}
            await broker.done("PUT", f"{path}/at", at)
            assert await broker.refused("PUT", f"{path}/at") == (409, "Subscription already exists for topic")
            found = {name: await backlog(broker, topic, name) for name in ("sub", "latest", "earliest", "at")}
            assert found == {"sub": 5, "latest": 0, "earliest": 5, "at": 2}
            assert await broker.get(f"{path}/at/properties") == {"a": "b"}
            await broker.done("PUT", f"{path}/at/properties", {"c": "d"})
            assert await broker.get(f"{path}/at/properties") == {"c": "d"}
            assert (await broker.refused("PUT", f"{path}/pulsar.dedup"))[0] == 412
            assert (await broker.refused("PUT", f"{path}/x", "soon"))[0] == 400

    run(main())


def test_messages_are_skipped_expired_and_sought(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            _, sent = await published(broker, topic)
            path = f"{path_of(topic)}/subscription/sub"
            await broker.done("POST", f"{path}/skip/2")
            assert await backlog(broker, topic) == 3
            await broker.done("POST", f"{path}/skip_all")
            assert await backlog(broker, topic) == 0
            await broker.done("POST", f"{path}/resetcursor/0")
            assert await backlog(broker, topic) == 5
            ids = {"ledgerId": sent[3].ledger_id, "entryId": sent[3].entry_id}
            await broker.done("POST", f"{path}/resetcursor", ids)
            assert await backlog(broker, topic) == 2
            await broker.done("POST", f"{path}/resetcursor", ids | {"excluded": True})
            assert await backlog(broker, topic) == 1
            await broker.done("POST", f"{path}/resetcursor", {"ledgerId": -1, "entryId": -1})
            await broker.done("POST", f"{path}/expireMessages", ids)
            assert await backlog(broker, topic) == 1
            await broker.done("POST", f"{path}/resetcursor", "earliest")
            await broker.done("POST", f"{path}/expireMessages/0")
            assert await backlog(broker, topic) == 5
            await broker.done("POST", f"{path}/expireMessages/{int(time.time()) // 2}")  # published at 1 ms of 1970
            assert await backlog(broker, topic) == 0
            await broker.done("POST", f"{path}/resetcursor", "earliest")
            every = f"{path_of(topic)}/all_subscription/expireMessages/{int(time.time()) // 2}"
            await broker.done("POST", every)
            assert await backlog(broker, topic) == 0
            assert (await broker.refused("POST", f"{path}/expireMessages/60"))[0] == 409  # without a backlog
            for wrong in (f"{path}/skip/-1", f"{path}/resetcursor/-1"):
                assert (await broker.refused("POST", wrong))[0] == 412
            for wrong in (f"{path}/skip/many", f"{path}/expireMessages/99999999999"):
                assert (await broker.refused("POST", wrong))[0] == 400

    run(main())


def test_a_consumer_gets_what_a_reset_gives_back(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client, sent = await published(broker, topic, 3)
            await client.subscribe(topic=topic, permits=10)
            await client.messages(3)
            await client.ack_durably(*sent)
            await broker.done("POST", f"{path_of(topic)}/subscription/sub/resetcursor", "earliest")
            await client.expect("close_consumer")
            await client.subscribe(topic=topic, permits=10)
            assert [each.position for each in await client.messages(3)] == sent

    run(main())


def test_a_reset_into_a_batch_gives_back_the_rest_of_it(broker_url, topic):
    async def main():
        async with web_served(broker_url, "acknowledgmentAtBatchIndexLevelEnabled=true") as broker:
            client, _ = await published(broker, topic, 0)
            client.send(6, "send", payload=entry_of(b"batch", batch=4), producer_id=0, sequence_id=0, num_messages=4)
            receipt = await client.expect("send_receipt")
            place = {"ledgerId": receipt.message_id.ledgerId, "entryId": receipt.message_id.entryId, "batchIndex": 2}
            await broker.done("POST", f"{path_of(topic)}/subscription/sub/resetcursor", place)
            await client.subscribe(topic=topic, permits=10)
            (message,) = await client.messages(1)
            assert list(message.command.ack_set) == [0b1100]

    run(main())


def test_a_subscription_with_consumers_is_deleted_only_with_force(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client, _ = await published(broker, topic)
            await client.subscribe(topic=topic)
            path = f"{path_of(topic)}/subscription/sub"
            assert await broker.refused("DELETE", path) == (412, "Subscription has active connected consumers")
            await broker.done("DELETE", f"{path}?force=true")
            await client.expect("close_consumer")
            missing = f"Subscription sub not found for topic {topic}"
            assert await broker.refused("DELETE", path) == (404, missing)
            assert await broker.refused("POST", f"{path}/skip_all") == (404, missing)
            assert await broker.get(f"{path_of(topic)}/subscriptions") == []
            assert (await broker.refused("POST", f"{path_of(topic)}-no/subscription/sub/skip_all"))[0] == 404

    run(main())


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("POST", "subscription/sub/skip/1"),
        ("POST", "subscription/sub/skip_all"),
        ("POST", "subscription/sub/expireMessages/60"),
        ("DELETE", "truncate"),
    ],
)
def test_what_a_request_passes_is_held_no_longer_even_if_that_cannot_be_written_yet(
    broker_url, topic, monkeypatch, method, rest
):
    async def write(*_):
        raise StoreUnavailable("made to fail by the test")

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            await client.publish_all(b"old")
            await client.messages(1)
            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)
                assert (await broker.refused(method, f"{path_of(topic)}/{rest}"))[0] == 503
            (consumer,) = topic_of(broker, topic).subscriptions.get("sub").consumers
            assert consumer.dispatch.unacked == 0

    run(main())


@pytest.mark.parametrize("request_of", ["skip/1", "skip_all", "expireMessages/{seconds}", "expireMessages"])
def test_no_request_takes_from_compaction_what_it_has_not_compacted(broker_url, topic, request_of):
    """Readers of the compacted view would miss it: how far that goes is where compaction's cursor stands (C7)."""

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await publish_keyed(client, "a1")
            await compacted(broker, topic)
            (last,) = await publish_keyed(client, "b1")
            path = f"{path_of(topic)}/subscription/__compaction/{request_of.format(seconds=int(time.time()) // 2)}"
            body = None if "/" in request_of or "_" in request_of else {"ledgerId": last.ledger_id, "entryId": 1}
            assert (await broker.refused("POST", path, body))[0] == 412
            assert topic_of(broker, topic).managed_ledger.open_cursors["__compaction"].backlog == 1
            assert [values for _, values in await view_of(broker, topic)] == [["a1"], ["b1"]]

    run(main())


@pytest.mark.parametrize("by", ["request", "client"])
def test_the_cursor_of_compaction_begins_before_the_first_entry(broker_url, topic, by):
    """Wherever it was to begin: readers of the compacted view would miss all that came before (C7)."""

    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await publish_keyed(client, "a1")
            if by == "request":
                await broker.done("PUT", f"{path_of(topic)}/subscription/__compaction", "latest")
            else:
                await client.subscribe(topic=topic, subscription="__compaction", initialPosition="Latest")
                await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            await publish_keyed(client, "b1")
            await compacted(broker, topic)
            assert [values for _, values in await view_of(broker, topic)] == [["a1"], ["b1"]]

    run(main())


def test_a_subscription_whose_place_is_refused_is_not_created(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client, _ = await published(broker, topic, 0)
            count = MOST_IN_BATCH + 1
            client.send(6, "send", payload=entry_of(b"batch", batch=count), producer_id=0, sequence_id=0)
            at = (await client.expect("send_receipt")).message_id
            place = {"ledgerId": at.ledgerId, "entryId": at.entryId, "batchIndex": 2}
            assert (await broker.refused("PUT", f"{path_of(topic)}/subscription/new", place))[0] == 412
            assert await broker.get(f"{path_of(topic)}/subscriptions") == ["sub"]

    run(main())


def test_a_subscription_that_was_not_moved_to_its_place_can_be_created_again(broker_url, topic, monkeypatch):
    async def write(*_):
        raise StoreUnavailable("made to fail by the test")

    async def main():
        async with web_served(broker_url, "acknowledgmentAtBatchIndexLevelEnabled=true") as broker:
            client, sent = await published(broker, topic, 2)
            client.send(6, "send", payload=entry_of(b"batch", batch=4), producer_id=0, sequence_id=2, num_messages=4)
            at = (await client.expect("send_receipt")).message_id
            path = f"{path_of(topic)}/subscription"
            place = {"ledgerId": at.ledgerId, "entryId": at.entryId, "batchIndex": 2}
            with monkeypatch.context() as failing:
                failing.setattr(CursorStore, "write", write)  # of a cursor that is there; its creation is another one
                whole = {"ledgerId": sent[1].ledger_id, "entryId": sent[1].entry_id}
                await broker.done("PUT", f"{path}/whole", whole)
                assert (await broker.refused("PUT", f"{path}/part", place))[0] == 503
            await broker.done("PUT", f"{path}/part", place)
            assert [await backlog(broker, topic, name) for name in ("whole", "part")] == [2, 1]

    run(main())


def test_who_expires_messages_on_all_subscriptions_needs_the_right_to_each(broker_url, own_topic):
    async def main():
        async with served(broker_url, *SECURED) as broker:
            api = AdminApi(broker.broker, broker.cluster, AdminGuard(broker.broker.security).authorize)

            async def ask(role, method, path, body=None):
                shown = {"authorization": f"Bearer {token_of(role)}"}
                data = b"" if body is None else json.dumps(body).encode()
                return await api.answer(AdminRequest(method, f"/admin/v2/{path}", headers=shown, body=data))

            namespace, path = own_topic.split("/", 2)[2].rpartition("/")[0], path_of(own_topic)
            for role in ("billing", "audit"):
                await ask("admin", "POST", f"namespaces/{namespace}/permissions/{role}", ["consume"])
            await ask("admin", "POST", f"namespaces/{namespace}/permissions/subscription/kept", ["audit"])
            client = await broker.connect(**credentials_of("admin"))
            await client.producer(topic=own_topic)
            for name in ("kept", "open"):
                await ask("admin", "PUT", f"{path}/subscription/{name}")
            await client.publish_all(b"0")
            topic = broker.broker.topics.find(TopicName.parse(own_topic)).managed_ledger
            every = f"{path}/all_subscription/expireMessages/60"
            assert (await ask("billing", "POST", every)).status == HTTPStatus.UNAUTHORIZED
            assert topic.open_cursors["kept"].backlog == 1
            assert (await ask("audit", "POST", every)).status == HTTPStatus.NO_CONTENT
            assert topic.open_cursors["kept"].backlog == topic.open_cursors["open"].backlog == 0

    run(main())
