"""What compaction tells the broker: a new compacted ledger, after which the one before is deleted; nothing else."""

import asyncio

import pytest

from mledger.bookie.errors import NoSuchLedger
from mledger.broker.topics.compaction import compaction_subscription
from mledger.errors import ManagedLedgerClosed
from mledger.metastore.errors import StoreUnavailable
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.aio import run
from tests.support.brokers.served_broker import served
from tests.support.compacted_topics import exists as is_there
from tests.support.compacted_topics import topic_of

COMPACTED = "CompactedTopicLedger"


async def compacted_ledger(broker, topic, *, of=None):
    """An empty ledger as compaction makes it for a topic, or as if for the topic `of`."""
    writer = await broker.cluster.bookkeeper.create_ledger(
        1,
        1,
        1,
        custom_metadata=(
            ("component", b"compacted-ledger"),
            ("pulsar/compactedTopic", (of or topic).encode()),
        ),
    )
    await writer.close()
    return writer.ledger_id


async def exists(broker, ledger_id):
    try:
        await broker.cluster.bookkeeper.metadata(ledger_id)
    except NoSuchLedger:
        return False
    return True


async def gone(broker, ledger_id):
    """Wait until a ledger is deleted."""
    while await exists(broker, ledger_id):
        await asyncio.sleep(0.01)


async def compactor_of(broker, topic, *payloads):
    """The connection of compaction, and where these messages are."""
    client, compactor = await broker.connect(), await broker.connect()
    await client.producer(topic=topic)
    sent = await client.publish_all(*payloads)
    await compactor.subscribe(topic=topic, subscription="__compaction", read_compacted=True)
    return compactor, sent


async def compacted_to(compactor, position, ledger_id):
    """Acknowledge as Pulsar's compaction does, durably."""
    named = [pb.KeyLongValue(key=COMPACTED, value=ledger_id)]
    compactor.ack(position, kind="Cumulative", properties=named, request_id=compactor.next_request())
    answer = await compactor.expect("ackResponse")
    assert not answer.HasField("error"), answer


async def once_compacted(broker, topic):
    """A compactor of two messages, their ids, the ledger to which it has compacted the first, and the next ledger."""
    compactor, sent = await compactor_of(broker, topic, b"a", b"b")
    first, second = await compacted_ledger(broker, topic), await compacted_ledger(broker, topic)
    await compacted_to(compactor, sent[0], first)
    return compactor, sent, first, second


