"""A ledger switch that failed half-way is completed without further appends (M4, R10)."""

import asyncio

import pytest

import mledger
from mledger.events import LedgerCreated
from mledger.topics import appender
from tests.support.aio import run
from tests.support.topics import CONFIG, Events, FailsAt, fill


@pytest.mark.parametrize("step", ["close ledger", "list ledger"])
def test_a_consumed_ledger_is_trimmed_though_its_switch_failed_and_nobody_appends(topic_url, topic, step, monkeypatch):
    monkeypatch.setattr(appender, "SWITCH_AGAIN_MS", 200)

    async def main():
        fail = FailsAt(step)
        events = Events()
        async with mledger.open_cluster(topic_url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic, on_step=fail, events=events)
            cursor = await opened.open_cursor("sub")
            await fill(opened, 9)
            (first,) = [ledger.ledger_id for ledger in opened.ledgers]
            fail.armed, following = True, asyncio.ensure_future(events.next(LedgerCreated))
            await fill(opened, 1, 9)
            await following
            assert not fail.armed
            await cursor.clear_backlog()
            await opened.trim()
            assert first not in [ledger.ledger_id for ledger in opened.ledgers]
            await fill(opened, 3, 10)
            assert opened.number_of_entries == 3

    run(main())
