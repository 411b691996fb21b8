"""Messages are shown with Pulsar's headers, and stay where they are."""

from tests.support.admin_rest import web_served
from tests.support.aio import run


def path_of(topic):
    return topic.replace("://", "/")


def test_unacknowledged_messages_are_peeked_in_order(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            sent = await client.publish_all(b"0", b"1", b"2", b"3")
            await client.messages(4)
            await client.ack_durably(sent[1])
            path = f"{path_of(topic)}/subscription/sub/position"
            bodies = [(await broker.ask("GET", f"{path}/{place}")).body for place in (1, 2, 3)]
            assert bodies == ["0", "2", "3"]
            answer = await broker.ask("GET", f"{path}/2")
            assert answer.headers["X-Pulsar-Message-ID".lower()] == str(sent[2])
            assert answer.headers["x-pulsar-producer-name"] == "raw"
            assert await broker.refused("GET", f"{path}/4") == (404, "Message not found")
            assert (await broker.refused("GET", f"{path}/0"))[0] == 412
            stats = await broker.get(f"{path_of(topic)}/stats")
            assert stats["subscriptions"]["sub"]["msgBacklog"] == 3

    run(main())


def test_messages_are_found_by_id_by_place_and_by_time(broker_url, topic):
    async def main():
        async with web_served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            path = path_of(topic)
            by_id = f"{path}/ledger/{sent[1].ledger_id}/entry"
            assert (await broker.ask("GET", f"{by_id}/1")).body == "1"
            assert (await broker.refused("GET", f"{by_id}/7"))[0] == 404
            assert (
                await broker.ask("GET", f"{path}/examinemessage?initialPosition=earliest&messagePosition=3")
            ).body == "2"
            assert (await broker.ask("GET", f"{path}/examinemessage")).body == "2"
            last = await broker.get(f"{path}/lastMessageId")
            assert (last["ledgerId"], last["entryId"], last["partitionIndex"]) == (*sent[2], -1)
            assert (await broker.get(f"{path}/messageid/0"))["entryId"] == 0
            assert (await broker.get(f"{path}/messageid/5"))["entryId"] == 3
            assert (await broker.refused("GET", f"{path}-no/lastMessageId"))[0] == 404

    run(main())
