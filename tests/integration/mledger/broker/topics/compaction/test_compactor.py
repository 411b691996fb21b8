"""A broker compacts topics (C12): readers get the compacted view, then the topic, whenever the broker dies."""

import asyncio
import json
import sys
from subprocess import PIPE

import pytest

from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.broker.topics.compaction.topic_compaction import CompactionStatus
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.ledger_metadata import DigestType
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.bookies.processes import ROOT
from tests.support.brokers.served_broker import served
from tests.support.compacted_topics import compacted, publish_keyed, topic_of, view_of
from tests.support.forked_python import ForkedPython
from tests.support.topics import assert_nothing_orphaned

COMPACTED = "CompactedTopicLedger"
STEPS = [
    ("create ledger", 1),
    ("ledger created, not listed", 1),
    ("compacted ledger written", 1),
    ("compacted ledger named", 1),
    ("compacted ledger written", 2),
    ("compacted ledger doubted", 1),
    ("compacted ledger named", 2),
    ("compacted ledger named", 3),
    ("delete ledger", 1),
    ("ledger deleted, still recorded", 1),
]


async def ledgers_of(url, topic):
    """The compacted ledgers of a topic that exist, by number."""
    found = {}
    async with await open_reader(url) as reader:
        bookkeeper = BookKeeperReader(reader)
        async for page in bookkeeper.list_ledgers():
            for ledger_id in page:
                try:
                    metadata = await bookkeeper.metadata(ledger_id)
                except NoSuchLedger:
                    continue
                if dict(metadata.custom_metadata).get("pulsar/compactedTopic") == topic.encode():
                    found[ledger_id] = metadata
        await bookkeeper.close()
    return found


def named(broker, topic):
    """The compacted ledger that the cursor names."""
    return topic_of(broker, topic).managed_ledger.open_cursors["__compaction"].properties.get(COMPACTED)


async def producing(broker, topic):
    client = await broker.connect()
    await client.producer(topic=topic)
    return client


