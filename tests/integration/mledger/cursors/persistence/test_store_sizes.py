"""Cursor ledgers of large states (C4)."""

import mledger
from mledger.cursors.persistence import store
from mledger.events import CursorLedgerSwitched
from tests.support.aio import run
from tests.support.topics import KEEP, Events, assert_nothing_orphaned, fill


def test_a_cursor_ledger_is_switched_once_its_states_take_so_many_bytes(topic_url, topic, monkeypatch):
    monkeypatch.setattr(store, "SWITCH_BYTES", 10)

    async def main():
        events = Events()
        async with mledger.open_cluster(topic_url, config=KEEP) as cluster:
            opened = await cluster.create_topic(topic, events=events)
            positions = await fill(opened, 8)
            cursor = await opened.open_cursor("sub")
            for position in positions[::2]:  # a position takes 4 bytes or more, each hole over 10
                await cursor.acknowledge([position])
            assert len(events.of(CursorLedgerSwitched)) > 1
            await opened.abandon()
            again = await cluster.open_topic(topic)
            assert (await again.open_cursor("sub")).backlog == 4
            await again.initialized()
            name = again.name
        await assert_nothing_orphaned(topic_url, name)

    run(main())
