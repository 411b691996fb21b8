"""What the plan of a change of a topic says is what the change does."""

from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.partitions import read_partitioned
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_store
from mledger.topics.properties import mark_deleted
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.command_kills import killed_commands
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

CONFIG = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, max_entries_per_ledger=10)
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
TOO_LARGE = "x" * 120_000  # an argument of a process has at most 128 KiB
MANY = tuple(f"key-{number}={TOO_LARGE}" for number in range(9))


async def _written(url: str, topic: str, entries: int, *, trimmed: bool, opened_again: bool, crash: bool) -> None:
    async with public.open_cluster(url, config=CONFIG) as cluster:
        opened = await cluster.create_topic(topic)
        if entries:
            await fill(opened, entries)
        if trimmed:
            await opened.truncate()
        await (opened.abandon() if crash else opened.close())
        if opened_again:
            await (await cluster.open_topic(topic)).close()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("opened_again", [False, True])
@pytest.mark.parametrize(("entries", "trimmed"), [(0, False), (5, False), (10, False), (25, False), (25, True)])
def test_a_termination_ends_where_its_plan_says(url, topic, undo_file, entries, trimmed, opened_again, crash) -> None:
    run(_written(url, topic, entries, trimmed=trimmed, opened_again=opened_again, crash=crash))
    (planned,) = answer("topics", "terminate", topic, "--dry-run", url=url)["topics"]
    done = answer("topics", "terminate", topic, *SINGLE, "--take-over", "--yes", "--undo-file", undo_file, url=url)
    assert done["terminated"] == {topic: planned["last_entry"]}


@pytest.mark.parametrize("partitions", [(), ("--partitions", 2)])
def test_the_plan_refuses_properties_that_the_record_cannot_hold(url, topic, partitions) -> None:
    ok("topics", "create", topic, *partitions, url=url)
    refused = mledger("topics", "set-properties", topic, *MANY, "--dry-run", url=url)
    assert refused.code == 1
    assert "exceeds the limit of 1048575" in refused.err


def test_a_truncation_killed_after_it_dropped_ledgers_is_completed_by_the_next(url, topic, written, undo_file) -> None:
    with killed_commands() as commands:
        words = ("topics", "truncate", topic, "--take-over", "--yes", "--undo-file", undo_file)
        assert commands.run("ledgers dropped", *words, "--metadata", url).killed_at
    again = ("topics", "truncate", topic)
    (warning,) = answer(*again, "--dry-run", url=url)["warnings"]
    left = warning.rpartition("this deletes: ledger ")[2].split(", ")  # perhaps one more, which the command had begun
    assert set(map(str, written)) <= set(left)
    second = undo_file.with_name("second.json")
    ok(*again, "--take-over", "--yes", "--undo-file", second, url=url)
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))
    assert "nothing to do" in ok(*again, url=url).out


def test_partitions_of_a_topic_that_is_being_deleted_are_not_created_again(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    name = TopicName.parse(topic)

    async def half_deleted() -> None:
        async with await open_store(url) as store:
            await mark_deleted(store, name)
            await store.delete(name.partition(1).managed_ledger_path)

    run(half_deleted())
    refused = mledger("topics", "create", topic, "--missing", url=url)
    assert refused.code == 4
    assert f"{topic} is being deleted" in refused.err

    async def left() -> bool:
        async with await open_store(url) as store:
            found = await read_partitioned(store, name)
            assert found is not None
            return found[0].deleted and await store.exists(name.partition(1).managed_ledger_path) is None

    assert run(left())