def test_the_ledger_of_the_compaction_before_is_deleted(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            compactor, sent, first, second = await once_compacted(broker, topic)
            assert await exists(broker, first)
            await compacted_to(compactor, sent[1], second)
            await gone(broker, first)
            assert await exists(broker, second)

    run(main())


def test_it_stays_until_the_new_ledgers_number_is_durable(broker_url, topic, monkeypatch):
    monkeypatch.setattr(compaction_subscription, "RETRY_S", 0.01)

    async def main():
        async with served(broker_url) as broker:
            compactor, sent, first, second = await once_compacted(broker, topic)
            (opened,) = broker.cluster.opened.values()
            cursor = opened.open_cursors["__compaction"]
            flush, failures = cursor.flush, iter(range(3))

            async def failing():
                if next(failures, None) is None:
                    return await flush()
                assert await exists(broker, first)
                raise StoreUnavailable("no server can be reached")

            monkeypatch.setattr(cursor, "flush", failing)
            compactor.ack(sent[1], kind="Cumulative", properties=[pb.KeyLongValue(key=COMPACTED, value=second)])
            await gone(broker, first)
            assert next(failures, None) is None

    run(main())


def test_the_next_owner_deletes_it_if_this_one_ends_before(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            compactor, sent, first, second = await once_compacted(broker, topic)
            (opened,) = broker.cluster.opened.values()
            cursor = opened.open_cursors["__compaction"]
            flush, ended = cursor.flush, asyncio.Event()

            async def then_end():
                await flush()
                ended.set()
                raise ManagedLedgerClosed("the topic moved to another broker")

            monkeypatch.setattr(cursor, "flush", then_end)
            compactor.ack(sent[1], kind="Cumulative", properties=[pb.KeyLongValue(key=COMPACTED, value=second)])
            await ended.wait()
            monkeypatch.undo()
        async with served(broker_url) as broker:
            await (await broker.connect()).producer(topic=topic)
            (opened,) = broker.cluster.opened.values()
            await opened.initialized()
            assert not await exists(broker, first)
            assert await exists(broker, second)

    run(main())


@pytest.mark.parametrize("name", ["of another topic", "of no ledger", "of nothing"])
def test_a_client_that_names_no_ledger_of_the_topic_is_refused_and_the_one_before_stays(broker_url, topic, name):
    """Any client that may consume can subscribe as compaction does; the ledger has what the topic has nowhere else."""

    async def main():
        async with served(broker_url) as broker:
            compactor, sent, first, second = await once_compacted(broker, topic)
            foreign = await compacted_ledger(broker, topic, of=f"{topic}-other")
            number = {"of another topic": foreign, "of no ledger": 1 << 40, "of nothing": -1 & (1 << 64) - 1}[name]
            named = [pb.KeyLongValue(key=COMPACTED, value=number)]
            compactor.ack(sent[1], kind="Cumulative", properties=named, request_id=compactor.next_request())
            assert (await compactor.expect("ackResponse")).error == pb.NotAllowedError
            (opened,) = broker.cluster.opened.values()
            assert opened.open_cursors["__compaction"].properties == {COMPACTED: first}
            await compacted_to(compactor, sent[1], second)
            await gone(broker, first)
            assert await exists(broker, foreign)

    run(main())


def test_acknowledgements_that_name_no_compacted_ledger_are_refused(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            compactor, sent = await compactor_of(broker, topic, b"a")
            ledger_id = await compacted_ledger(broker, topic)
            for kind in ("Individual", "Cumulative"):
                compactor.ack(sent[0], kind=kind, request_id=compactor.next_request())
                assert (await compactor.expect("ackResponse")).error == pb.NotAllowedError
            await compacted_to(compactor, sent[0], ledger_id)

    run(main())


def test_unsubscribing_compaction_deletes_its_ledger(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            compactor, sent = await compactor_of(broker, topic, b"a")
            ledger_id = await compacted_ledger(broker, topic)
            await compacted_to(compactor, sent[0], ledger_id)
            await compactor.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
            await gone(broker, ledger_id)

    run(main())


@pytest.mark.parametrize("first", ["of the cursor", "of an earlier deletion"])
def test_unsubscribing_while_a_compaction_ends_deletes_the_ledger_that_it_names(broker_url, topic, monkeypatch, first):
    """What the cursor names is looked for before it is deleted, and a compaction may end in between."""

    async def main():
        async with served(broker_url) as broker:
            compactor, sent, former, newer = await once_compacted(broker, topic)
            (opened,) = (each for each in broker.cluster.opened.values() if "__compaction" in each.cursors)
            if first == "of an earlier deletion":
                await opened.open_cursors["__compaction"].close()
                await opened.open_cursor("__compaction")
            attached = topic_of(broker, topic).attached
            look = attached.of_cursor

            async def end_meanwhile(path):
                found = await look(path)
                assert list(found) == [former]
                named = {COMPACTED: newer}
                await opened.open_cursors["__compaction"].acknowledge_cumulative(sent[1], named)
                if first == "of an earlier deletion":
                    await opened.open_cursors["__compaction"].close()
                return found

            monkeypatch.setattr(attached, "of_cursor", end_meanwhile)
            await compactor.request(pb.BaseCommand.UNSUBSCRIBE, "unsubscribe", consumer_id=0)
        assert not await is_there(broker_url, former)  # the end of the broker waits for deletions
        assert not await is_there(broker_url, newer)

    run(main())


def test_deleting_compactions_cursor_leaves_a_ledger_that_compaction_did_not_write(broker_url, topic):
    """A program can give the cursor any number: that of a ledger with the topic's own entries, say."""

    async def main():
        async with served(broker_url) as broker:
            _, sent = await compactor_of(broker, topic, b"a")
            opened = topic_of(broker, topic).managed_ledger
            cursor = opened.open_cursors["__compaction"]
            await cursor.acknowledge_cumulative(sent[0], {COMPACTED: sent[0].ledger_id})
            await opened.delete_cursor("__compaction")
            assert (await opened.read_entry(sent[0])).position == sent[0]
            assert await exists(broker, sent[0].ledger_id)

    run(main())
