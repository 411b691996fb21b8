"""Deduplication over a real connection, and after a crash."""

import asyncio

import pytest

from mledger.broker.protocol.requests import SendRun
from mledger.broker.topics.producers.access import AccessMode
from mledger.broker.topics.producers.deduplication import READ_BYTES
from mledger.broker.topics.producers.topic_producers import TopicProducers
from mledger.cursors.cursor import Cursor
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.ledgers.entries.open_ledger import OpenLedger
from mledger.metastore.errors import StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.appender import AddTimedOut
from tests.support.aio import run
from tests.support.brokers.served_broker import entry_of, entry_with, served

ON = "brokerDeduplicationEnabled=true"
NOWHERE = (1 << 64) - 1


@pytest.mark.parametrize("every", [1, 1000])
def test_a_message_sent_again_is_answered_and_not_stored_even_after_a_crash(broker_url, topic, every):
    settings = (ON, f"brokerDeduplicationEntriesInterval={every}")

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_name="raw")).last_sequence_id == -1
            stored = await client.publish_all(b"0", b"1", b"2")
            client.publish(b"1", 1)
            assert (await client.expect("send_receipt")).message_id.ledgerId == NOWHERE
            for opened in list(broker.cluster.opened.values()):
                await opened.abandon()  # as kill -9 would
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_name="raw")).last_sequence_id == 2
            client.publish(b"2", 2)
            assert (await client.expect("send_receipt")).message_id.ledgerId == NOWHERE
            client.publish(b"3", 3)
            assert (await client.expect("send_receipt")).message_id.ledgerId > stored[-1].ledger_id
            await client.subscribe(topic=topic, permits=10)
            assert [message.payload for message in await client.messages(4)] == [b"0", b"1", b"2", b"3"]

    run(main())


def test_a_message_in_chunks_that_is_sent_again_as_a_whole_leaves_no_chunks_behind(broker_url, topic):
    """As after a crash between the storing of its last chunk and the receipts."""
    numbers = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 2}

    async def main():
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            stored = []
            for number in (0, 1, 0, 1):
                metadata = pb.MessageMetadata(
                    producer_name="raw", sequence_id=5, publish_time=1, chunk_id=number, **numbers
                )
                entry = entry_with(metadata.SerializeToString(), b"%d" % number)
                client.send(pb.BaseCommand.SEND, "send", payload=entry, producer_id=0, sequence_id=5, is_chunk=True)
                stored.append((await client.expect("send_receipt")).message_id.ledgerId != NOWHERE)
            assert stored == [True, True, False, False]

    run(main())


def test_opening_a_topic_reads_few_large_messages_at_once(broker_url, topic, monkeypatch):
    read, sizes = Cursor.read, []

    async def counted(cursor, *bounds):
        found = await read(cursor, *bounds)
        sizes.append(sum(len(each.payload) for each in found))
        return found

    async def main():
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            await client.publish_all(*[bytes(READ_BYTES // 2 - 1000)] * 4)
            for opened in list(broker.cluster.opened.values()):
                await opened.abandon()  # as kill -9 would
        monkeypatch.setattr(Cursor, "read", counted)
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_name="raw")).last_sequence_id == 3

    run(main())
    assert READ_BYTES // 2 < max(sizes) <= READ_BYTES


def test_sequence_ids_of_producers_that_were_gone_before_a_restart_are_forgotten_in_time(broker_url, topic):
    settings = (ON, "brokerDeduplicationEntriesInterval=1", "brokerDeduplicationProducerInactivityTimeoutMinutes=0")

    async def main():
        async with served(broker_url, *settings[:2]) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="gone")
            await client.publish_all(b"0")
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="new")
            await client.publish_all(b"1")
            (opened,) = broker.cluster.opened.values()
            assert opened.open_cursors["pulsar.dedup"].properties == {"new": 0}

    run(main())


