"""A cursor's state between the frame limit of the bookies and maxMessageSize is too large, too (C5)."""

from dataclasses import replace

import pytest

import mledger
from mledger.bookie.client.config import ClientConfig
from tests.support.aio import run
from tests.support.topics import KEEP, fill

LIMITED = ClientConfig(max_frame=400)
"""Frames of 400 bytes, while maxMessageSize allows 5 MiB."""


def test_of_a_state_over_the_frame_limit_mark_delete_becomes_durable(topic_url, topic):
    async def main():
        config = replace(KEEP, max_entries_per_ledger=10_000)
        async with mledger.open_cluster(topic_url, config=config, client=LIMITED) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4000)
            cursor = await opened.open_cursor("sub")
            await cursor.acknowledge([positions[1], positions[200]])
            ledger = cursor.cursor_ledger
            with pytest.raises(mledger.AckStateTooLarge, match="in memory only"):
                await cursor.acknowledge([*positions[:100], *positions[301::2]])
            assert cursor.durable_mark_delete == positions[99]
            assert cursor.cursor_ledger == ledger
            await opened.abandon()
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.holes) == (positions[99], [(positions[199], positions[200])])

    run(main())


def test_a_close_with_a_state_over_the_frame_limit_keeps_its_mark_delete(topic_url, topic):
    async def main():
        config = replace(KEEP, max_entries_per_ledger=10_000, max_unacked_ranges_to_persist_in_metadata_store=5)
        async with mledger.open_cluster(topic_url, config=config, client=LIMITED) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 4000)
            cursor = await opened.open_cursor("sub")
            told = cursor.acknowledge([*positions[:100], *positions[301::2]])
            with pytest.raises(mledger.AckStateTooLarge, match="in memory only"):
                await opened.close()
            with pytest.raises(mledger.AckStateTooLarge):
                await told
            again = await (await cluster.open_topic(topic)).open_cursor("sub")
            assert (again.mark_delete, again.holes) == (positions[99], [])

    run(main())
