"""Ledgers that a cursor's properties name: whenever the owner dies, none is lost and none is left over (R10)."""

import asyncio
import json
import sys
from subprocess import PIPE

import pytest

import mledger
from mledger.admin.references.attached_ledgers import find_attached
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger
from mledger.broker.topics.delayed.bucket_format import bucket_name, custom_metadata
from mledger.errors import InvalidProperties
from mledger.ledgers.orphans.pending_records import bucket_ledgers, read_records
from mledger.metastore.store import Put
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.bookies.processes import ROOT
from tests.support.forked_python import ForkedPython
from tests.support.topics import KEEP, assert_nothing_orphaned, hold_write

BUCKET = bucket_name(1, 1)
STEPS = [
    ("create ledger", 2),
    ("ledger created, not listed", 2),
    ("attached ledger written", 1),
    ("write cursor record", 1),
    ("attached ledger written", 2),
    ("write cursor record", 2),
    ("ledger created, not listed", 4),
    ("attached ledger written", 3),
    ("write cursor record", 3),
    ("delete ledger", 1),
    ("ledger deleted, still recorded", 1),
    ("ledger deleted, still recorded", 2),
    ("write cursor record", 4),
    ("delete ledger", 3),
    ("ledger deleted, still recorded", 3),
]


async def buckets_of(url, topic):
    """The buckets of a topic that exist, and their first entries."""
    found = {}
    async with await open_reader(url) as reader:
        bookkeeper = BookKeeperReader(reader)
        async for page in bookkeeper.list_ledgers():
            for ledger_id in page:
                try:
                    custom = dict((await bookkeeper.metadata(ledger_id)).custom_metadata)
                except NoSuchLedger:
                    continue
                if custom.get("pulsar/delayedIndexTopic") == topic.encode():
                    found[ledger_id] = await (await bookkeeper.peek(ledger_id)).read(0)
        await bookkeeper.close()
    return found


async def attach(cursor, topic, name, *replacing):
    return await cursor.attach_ledger(name, custom_metadata(name, topic, cursor.name), [name.encode()], replacing)


@pytest.mark.parametrize(("step", "nth"), STEPS, ids=lambda value: str(value).replace(" ", "_"))
def test_an_owner_killed_at_any_step_loses_no_attached_ledger_and_leaves_none(topic_url, topic, step, nth):
    async def main():
        command = [sys.executable, "-m", "tests.support.owners.bucket_owner", topic_url, topic, step, str(nth)]
        process = ForkedPython(command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
        out, err = await asyncio.to_thread(process.communicate)
        assert process.returncode == -9, f"the owner never came to {step}, time {nth}: {err.decode()}"
        known = [json.loads(line)["attached"] for line in out.splitlines()]
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic, take_over=True)
            await opened.initialized()
            cursor = await opened.open_cursor("sub", create=False)
            named = {name: int(text) for name, text in cursor.cursor_properties.items()}
            entries = {}
            for name, ledger_id in named.items():
                reader = await cursor.open_attached(ledger_id)
                entries[name] = (await reader.read(0, 0))[0].decode()
            expected = [{bucket_name(1, 1)}, {bucket_name(1, 1), bucket_name(2, 2)}, {bucket_name(1, 2)}, set(), set()]
            assert entries == {name: name for name in named}
            assert set(named) in (set(known[-1]), expected[len(known) - 1])
            managed_ledger = opened.name
        await assert_nothing_orphaned(topic_url, managed_ledger)
        assert sorted(await buckets_of(topic_url, topic)) == sorted(named.values())

    run(main())


def test_a_closed_cursor_still_names_its_attached_ledgers(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub", cursor_properties={"own": "text"})
            ledger_id = await attach(cursor, topic, BUCKET)
            await opened.add(b"x")
            await cursor.clear_backlog()
            await opened.close()
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert again.cursor_properties == {"own": "text", BUCKET: str(ledger_id)}
        assert await buckets_of(topic_url, topic) == {ledger_id: BUCKET.encode()}

    run(main())


def test_an_attached_ledger_stays_named_when_a_program_replaces_the_properties(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub", cursor_properties={"old": "text"})
            ledger_id = await attach(cursor, topic, BUCKET)
            await cursor.set_cursor_properties({"own": "text"})
            assert cursor.cursor_properties == {BUCKET: str(ledger_id), "own": "text"}
            await opened.delete_cursor("sub", attached=bucket_ledgers(cursor.cursor_properties.items()))
            await opened.close()
        assert await buckets_of(topic_url, topic) == {}

    run(main())


def test_an_attached_ledger_is_replaced_by_one_of_the_same_name(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await attach(cursor, topic, BUCKET)
            second = await attach(cursor, topic, BUCKET)
            await opened.close()
        assert list(await buckets_of(topic_url, topic)) == [second]

    run(main())


def test_a_deleted_cursor_takes_its_attached_ledgers_with_it(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await attach(cursor, topic, BUCKET)
            await opened.delete_cursor("sub", attached=bucket_ledgers(cursor.cursor_properties.items()))
            await opened.close()
        assert await buckets_of(topic_url, topic) == {}
        async with await open_reader(topic_url) as reader:
            assert [each for each in await read_records(reader) if each.managed_ledger == opened.name] == []

    run(main())


def test_commands_find_the_attached_ledgers_of_a_cursor(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            ledger_id = await attach(cursor, topic, BUCKET)
            found = await find_attached(cluster.metadata, cluster.bookkeeper, opened.name, [cursor.path])
            assert [each.ledger_id for each in found.ledgers] == [ledger_id]

    run(main())


def test_a_foreign_ledger_is_detached_and_stays(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor, other = await opened.open_cursor("sub"), await opened.open_cursor("other")
            ledger_id = await attach(cursor, topic, BUCKET)
            await other.set_cursor_properties({BUCKET: str(ledger_id)})
            await other.detach_ledgers([BUCKET], delete=False)
            assert other.cursor_properties == {}
            await opened.close()
        assert list(await buckets_of(topic_url, topic)) == [ledger_id]

    run(main())


def test_only_properties_of_pulsar_and_durable_cursors_name_ledgers(topic_url, topic):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            durable, memory = await opened.open_cursor("sub"), await opened.open_cursor("reader", durable=False)
            with pytest.raises(InvalidProperties, match="cannot name a ledger"):
                await attach(durable, topic, "name")
            with pytest.raises(InvalidProperties, match="not durable"):
                await attach(memory, topic, BUCKET)
        assert await buckets_of(topic_url, topic) == {}

    run(main())


def test_a_ledger_that_is_named_while_its_cursor_is_deleted_goes_with_it(topic_url, topic, monkeypatch):
    async def main():
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            begun, release = hold_write(monkeypatch, cluster.metadata, Put, cursor.path)
            attaching = asyncio.ensure_future(attach(cursor, topic, BUCKET))
            await begun.wait()
            deleting = asyncio.ensure_future(opened.delete_cursor("sub"))
            release.set()
            await asyncio.gather(attaching, deleting)
            name = opened.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())
