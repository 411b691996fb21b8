"""Producers over a real connection: opening, publishing, receipts, errors, access modes."""

from dataclasses import replace

import pytest

import mledger
from mledger.broker.process.options import entries_config
from mledger.broker.topics.broker_topic import EPOCH_PROPERTY
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import ONE_BOOKIE, entry_of, served

EXCLUSIVE, WAIT, FENCING = 1, 2, 3


def test_a_published_message_is_stored_where_its_receipt_says(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            positions = await client.publish_all(b"one", b"two")
            stored = broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name]
            entries = await stored.read(positions[0], 10)
            assert [entry.position for entry in entries] == positions
            assert [entry.payload for entry in entries] == [entry_of(b"one", 0), entry_of(b"two", 1)]

    run(main())


def test_a_message_as_large_as_the_limit_is_stored_with_its_metadata(broker_url, topic):
    limited = entries_config(replace(ONE_BOOKIE, max_message_size=1000))

    async def main():
        async with served(broker_url, "maxMessageSize=1000", config=limited) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            assert await client.publish_all(bytes(1000))

    run(main())


def test_a_producer_without_a_name_gets_one_that_no_other_has(broker_url, topic):
    async def main():
        names = set()
        for _ in range(2):
            async with served(broker_url) as broker:
                client = await broker.connect()
                names |= {(await client.producer(number, topic)).producer_name for number in range(2)}
        assert len(names) == 4
        assert all(name.startswith("standalone-") for name in names)

    run(main())


def test_a_name_is_used_by_one_producer_at_a_time(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            await first.producer(topic=topic, producer_name="p")
            refused = await second.request(
                pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0, producer_name="p"
            )
            assert refused.error == pb.ProducerBusy
            await first.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)
            assert (await second.producer(topic=topic, producer_name="p")).producer_name == "p"

    run(main())