def test_readers_get_the_latest_message_of_each_key_and_then_the_topic(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            sent = await publish_keyed(client, "a1", "b1", "a2", "c1", "c-", "-x")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            assert await view_of(broker, topic) == [(sent[1], ["b1"]), (sent[2], ["a2"])]
            counts = topic_of(broker, topic).compaction.counts
            assert (counts.succeeded, counts.failed, counts.removed, counts.entries) == (1, 0, 4, 2)
            assert 0 < counts.size < counts.last.read_bytes
            (metadata,) = (await ledgers_of(broker_url, topic)).values()
            assert (metadata.digest_type, metadata.password) == (DigestType.CRC32, b"")
            more = await publish_keyed(client, "b2", "b3")
            view = [(sent[1], ["b1"]), (sent[2], ["a2"]), (more[0], ["b2"]), (more[1], ["b3"])]
            assert await view_of(broker, topic) == view

    run(main())


def test_a_trim_that_moves_the_cursor_off_a_consumed_ledger_does_not_end_a_compaction(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            await publish_keyed(client, "a1", "b1")
            await compacted(broker, topic)
            managed_ledger = topic_of(broker, topic).managed_ledger
            ledgers, before = managed_ledger.compacted_ledgers, managed_ledger.open_cursors["__compaction"].mark_delete
            create = ledgers.create

            async def create_and_trim(custom_metadata):
                writer = await create(custom_metadata)
                assert managed_ledger.open_cursors["__compaction"].mark_delete == before
                managed_ledger.trim_lock.release()
                await managed_ledger.trim()
                assert managed_ledger.open_cursors["__compaction"].mark_delete > before
                return writer

            await managed_ledger.trim_lock.acquire()
            await managed_ledger.roll_over()
            sent = await publish_keyed(client, "b2")
            monkeypatch.setattr(ledgers, "create", create_and_trim)
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            assert (await view_of(broker, topic))[-1] == (sent[0], ["b2"])

    run(main())


def test_the_next_compaction_takes_over_what_was_kept_and_deletes_its_ledger(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            sent = await publish_keyed(client, "a1", "b1")
            await compacted(broker, topic)
            first = named(broker, topic)
            sent += await publish_keyed(client, "b2", "c1")
            await compacted(broker, topic)
            assert list(await ledgers_of(broker_url, topic)) == [named(broker, topic)] != [first]
            assert await view_of(broker, topic) == [(sent[0], ["a1"]), (sent[2], ["b2"]), (sent[3], ["c1"])]
            second = named(broker, topic)
            await compacted(broker, topic)  # nothing came since
            assert named(broker, topic) == second

    run(main())


def test_a_topic_of_which_nothing_is_kept_has_an_empty_view(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            await publish_keyed(client, "a1", "a-")
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            (new,) = await publish_keyed(client, "b1")
            assert await view_of(broker, topic) == [(new, ["b1"])]

    run(main())


def test_a_keyless_message_stays_if_the_settings_say_so(broker_url, topic):
    async def main():
        async with served(broker_url, "topicCompactionRetainNullKey=true") as broker:
            client = await producing(broker, topic)
            sent = await publish_keyed(client, "a1", "-x", "a2")
            await compacted(broker, topic)
            assert await view_of(broker, topic) == [(sent[1], ["-x"]), (sent[2], ["a2"])]

    run(main())


def test_a_compaction_that_fails_says_why_and_leaves_nothing(broker_url, topic, monkeypatch):
    async def main():
        async with served(broker_url) as broker:
            client = await producing(broker, topic)
            sent = await publish_keyed(client, "a1", "a2")
            opened = topic_of(broker, topic)

            async def failing(ledger_ids):
                raise StoreUnavailable("no server can be reached")

            with monkeypatch.context() as failure:
                failure.setattr(opened.managed_ledger.compacted_ledgers, "doubt", failing)
                assert await compacted(broker, topic) is CompactionStatus.ERROR
            assert opened.compaction.last_error == "no server can be reached"
            assert await ledgers_of(broker_url, topic) == {}
            assert await compacted(broker, topic) is CompactionStatus.SUCCESS
            assert await view_of(broker, topic) == [(sent[1], ["a2"])]

    run(main())


def test_two_programs_do_not_compact_a_topic_at_once(broker_url, topic):
    async def main():
        async with served(broker_url) as broker:
            client, other = await producing(broker, topic), await broker.connect()
            await publish_keyed(client, "a1")
            await other.subscribe(topic=topic, subscription="__compaction", read_compacted=True)
            assert await compacted(broker, topic) is CompactionStatus.ERROR
            assert "another program" in topic_of(broker, topic).compaction.last_error

    run(main())


@pytest.mark.parametrize(("step", "nth"), STEPS, ids=lambda value: str(value).replace(" ", "_"))
def test_a_broker_killed_at_any_step_leaves_a_whole_view_and_no_other_ledger(broker_url, topic, step, nth):
    async def main():
        command = [sys.executable, "-m", "tests.support.owners.compaction_owner", broker_url, topic, step, str(nth)]
        process = ForkedPython(command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
        out, err = await asyncio.to_thread(process.communicate)
        assert process.returncode == -9, f"the broker never came to {step}, time {nth}: {err.decode()}"
        done = json.loads(out.splitlines()[-1])["done"]
        async with served(broker_url) as broker:
            reader = await broker.connect()
            await reader.subscribe(topic=topic)
            opened = topic_of(broker, topic)
            await opened.managed_ledger.initialized()
            view = [value for _, values in await view_of(broker, topic) for value in values]
            expected = [["a1", "b1", "a2"], ["b1", "a2"], ["b1", "a2", "b2", "c1"], ["a2", "b2", "c1"]]
            assert view in (expected[2 * done : 2 * done + 2] or expected[-1:])
            ledger_id = named(broker, topic) if "__compaction" in opened.managed_ledger.cursors else None
            assert list(await ledgers_of(broker_url, topic)) == ([] if ledger_id is None else [ledger_id])
        await assert_nothing_orphaned(broker_url, opened.managed_ledger.name)

    run(main())
