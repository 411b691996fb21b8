"""A full cursor ledger while no new one can be created: its cursor stays durable (C5)."""

from contextlib import closing
from dataclasses import replace

import mledger
from mledger.cursors.persistence import store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.topics import KEEP, fill


def test_a_full_cursor_ledger_is_written_on_while_no_new_one_can_be_created(bookies, topic, monkeypatch):
    monkeypatch.setattr(store, "SWITCH_POSTPONED_S", 0.0)
    config = replace(KEEP, metadata_max_entries_per_ledger=3, max_unacked_ranges_to_persist_in_metadata_store=1)
    bookies.start(3)

    async def main():
        async with mledger.open_cluster(bookies.metadata_url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([positions[1], positions[3]])
            first = cursor.cursor_ledger
            bookies.kill(0)
            for position in positions[4:]:
                await cursor.acknowledge([position])
            assert cursor.cursor_ledger == first
            bookies.restart(0)
            while cursor.cursor_ledger == first:
                await cursor.acknowledge(await fill(opened, 1))

    run(main())


def test_a_full_cursor_ledger_is_written_on_while_the_metadata_store_does_not_answer(zookeeper_server, tmp_path, topic):
    config = replace(KEEP, metadata_max_entries_per_ledger=3, metadata_operations_timeout_s=1)
    initialize_cluster(zookeeper_server.url)

    async def main(url):
        async with mledger.open_cluster(url, config=config, session_timeout=60) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 9)
            cursor = await opened.open_cursor("sub")
            for position in positions[:3]:
                await cursor.acknowledge([position])
            first = cursor.cursor_ledger
            zookeeper_server.freeze()
            for position in positions[3:]:
                await cursor.acknowledge([position])
            assert (cursor.cursor_ledger, cursor.durable_mark_delete) == (first, positions[-1])
            zookeeper_server.thaw()
            while cursor.cursor_ledger == first:
                await cursor.acknowledge(await fill(opened, 1))

    with closing(BookieProcesses(zookeeper_server.url, tmp_path / "bookies")) as bookies:
        bookies.start(3)
        run(main(bookies.metadata_url))