def test_a_lost_connection_frees_its_producers_names(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            await first.producer(topic=topic, producer_name="p")
            first.close()
            await first.closed()
            assert (await second.producer(topic=topic, producer_name="p")).producer_name == "p"

    run(main())


def test_an_entry_with_a_wrong_checksum_is_answered_and_not_stored(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            entry = bytearray(entry_of(b"one"))
            entry[-1] ^= 1
            client.send(pb.BaseCommand.SEND, "send", payload=bytes(entry), producer_id=0, sequence_id=7)
            refused = await client.expect("send_error")
            assert (refused.sequence_id, refused.error) == (7, pb.ChecksumError)
            (position,) = await client.publish_all(b"two")
            assert position.entry_id == 0

    run(main())


def test_a_message_in_a_transaction_is_refused_and_those_around_it_are_stored(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            client.publish(b"before", 0)
            client.publish(b"batch", 1, num_messages=2, highest_sequence_id=2, txnid_least_bits=0, txnid_most_bits=7)
            client.publish(b"after", 3)
            answers = [(await client.receive())[0] for _ in range(3)]
            (refused,) = [each.send_error for each in answers if each.HasField("send_error")]
            receipts = [each.send_receipt for each in answers if each.HasField("send_receipt")]
            assert (refused.sequence_id, refused.error) == (2, pb.NotAllowedError)
            assert [(each.sequence_id, each.message_id.entryId) for each in receipts] == [(0, 0), (3, 1)]
            assert broker.broker.pending_bytes == 0

    run(main())


def test_a_producer_that_closes_gets_its_receipts_first(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for sequence in range(20):
                client.publish(b"x", sequence)
            client.send(
                pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0, request_id=client.next_request()
            )
            assert [(await client.expect("send_receipt")).sequence_id for _ in range(20)] == list(range(20))
            await client.expect("success")

    run(main())


def test_nothing_is_left_of_producers_that_their_client_closed(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            (connection,) = broker.broker.connections
            for number in range(100):
                await client.producer(number, topic=topic)
                await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=number)
            assert connection.closed_producers == set()

    run(main())


def test_a_producer_that_takes_anothers_number_ends_that_one(broker_url, topic):
    """Else nobody ever does: it would keep its name, keep out exclusive producers, and be a client of its topic."""

    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            for epoch, name in enumerate(("first", "second")):
                await client.producer(topic=topic, producer_name=name, epoch=epoch)
            (served_topic,) = broker.broker.topics.open
            assert list(served_topic.producers.names) == ["second"]

    run(main())


def test_a_terminated_topic_closes_its_producers_and_admits_none(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            await broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name].terminate()
            client.publish(b"late", 3)
            closed = await client.expect("close_producer")
            assert closed.producer_id == 0
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=1)
            assert refused.error == pb.TopicTerminatedError

    run(main())


def test_a_producer_that_waits_for_exclusive_access_gets_it_when_the_others_are_gone(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            await first.producer(topic=topic)
            waiting = await second.producer(topic=topic, producer_access_mode=WAIT)
            assert not waiting.producer_ready
            await first.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)
            ready = await second.expect("producer_success")
            assert (ready.producer_ready, ready.topic_epoch, ready.request_id) == (True, 0, waiting.request_id)

    run(main())


def test_an_exclusive_producer_keeps_others_out(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            await first.producer(topic=topic, producer_access_mode=EXCLUSIVE)
            for mode, code in ((0, pb.ProducerBusy), (EXCLUSIVE, pb.ProducerFenced)):
                refused = await second.request(
                    pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0, producer_access_mode=mode
                )
                assert refused.error == code

    run(main())


def test_a_fenced_out_producer_never_gets_the_topic_back_even_after_a_restart(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            first, second = await broker.connect(), await broker.connect()
            old = await first.producer(topic=topic, producer_access_mode=EXCLUSIVE)
            new = await second.producer(topic=topic, producer_access_mode=FENCING)
            assert (await first.expect("close_producer")).producer_id == 0
            assert (old.topic_epoch, new.topic_epoch) == (0, 1)
        async with served(broker_url) as broker:
            first = await broker.connect()
            refused = await first.request(
                pb.BaseCommand.PRODUCER,
                "producer",
                "error",
                topic=topic,
                producer_id=0,
                producer_access_mode=EXCLUSIVE,
                topic_epoch=old.topic_epoch,
            )
            assert refused.error == pb.ProducerFenced

    run(main())


def test_a_producer_may_wait_for_or_fence_out_one_of_its_own_name(broker_url, topic):
    """As of programs that stand by for each other: deduplication knows them by one name."""

    async def main():
        async with served(broker_url) as broker:
            first, second, third = [await broker.connect() for _ in range(3)]
            await first.producer(topic=topic, producer_name="p", producer_access_mode=EXCLUSIVE)
            waiting = await second.producer(topic=topic, producer_name="p", producer_access_mode=WAIT)
            assert not waiting.producer_ready
            await first.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)
            assert (await second.expect("producer_success")).producer_ready
            new = await third.producer(topic=topic, producer_name="p", producer_access_mode=FENCING)
            assert (new.producer_ready, new.producer_name) == (True, "p")
            assert (await second.expect("close_producer")).producer_id == 0

    run(main())


def test_reading_stops_while_too_much_is_pending(broker_url, topic):
    async def main():
        async with served(broker_url, "maxPendingPublishRequestsPerConnection=2") as broker:
            client = await broker.connect()
            await client.producer(topic=topic)
            for sequence in range(200):
                client.publish(b"x", sequence)
            assert [(await client.expect("send_receipt")).sequence_id for _ in range(200)] == list(range(200))
            assert broker.broker.pending_bytes == 0

    run(main())


@pytest.mark.parametrize(("setting", "code"), [("allowAutoTopicCreation=false", pb.TopicNotFound)])
def test_a_topic_is_created_only_where_the_settings_allow_it(broker_url, topic, setting, code):
    async def main():
        async with served(broker_url, setting) as broker:
            client = await broker.connect()
            refused = await client.request(pb.BaseCommand.PRODUCER, "producer", "error", topic=topic, producer_id=0)
            assert refused.error == code

    run(main())


def test_an_initial_subscription_gets_all_that_its_producer_publishes(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, initial_subscription_name="initial")
            await client.publish_all(b"one")
            await client.producer(2, topic=topic, initial_subscription_name="initial")
            opened = broker.cluster.opened[mledger.TopicName.parse(topic).managed_ledger_name]
            cursor = await opened.open_cursor("initial")
            assert [entry.payload for entry in await cursor.read(10)] == [entry_of(b"one", 0)]

    run(main())


def test_an_initial_subscription_is_created_only_where_the_settings_allow_it(broker_url, topic):
    async def main():
        async with served(broker_url, "allowAutoSubscriptionCreation=false") as broker:
            client = await broker.connect()
            refused = await client.request(
                pb.BaseCommand.PRODUCER,
                "producer",
                "error",
                topic=topic,
                producer_id=1,
                initial_subscription_name="initial",
            )
            assert refused.error == pb.NotAllowedError

    run(main())


def test_an_epoch_that_no_topic_has_had_is_refused_and_others_get_the_topic(broker_url, topic):
    """The next one would have no bits left, and no producer could be told of it any more."""

    async def main():
        async with served(broker_url) as broker:
            client, other = await broker.connect(), await broker.connect()
            epoch = {"producer_access_mode": "Exclusive", "topic_epoch": (1 << 64) - 1}
            assert (await client.refused_producer(topic, **epoch)).error == pb.ProducerFenced
            assert (await other.producer(topic=topic, producer_access_mode="Exclusive")).topic_epoch == 0

    run(main())


def test_a_topic_whose_epoch_has_no_bits_left_begins_anew(broker_url, topic):
    async def main():
        async with mledger.open_cluster(broker_url, config=ONE_BOOKIE) as cluster:
            opened = await cluster.open_topic(topic, create=True)
            await opened.set_properties({EPOCH_PROPERTY: str(1 << 64)})
        async with served(broker_url) as broker:
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_access_mode="Exclusive")).topic_epoch == 0

    run(main())
