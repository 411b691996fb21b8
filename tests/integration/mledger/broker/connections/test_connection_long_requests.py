"""Requests of megabytes hold the event loop only for a while: they are served in slices, or refused."""

from mledger.broker.protocol.commands import MOST_WITH_TEXT
from mledger.broker.protocol.requests import LONG_ACK
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served


def test_an_ack_of_very_many_ids_is_answered_once_all_are_acknowledged(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            sent = await client.publish_all(*[b"%d" % number for number in range(20)])
            await client.subscribe(topic=topic, permits=20)
            await client.messages(20)
            ids = [pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id) for one in sent]
            ids[10:10] = [ids[0]] * (3 * LONG_ACK)
            client.send(pb.BaseCommand.ACK, "ack", consumer_id=0, ack_type="Individual", message_id=ids, request_id=77)
            answer = await client.expect("ackResponse")
            assert (answer.request_id, answer.message) == (77, "")
            request = {"consumer_id": 0, "request_id": client.next_request()}
            client.send(pb.BaseCommand.CONSUMER_STATS, "consumerStats", **request)
            assert (await client.expect("consumerStatsResponse")).msgBacklog == 0

    run(main())


def test_a_producer_with_more_metadata_than_is_checked_is_refused_and_the_connection_goes_on(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            pairs = [pb.KeyValue(key="k", value="v")] * (MOST_WITH_TEXT + 1)
            client.send(pb.BaseCommand.PRODUCER, "producer", topic=topic, producer_id=0, request_id=5, metadata=pairs)
            answer = await client.expect("error")
            assert (answer.request_id, answer.error) == (5, pb.NotAllowedError)
            assert "10,001 metadata" in answer.message
            await client.producer(topic=topic)

    run(main())
