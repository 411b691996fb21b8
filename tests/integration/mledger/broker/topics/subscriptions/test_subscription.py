"""What a subscription makes of acknowledgements: past the end, and of a subscription that other brokers replicate."""

from mledger.metastore.records.position import Position
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def test_many_acknowledgements_past_the_end_are_answered_and_logged_as_one(broker_url, topic, caplog):
    """Whole entries, and parts of batches, of which a client can name hundreds of thousands in one command."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            (sent,) = await client.publish_all(b"0")
            await client.subscribe(topic=topic, subType="Shared", permits=1)
            await client.messages(1)
            past = [Position(sent.ledger_id, entry) for entry in range(1, 100)]
            for words in ([], [1]):
                ids = [pb.MessageIdData(ledgerId=each[0], entryId=each[1], ack_set=words) for each in (sent, *past)]
                client.send(pb.BaseCommand.ACK, "ack", consumer_id=0, ack_type=0, message_id=ids, request_id=1)
                assert not (await client.expect("ackResponse")).HasField("error")
        assert sum("acknowledged_past_end" in each.getMessage() for each in caplog.records) == 1

    run(main())


def test_cumulative_acknowledgements_of_shared_entries_change_nothing_and_are_logged_as_one(broker_url, topic, caplog):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, subType="Shared")
            for _ in range(1000):
                client.ack(sent[1], kind="Cumulative")
            await client.ack_durably(sent[1], kind="Cumulative")
            (opened,) = broker.broker.topics.open
            assert opened.subscriptions.get("sub").backlog == 2
        assert sum("cumulative_ack_ignored" in each.getMessage() for each in caplog.records) == 1

    run(main())


def test_a_cumulative_acknowledgement_leaves_a_subscription_marked_as_replicated(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(b"0", b"1")
            await client.subscribe(topic=topic, permits=2)
            await client.messages(2)
            (opened,) = broker.cluster.opened.values()
            (cursor,) = opened.open_cursors.values()
            await cursor.acknowledge_cumulative(cursor.mark_delete, {"pulsar.replicated.subscription": 1, "other": 2})
            await client.ack_durably(sent[0], kind="Cumulative")
            assert (cursor.mark_delete, cursor.properties) == (sent[0], {"pulsar.replicated.subscription": 1})

    run(main())