def test_sequence_ids_that_no_record_can_hold_keep_no_message_from_being_stored(broker_url, topic):
    async def main():
        async with served(broker_url, ON, "brokerDeduplicationEntriesInterval=1") as broker:
            client = await broker.connect()
            for number in range(6):
                name = str(number) * 100_000  # together above a record's 512 KiB
                await client.producer(number, topic=topic, producer_name=name)
                client.publish(b"0", 0, number)
                assert (await client.expect("send_receipt")).producer_id == number
            client.publish(b"0", 0)
            assert (await client.expect("send_receipt")).message_id.ledgerId == NOWHERE

    run(main())


def test_of_more_sequence_ids_than_a_record_holds_those_of_producers_that_went_first_are_forgotten(broker_url, topic):
    """Else the cursor would stay where it is, and hold all entries from there on."""

    async def main():
        async with served(broker_url, ON, "brokerDeduplicationEntriesInterval=1") as broker:
            client = await broker.connect()
            for number in range(6):
                await client.producer(number, topic=topic, producer_name=str(number) * 100_000)
                client.publish(b"0", 0, number)
                assert (await client.expect("send_receipt")).producer_id == number
                await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=number)
            (opened,) = broker.cluster.opened.values()
            cursor = opened.open_cursors["pulsar.dedup"]
            assert cursor.mark_delete == opened.last_confirmed
            assert [name[0] for name in cursor.properties] == ["2", "3", "4", "5"]

    run(main())


def test_without_deduplication_its_cursor_is_deleted(broker_url, topic):
    async def main():
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            await client.publish_all(b"0")
        async with served(broker_url) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            (opened,) = broker.cluster.opened.values()
            assert opened.cursors == []
            client.publish(b"0", 0)
            assert (await client.expect("send_receipt")).message_id.ledgerId != NOWHERE
            await client.request(pb.BaseCommand.CLOSE_PRODUCER, "close_producer", producer_id=0)

    run(main())


def test_a_message_that_came_behind_one_that_was_not_stored_is_not_stored_either(broker_url, topic):
    """Else the one that failed counts as a duplicate when it is sent again, and is lost."""

    async def main():
        async with served(broker_url, ON, minimum_rollover_time_ms=0, max_entries_per_ledger=1) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            (served_topic,) = broker.broker.topics.open
            (producer,) = served_topic.producers
            loop, managed_ledger = asyncio.get_running_loop(), served_topic.managed_ledger

            def send(sequence_id):
                entry = entry_of(b"%d" % sequence_id, sequence_id)
                run = SendRun(0)
                run.entries, run.messages = [entry], [1]
                run.sequence_ids, run.highest_ids = [sequence_id], [-1]
                served_topic.publish(producer, run, len(entry))

            def fail(step):
                if step == "create ledger":
                    send(1)
                elif step == "list ledger":
                    managed_ledger._factory.on_step = lambda _: None
                    loop.call_soon(send, 2)  # it came with what made the loop go on
                    raise StoreUnavailable("made to fail by the test")

            managed_ledger._factory.on_step = fail
            send(0)
            assert (await client.expect("send_receipt")).sequence_id == 0
            await client.expect("close_producer")
            while producer.pending:
                await asyncio.sleep(0.01)
            await client.producer(1, topic=topic, producer_name="raw")
            for sequence_id in (1, 2):
                client.publish(b"%d" % sequence_id, sequence_id, 1)
                assert (await client.expect("send_receipt")).message_id.ledgerId != NOWHERE
            await client.subscribe(topic=topic, permits=10)
            assert [message.payload for message in await client.messages(3)] == [b"0", b"1", b"2"]

    run(main())


