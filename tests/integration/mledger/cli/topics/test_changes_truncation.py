"""`mledger topics truncate --take-over` beside a live owner: it deletes what its plan names, and nothing more (M8)."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.partitions import create_partitioned_topic
from mledger.cli.topics import changes
from tests.support.aio import run
from tests.support.cli import answer, ok
from tests.support.commands.command_kills import killed_commands
from tests.support.pulsar_entries import pulsar_entry
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of, payloads

CONFIG = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)


@pytest.mark.parametrize("entries", [0, 25])
def test_what_a_live_owner_appends_after_the_plan_stays(url, topic, undo_file, monkeypatch, entries) -> None:
    partitioned = f"{topic}-{entries}"
    appended = CONFIG.max_entries_per_ledger + 3

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with public.open_cluster(url, config=CONFIG) as cluster:
            await create_partitioned_topic(cluster.metadata, partitioned, 2)
            first, second = [await cluster.open_topic(f"{partitioned}-partition-{index}") for index in (0, 1)]
            for each in (first, second):
                await each.open_cursor("sub")
            await fill(first, 5)  # so that there is something to truncate
            if entries:
                await fill(second, entries)
            open_topic = changes.planned_topic

            def opened_later(url, name, *others):
                if name == managed_ledger_of(f"{partitioned}-partition-1"):
                    asyncio.run_coroutine_threadsafe(fill(second, appended, entries), loop).result()
                return open_topic(url, name, *others)

            monkeypatch.setattr(changes, "planned_topic", opened_later)
            words = ("topics", "truncate", partitioned, "--take-over", *SINGLE, "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(answer, *words, url=url)
            for each in (first, second):
                await each.abandon()
        async with public.open_cluster(url, config=CONFIG) as cluster:
            again = await cluster.open_topic(f"{partitioned}-partition-1")
            cursor = await again.open_cursor("sub", create=False)
            assert cursor.backlog == appended
            assert [entry.payload for entry in await cursor.read(100)] == payloads(appended, entries)

    run(main())
    for index in (0, 1):
        run(assert_nothing_orphaned(url, managed_ledger_of(f"{partitioned}-partition-{index}")))


def test_brokers_know_what_was_truncated_if_it_is_sent_again(url, topic, undo_file) -> None:
    async def write() -> None:
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("pulsar.dedup")
            await opened.append([pulsar_entry(1)] * 25)
            await opened.close()

    async def known() -> dict[str, int]:
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.open_topic(topic)
            cursor = await opened.open_cursor("pulsar.dedup", create=False)
            assert opened.number_of_entries == cursor.backlog == 0
            return cursor.properties

    run(write())
    ok("topics", "truncate", topic, *SINGLE, "--yes", "--undo-file", undo_file, url=url)
    assert run(known()) == {"p": 0}


def test_a_truncation_killed_before_it_deletes_ledgers_is_undone_whole(url, topic, written, undo_file) -> None:
    with killed_commands() as commands:
        words = ("topics", "truncate", topic, "--take-over", "--yes", "--undo-file", undo_file)
        assert commands.run("ledgers dropped", *words, "--metadata", url).killed_at
    assert answer("topics", "describe", topic, url=url)["entries"] == 0
    redo = undo_file.with_suffix(".redo")
    ok("undo", undo_file, "--incomplete", "--take-over", "--yes", "--undo-file", redo, url=url)
    found = answer("topics", "describe", topic, url=url)
    assert [each["ledger_id"] for each in found["ledgers"] if each["entries"]] == written
    ok("cursors", "recover", topic, "--apply", "--take-over", url=url)
    assert len(ok("topics", "read", topic, url=url).out.splitlines()) == 25
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))
