"""Inspecting a topic while its owner writes."""

import asyncio

import mledger as public
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.url import open_reader
from tests.support.aio import run
from tests.support.cli import mledger
from tests.support.ledgers import client
from tests.support.metadata.tree import read_tree
from tests.support.topics import KEEP, payloads

LOOKING = (
    ("topics", "stats-internal"),
    ("topics", "info-internal"),
    ("topics", "describe"),
    ("topics", "read", "--limit", 5),
    ("cursors", "list"),
    ("cursors", "recover"),
)


def test_inspection_neither_fences_nor_closes_the_live_ledger(field_url, topic):
    """pulsar-16661: statistics of a topic opened its live ledger with recovery, and its owner was fenced."""

    async def main():
        async with public.open_cluster(field_url, config=KEEP) as cluster, await open_reader(field_url) as reader:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([await opened.add(b"first")])
            live = {opened.ledgers[-1].ledger_id, cursor.cursor_ledger}
            before = await read_tree(reader)
            for number, (noun, verb, *more) in enumerate(LOOKING):
                looked = asyncio.create_task(asyncio.to_thread(mledger, noun, verb, topic, *more, url=field_url))
                appended = await opened.append(payloads(1, number))
                done = await looked
                assert done.code == 0, done.err
                await cursor.acknowledge([public.Position(appended[0].ledger_id, appended[0].last_entry)])
            assert await read_tree(reader) == before
            assert {opened.ledgers[-1].ledger_id, cursor.cursor_ledger} == live
            async with client(field_url) as bookkeeper:
                for ledger in live:
                    assert (await bookkeeper.metadata(ledger)).state is LedgerState.OPEN

    run(main())