def test_who_takes_the_name_of_a_producer_that_is_gone_hears_of_what_that_had_on_the_way(
    broker_url, topic, monkeypatch
):
    """Else it gives the sequence ids once more, and its messages are answered as duplicates of the others."""
    push, free_name, held = OpenLedger.push, TopicProducers.free_name, []

    def push_on():
        monkeypatch.setattr(OpenLedger, "push", push)
        while held:
            push(*held.pop(0))

    async def freed(producers, producer):
        await free_name(producers, producer)
        asyncio.get_running_loop().call_soon(push_on)

    async def main():
        async with served(broker_url, ON) as broker:
            before = await broker.connect()
            await before.producer(topic=topic, producer_name="raw")
            (opened,) = broker.broker.topics.open
            monkeypatch.setattr(OpenLedger, "push", lambda *each: held.append(each))
            before.publish(b"0", 0)
            while not held:
                await asyncio.sleep(0)
            before.writer.close()
            while len(opened.producers):
                await asyncio.sleep(0)
            monkeypatch.setattr(TopicProducers, "free_name", freed)
            client = await broker.connect()
            assert (await client.producer(topic=topic, producer_name="raw")).last_sequence_id == 0

    run(main())


@pytest.mark.parametrize("mode", ["WaitForExclusive", "ExclusiveWithFencing"])
def test_who_gets_the_topic_from_a_producer_of_its_name_hears_of_what_that_had_on_the_way(
    broker_url, topic, monkeypatch, mode
):
    """It is admitted when the other one is gone, and what that sent is stored only later."""
    push, settled, held = OpenLedger.push, TopicProducers.settled, []

    def push_on():
        monkeypatch.setattr(OpenLedger, "push", push)
        while held:
            push(*held.pop(0))

    async def settled_late(producers, name):
        if any(each.request.mode is not AccessMode.EXCLUSIVE for each in producers):  # it is admitted
            asyncio.get_running_loop().call_soon(push_on)
        await settled(producers, name)

    async def main():
        async with served(broker_url, ON) as broker:
            before, client = await broker.connect(), await broker.connect()
            await before.producer(topic=topic, producer_name="raw", producer_access_mode="Exclusive")
            wanted = {"topic": topic, "producer_name": "raw", "producer_access_mode": mode}
            if mode == "WaitForExclusive":
                assert not (await client.producer(**wanted)).producer_ready
            monkeypatch.setattr(TopicProducers, "settled", settled_late)
            monkeypatch.setattr(OpenLedger, "push", lambda *each: held.append(each))
            before.publish(b"0", 0)
            while not held:
                await asyncio.sleep(0)
            if mode == "WaitForExclusive":
                before.writer.close()
                opened = await client.expect("producer_success")
            else:
                opened = await client.producer(**wanted)
            assert (opened.producer_ready, opened.last_sequence_id) == (True, 0)

    run(main())


@pytest.fixture
def stored_unanswered(monkeypatch):
    """What fails the next send of a broker, which its bookie stores: where the ledger ends is found out only later."""
    push = OpenLedger.push

    def push_and_fail(ledger, batch, payloads):
        monkeypatch.undo()
        push(ledger, batch, payloads)
        ledger.fail(AddTimedOut("made to fail by the test"))  # before any bookie can answer

    def fail_next(broker, last):
        (managed_ledger,) = broker.cluster.opened.values()
        ledgers = managed_ledger._ledgers
        verify_owner = ledgers.verify_owner

        async def fail(**_):
            while (await broker.cluster.bookkeeper.peek(last.ledger_id)).last_entry == last.entry_id:
                await asyncio.sleep(0.01)  # nobody knows that it is stored
            ledgers.verify_owner = verify_owner
            raise StoreUnavailable("made to fail by the test")

        ledgers.verify_owner = fail
        monkeypatch.setattr(OpenLedger, "push", push_and_fail)

    return fail_next


