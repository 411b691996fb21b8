"""Consumers over a real connection: subscribing, messages, acknowledgements, redelivery, seeks, and their end."""

import pytest

from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.served_broker import served

EARLIEST = pb.MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)


def payloads(messages):
    return [message.payload for message in messages]


def test_messages_come_in_order_as_far_as_permits_go(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(*(b"%d" % number for number in range(5)))
            await client.subscribe(topic=topic, permits=3)
            first = await client.messages(3)
            client.flow(10)
            rest = await client.messages(2)
            assert [message.position for message in first + rest] == sent
            assert payloads(first + rest) == [b"0", b"1", b"2", b"3", b"4"]

    run(main())


def test_a_waiting_consumer_gets_what_is_published(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            consumer = await broker.connect()
            await client.producer(topic=topic)
            await consumer.subscribe(topic=topic, permits=10)
            await client.publish_all(b"one")
            assert payloads(await consumer.messages(1)) == [b"one"]
            await client.publish_all(b"two", b"three")
            assert payloads(await consumer.messages(2)) == [b"two", b"three"]

    run(main())


def test_what_was_answered_acknowledged_does_not_come_back_after_a_crash(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(*(b"%d" % number for number in range(6)))
            await client.subscribe(topic=topic, permits=10)
            await client.messages(6)
            await client.ack_durably(sent[0], sent[3])
            for opened in list(broker.cluster.opened.values()):
                await opened.abandon()  # as kill -9 would
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic, permits=10)
            assert payloads(await client.messages(4)) == [b"1", b"2", b"4", b"5"]

    run(main())


def test_a_cumulative_acknowledgement_covers_what_is_before_it(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(*(b"%d" % number for number in range(4)))
            await client.subscribe(topic=topic, permits=10)
            await client.messages(4)
            await client.ack_durably(sent[2], kind="Cumulative")
            answer = await client.request(
                pb.BaseCommand.GET_LAST_MESSAGE_ID, "getLastMessageId", "getLastMessageIdResponse", consumer_id=0
            )
            assert Position(answer.consumer_mark_delete_position.ledgerId, 2) == sent[2]
            assert Position(answer.last_message_id.ledgerId, answer.last_message_id.entryId) == sent[3]

    run(main())


def test_the_rest_of_a_batch_comes_with_its_ack_set(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            client.publish(b"batch", num_messages=3)
            await client.expect("send_receipt")
            await client.subscribe(topic=topic, permits=10)
            (message,) = await client.messages(1)
            ids = [pb.MessageIdData(ledgerId=message.position.ledger_id, entryId=0, ack_set=[0b101])]
            client.send(pb.BaseCommand.ACK, "ack", consumer_id=0, ack_type="Individual", message_id=ids)
            client.send(
                pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, "redeliverUnacknowledgedMessages", consumer_id=0
            )
            (again,) = await client.messages(1)
            assert list(again.command.ack_set) == [0b101]

    run(main())


def test_an_exclusive_subscription_has_one_consumer(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            refused = await client.request(
                pb.BaseCommand.SUBSCRIBE,
                "subscribe",
                "error",
                topic=topic,
                subscription="sub",
                subType="Exclusive",
                consumer_id=1,
            )
            assert refused.error == pb.ConsumerBusy

    run(main())


def test_the_next_consumer_of_a_failover_subscription_takes_over_what_is_not_acknowledged(broker_url, topic):
    async def main():
        async with served(broker_url, "activeConsumerFailoverDelayTimeMillis=1") as broker:
            client, second = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Failover")
            assert (await client.expect("active_consumer_change")).is_active
            client.flow(10)
            await client.messages(3)
            await second.subscribe(topic=topic, subType="Failover", priority_level=1, permits=10)
            assert not (await second.expect("active_consumer_change")).is_active
            await client.ack_durably(sent[0])
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            assert (await second.expect("active_consumer_change")).is_active
            assert payloads(await second.messages(2)) == [b"1", b"2"]

    run(main())


@pytest.mark.parametrize(("where", "expected"), [("id", [b"1", b"2"]), ("earliest", [b"0", b"1", b"2"])])
def test_a_seek_closes_the_consumer_which_then_continues_there(broker_url, topic, where, expected):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(3)
            await client.ack_durably(sent[2], kind="Cumulative")
            to = EARLIEST if where == "earliest" else pb.MessageIdData(ledgerId=sent[1].ledger_id, entryId=1)
            client.send(pb.BaseCommand.SEEK, "seek", consumer_id=0, request_id=client.next_request(), message_id=to)
            assert (await client.expect("close_consumer")).consumer_id == 0
            await client.expect("success")
            await client.subscribe(topic=topic, permits=10)
            assert payloads(await client.messages(len(expected))) == expected

    run(main())


def test_an_unsubscribed_subscription_is_gone(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0")
            await client.subscribe(topic=topic)
            await client.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            (opened,) = (
                each for each in broker.cluster.opened.values() if each.name.endswith(topic.rpartition("/")[2])
            )
            assert opened.cursors == []

    run(main())


def test_a_subscription_with_other_consumers_is_deleted_by_force_only(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            for priority, each in enumerate((client, other)):
                await each.subscribe(topic=topic, subType="Failover", priority_level=priority)
            unsubscribe = pb.BaseCommand.UNSUBSCRIBE, "unsubscribe"
            assert (await client.expect("active_consumer_change")).is_active
            assert (await client.request(*unsubscribe, "error", consumer_id=0)).error == pb.MetadataError
            await client.request(*unsubscribe, consumer_id=0, force=True)
            await other.expect("active_consumer_change")
            assert (await other.expect("close_consumer")).consumer_id == 0

    run(main())


def test_a_lost_connection_leaves_its_messages_to_the_next_consumer(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, second = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(2)
            client.close()
            await client.closed()
            await second.subscribe(topic=topic, permits=10)
            assert payloads(await second.messages(2)) == [b"0", b"1"]

    run(main())
