"""Ids of messages by the numbers that the broker gave them."""

from mledger.metastore.records.paths import TopicName
from tests.support.admin_rest import web_served
from tests.support.aio import run

NUMBERED = "brokerEntryMetadataInterceptors=org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor"


def path_of(topic):
    return topic.replace("://", "/")


def test_a_message_is_found_by_its_number(broker_url, topic):
    async def main():
        async with web_served(broker_url, NUMBERED) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            path = f"{path_of(topic)}/getMessageIdByIndex"
            empty = (404, f"No messages found in topic {topic}")
            assert await broker.refused("GET", f"{path}?index=0") == empty
            sent = await client.publish_all(b"0", b"1", b"2")
            for index, position in enumerate(sent):
                assert await broker.get(f"{path}?index={index}") == {
                    "ledgerId": position.ledger_id,
                    "entryId": position.entry_id,
                    "partitionIndex": -1,
                    "batchIndex": -1,
                    "batchSize": 0,
                }
            assert (await broker.get(path))["entryId"] == 0
            assert await broker.refused("GET", f"{path}?index=3") == (404, "Message not found for index 3")
            assert await broker.refused("GET", f"{path}?index=-1") == (404, "Invalid message index: -1")
            for wrong in ("x", "1.5", "1" * 40):
                assert await broker.refused("GET", f"{path}?index={wrong}") == (400, "the index is not an integer")
            await broker.done("PUT", f"{path_of(topic)}-many/partitions", 2)
            assert (await broker.refused("GET", f"{path_of(topic)}-many/getMessageIdByIndex?index=0"))[0] == 405
            assert (await broker.refused("GET", f"{path_of(topic)}-none/getMessageIdByIndex?index=0"))[0] == 404

    run(main())


def test_messages_without_numbers_are_not_found_by_them(broker_url, topic):
    async def main():
        path = f"{path_of(topic)}/getMessageIdByIndex?index=0"
        async with web_served(broker_url) as broker:
            await broker.done("PUT", f"{path_of(topic)}/subscription/sub")
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            assert (await broker.refused("GET", path))[0] == 412
        async with web_served(broker_url, NUMBERED) as broker:
            why = "Broker entry metadata is not present in the message"
            assert await broker.refused("GET", path) == (412, why)

    run(main())


def test_before_the_first_kept_message_is_the_earliest_place(broker_url, topic):
    async def main():
        async with web_served(broker_url, NUMBERED) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await broker.cluster.opened[TopicName.parse(topic).managed_ledger_name].roll_over()
            await broker.done("DELETE", f"{path_of(topic)}/truncate")
            sent += await client.publish_all(b"3")
            found = await broker.get(f"{path_of(topic)}/getMessageIdByIndex?index=0")
            assert (found["ledgerId"], found["entryId"]) == (-1, -1)
            found = await broker.get(f"{path_of(topic)}/getMessageIdByIndex?index=3")
            assert (found["ledgerId"], found["entryId"]) == sent[3]

    run(main())