def test_a_message_that_failed_and_is_stored_after_all_is_a_duplicate_when_it_is_sent_again(
    broker_url, topic, stored_unanswered
):
    async def main():
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            (first,) = await client.publish_all(b"0")
            stored_unanswered(broker, first)
            client.publish(b"1", 1)
            await client.expect("close_producer")
            await client.producer(1, topic=topic, producer_name="raw")
            client.publish(b"1", 1, 1)
            assert (await client.expect("send_receipt")).message_id.ledgerId == NOWHERE
            client.publish(b"2", 2, 1)
            await client.expect("send_receipt")
            await client.subscribe(topic=topic, permits=10)
            assert [message.payload for message in await client.messages(3)] == [b"0", b"1", b"2"]

    run(main())


def test_a_message_that_failed_and_is_stored_after_all_does_not_wait_for_the_next_one(
    broker_url, topic, stored_unanswered
):
    """It is answered as a duplicate when it is sent again, so nothing is published."""

    async def main():
        async with served(broker_url, ON) as broker:
            client, waiting = await broker.connect(), await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            (first,) = await client.publish_all(b"0")
            await waiting.subscribe(topic=topic, permits=10)
            await waiting.messages(1)
            stored_unanswered(broker, first)
            client.publish(b"1", 1)
            await client.expect("close_producer")
            await client.producer(1, topic=topic, producer_name="raw")
            client.publish(b"1", 1, 1)
            assert (await client.expect("send_receipt")).message_id.ledgerId == NOWHERE
            assert [message.payload for message in await waiting.messages(1)] == [b"1"]

    run(main())


def test_a_message_that_is_too_large_leaves_those_before_it_pending_and_those_with_it_stored(broker_url, topic):
    """Else what is pending is stored again if its client sends it again."""

    async def main():
        async with served(broker_url, ON) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            (served_topic,) = broker.broker.topics.open
            (producer,) = served_topic.producers
            served_topic.managed_ledger._appender._largest = 1000

            def send(*sizes, first):
                run = SendRun(0)
                run.sequence_ids = list(range(first, first + len(sizes)))
                run.entries = [entry_of(b"x" * size, first + at) for at, size in enumerate(sizes)]
                run.messages, run.highest_ids = [1] * len(sizes), [-1] * len(sizes)
                producer.connection._publish(run)

            send(1, first=0)
            send(2, 2000, 3, first=1)
            send(1, first=0)
            refused = [await client.expect("send_error") for _ in range(2)]
            assert [(each.sequence_id, each.error) for each in refused] == [
                (2, pb.NotAllowedError),
                (0, pb.UnknownError),
            ]
            assert [(await client.expect("send_receipt")).sequence_id for _ in range(3)] == [0, 1, 3]
            assert (producer.pending, broker.broker.pending_bytes) == (0, 0)
            await client.subscribe(topic=topic, permits=10)
            assert [message.payload for message in await client.messages(3)] == [b"x", b"xx", b"xxx"]

    run(main())


@pytest.mark.parametrize("name", [b"victim", b"\xff\xfe"])
def test_what_a_message_says_of_its_producer_does_not_keep_the_state_from_being_kept(broker_url, topic, name):
    """It is a client's own text: no UTF-8, or a sequence id that no producer can be told."""
    settings = (ON, "brokerDeduplicationEntriesInterval=2")
    metadata = bytes((0x0A, len(name))) + name + b"\x10" + b"\xff" * 9 + b"\x01" + b"\x18\x01"

    async def main():
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            await client.producer(topic=topic, producer_name="raw")
            await client.store(entry_with(metadata))
            for opened in list(broker.cluster.opened.values()):
                await opened.abandon()  # as kill -9 would
        async with served(broker_url, *settings) as broker:
            client = await broker.connect()
            assert (await client.producer(1, topic=topic, producer_name="victim")).last_sequence_id == -1
            await client.producer(topic=topic, producer_name="raw")
            last = (await client.publish_all(b"0", b"1"))[-1]
            (served_topic,) = broker.broker.topics.stored
            kept = served_topic.managed_ledger.open_cursors[DEDUPLICATION]
            assert (kept.mark_delete, kept.properties) == (last, {"raw": 1})

    run(main())
