"""Consumers over a real connection: subscribing, messages, acknowledgements, redelivery, and their end."""

import asyncio

import pytest

import mledger
from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import payloads, served

SHARED = pb.CommandSubscribe.Shared


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


def test_a_reader_starts_with_its_message_and_leaves_no_subscription(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            start = pb.MessageIdData(ledgerId=sent[1].ledger_id, entryId=sent[1].entry_id)
            await client.subscribe(topic=topic, subscription="r", durable=False, start_message_id=start, permits=10)
            assert payloads(await client.messages(2)) == [b"1", b"2"]
            opened = broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name]
            assert (opened.cursors, list(opened.non_durable_cursors)) == ([], ["r"])
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            assert list(opened.non_durable_cursors) == []

    run(main())


def test_what_the_broker_keeps_for_readers_goes_with_them(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            for name in ("r1", "r2"):
                await client.subscribe(topic=topic, subscription=name, durable=False)
                await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            (opened,) = broker.broker.topics.open
            assert not opened.subscriptions._locks

    run(main())


def test_cursors_that_are_no_subscriptions_do_not_count_against_the_most_that_a_topic_may_have(broker_url, topic):
    async def main():
        async with served(broker_url, "brokerDeduplicationEnabled=true", "maxSubscriptionsPerTopic=1") as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            fields = {"subscription": "more", "subType": "Exclusive", "consumer_id": 1}
            refused = await client.request(pb.BaseCommand.SUBSCRIBE, "subscribe", "error", topic=topic, **fields)
            assert refused.error == pb.NotAllowedError

    run(main())


def test_consumers_of_a_shared_subscription_divide_messages_and_get_each_others_back(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(*(b"%d" % number for number in range(4)))
            await client.subscribe(topic=topic, subType="Shared", permits=2)
            first = await client.messages(2)
            await other.subscribe(topic=topic, subType="Shared", permits=10)
            second = await other.messages(2)
            assert sorted(payloads(first + second)) == [b"0", b"1", b"2", b"3"]
            client.close()
            again = await other.messages(2)
            assert payloads(again) == payloads(first)
            assert [message.redeliveries for message in again] == [1, 1]

    run(main())


def test_a_negatively_acknowledged_message_comes_again_and_is_counted(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, subType="Shared", permits=10)
            first, _ = await client.messages(2)
            ids = [pb.MessageIdData(ledgerId=first.position.ledger_id, entryId=first.position.entry_id)]
            for count in (1, 2):
                client.send(
                    pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES,
                    "redeliverUnacknowledgedMessages",
                    consumer_id=0,
                    message_ids=ids,
                )
                (again,) = await client.messages(1)
                assert (again.position, again.redeliveries) == (first.position, count)

    run(main())


def test_a_key_goes_to_one_consumer_in_order(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            producer = await broker.connect()
            consumers = [await broker.connect(), await broker.connect()]
            await producer.producer(topic=topic)
            for each in consumers:
                await each.subscribe(topic=topic, subType="Key_Shared", permits=100)
            for sequence in range(40):
                producer.publish(b"%d" % sequence, sequence, key=f"k{sequence % 8}")
            received: list[tuple[int, int]] = []
            done = asyncio.Event()

            async def take(number: int) -> None:
                while True:
                    (message,) = await consumers[number].messages(1)
                    received.append((number, int(message.payload)))
                    if len(received) == 40:
                        done.set()

            tasks = [asyncio.ensure_future(take(number)) for number in range(2)]
            await done.wait()
            for task in tasks:
                task.cancel()
            for key in range(8):
                of_key = [(number, sequence) for number, sequence in received if sequence % 8 == key]
                assert len({number for number, _ in of_key}) == 1
                assert [sequence for _, sequence in of_key] == list(range(key, 40, 8))
            assert len({number for number, _ in received}) == 2

    run(main())


def test_consumer_stats_name_what_is_not_acknowledged(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1", b"2")
            await client.subscribe(topic=topic, subType="Shared", consumer_name="c", permits=10)
            await client.messages(3)
            await client.ack_durably(sent[0])
            ask = pb.BaseCommand.CONSUMER_STATS, "consumerStats", "consumerStatsResponse"
            stats = await client.request(*ask, consumer_id=0)
            assert (stats.consumerName, stats.type, stats.availablePermits) == ("c", "Shared", 7)
            assert (stats.unackedMessages, stats.msgBacklog) == (2, 2)
            assert (await client.request(*ask, consumer_id=1)).error_code == pb.ConsumerNotFound

    run(main())


def test_consumers_of_a_terminated_topic_are_told_its_end_once_all_is_acknowledged(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, permits=10)
            await client.messages(2)
            await broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name].terminate()
            client.ack(sent[1], kind="Cumulative")
            assert (await client.expect("reachedEndOfTopic")).consumer_id == 0

    run(main())


def test_what_is_not_built_is_refused_by_name(broker_url):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            begun = await client.request(pb.BaseCommand.NEW_TXN, "newTxn", "newTxnResponse")
            assert begun.error == pb.NotAllowedError

    run(main())


@pytest.mark.parametrize("kind", ["Individual", "Cumulative"])
def test_an_acknowledgement_of_a_closed_consumer_is_refused(broker_url, topic, kind):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.subscribe(topic=topic)
            await client.request(pb.BaseCommand.CLOSE_CONSUMER, "close_consumer", consumer_id=0)
            client.ack(Position(0, 0), kind=kind, request_id=77)
            answer = await client.expect("ackResponse")
            assert (answer.request_id, answer.error) == (77, pb.ServiceNotReady)

    run(main())


def test_an_acknowledgement_whose_properties_no_record_can_hold_is_refused(broker_url, topic):
    """And the connection goes on: other producers and consumers use it."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic)
            large = [pb.KeyLongValue(key="k" * 600_000, value=1)]
            client.ack(sent[0], kind="Cumulative", request_id=client.next_request(), properties=large)
            assert (await client.expect("ackResponse")).error == pb.NotAllowedError
            await client.ack_durably(sent[1], kind="Cumulative")

    run(main())


@pytest.mark.parametrize("limit", ["maxSubscriptionsPerTopic=2", "maxConsumersPerTopic=2"])
def test_no_more_than_the_most_that_a_topic_may_have_come_at_once(broker_url, topic, limit):
    async def main():
        async with served(broker_url, limit) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for number in range(6):
                fields = {"topic": topic, "subscription": f"sub-{number}", "subType": SHARED}
                client.send(pb.BaseCommand.SUBSCRIBE, "subscribe", consumer_id=number, request_id=number, **fields)
            answers = [(await client.receive())[0] for _ in range(6)]
            assert sum(each.HasField("success") for each in answers) == 2

    run(main())
