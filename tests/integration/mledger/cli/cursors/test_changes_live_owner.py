"""`mledger cursors … --take-over` beside a live owner: it acknowledges what its plan counts, and nothing more."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.cli.cursors import cursor_change
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.topics import CONFIG, fill, payloads

SINGLE = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def after_planning(monkeypatch, work) -> None:
    """Run `work` once a command has planned, and is about to open the topic."""
    loop, open_topic = asyncio.get_running_loop(), cursor_change.planned_topic

    def opened_later(*arguments, **named):
        asyncio.run_coroutine_threadsafe(work(), loop).result()
        return open_topic(*arguments, **named)

    monkeypatch.setattr(cursor_change, "planned_topic", opened_later)


async def left_for(url, topic) -> list[bytes]:
    """What the cursor reads next."""
    async with public.open_cluster(url, config=SINGLE) as cluster:
        cursor = await (await cluster.open_topic(topic)).open_cursor("one", create=False)
        return [entry.payload for entry in await cursor.read(100)]


@pytest.mark.parametrize("change", [["clear"], ["reset", "--to", "latest"]], ids=lambda change: change[0])
def test_what_a_live_owner_appends_after_the_plan_stays_unacknowledged(
    url, topic, undo_file, monkeypatch, change
) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SINGLE) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("one")
            await fill(opened, 5)
            after_planning(monkeypatch, lambda: fill(opened, 3, 5))
            words = ("cursors", change[0], topic, "one", *change[1:], "--take-over", "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(answer, *words, url=url)
            await opened.abandon()
        assert await left_for(url, topic) == payloads(3, 5)

    run(main())


def test_entries_after_those_of_the_plan_are_not_skipped_for_what_was_consumed_meanwhile(
    url, topic, undo_file, monkeypatch
) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SINGLE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 9)
            await cursor.acknowledge_cumulative(positions[0])

            async def consume() -> None:
                await cursor.acknowledge_cumulative(positions[4])

            after_planning(monkeypatch, consume)
            words = ("cursors", "skip", topic, "one", 2, "--take-over", "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(answer, *words, url=url)
            await opened.abandon()
        assert await left_for(url, topic) == payloads(4, 5)

    run(main())


def test_entries_that_a_live_owner_s_cursor_went_back_to_are_not_skipped(url, topic, undo_file, monkeypatch) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SINGLE) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 9)
            await cursor.acknowledge_cumulative(positions[4])
            after_planning(monkeypatch, lambda: cursor.reset("earliest"))
            words = ("cursors", "skip", topic, "one", 2, "--take-over", "--yes", "--undo-file", undo_file)
            refused = await asyncio.to_thread(mledger, *words, url=url)
            assert (refused.code, undo_file.exists()) == (4, False)
            await opened.abandon()
        assert await left_for(url, topic) == payloads(9)

    run(main())


@pytest.mark.parametrize("change", [["delete"], ["skip", 7]], ids=lambda change: change[0])
def test_an_owner_that_does_not_know_of_a_restored_cursor_trims_nothing_that_it_needs(
    url, topic, undo_file, change
) -> None:
    """As one that was taken over, or was frozen for longer than its session while the cursor came back."""

    async def main() -> None:
        settings = replace(SINGLE, max_entries_per_ledger=5, retention_time_ms=0, retention_size_in_mb=0)
        async with public.open_cluster(url, config=settings) as cluster:
            opened = await cluster.create_topic(topic, trim=False)
            await opened.open_cursor("one")
            await fill(opened, 12)
            await opened.close()
            words = ("cursors", change[0], topic, "one", *change[1:], "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(answer, *words, url=url)
            owner = await cluster.open_topic(topic, trim=False)
            await owner.initialized()
            words = ("undo", undo_file, "--take-over", "--yes", "--undo-file", undo_file.with_name("redo.json"))
            await asyncio.to_thread(answer, *words, url=url)
            with pytest.raises(public.ManagedLedgerFenced):
                await owner.trim()
            await owner.abandon()
        assert await left_for(url, topic) == payloads(12)

    run(main())
