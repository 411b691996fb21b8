"""`topics drop-ledgers` on a real cluster: its plan, its refusals, and its undo."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree
from tests.support.topics import KEEP, fill, managed_ledger_of

ONE_COPY = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def test_the_plan_of_dropping_ledgers_names_the_cursors_in_them_and_changes_nothing(url, topic, written) -> None:
    before = tree(url)
    plan = answer("topics", "drop-ledgers", topic, written[0], 99999, "--dry-run", url=url)
    assert tree(url) == before
    assert plan["not_listed"] == [99999]
    assert [(each["ledger_id"], each["cursors"]) for each in plan["ledgers"]] == [(written[0], ["one"])]


def test_dropped_ledgers_are_listed_again_by_undo(url, topic, written, undo_file) -> None:
    path = f"/managed-ledgers/{managed_ledger_of(topic)}"
    before = tree(url)[path]
    done = answer("topics", "drop-ledgers", topic, *written[:2], "--yes", "--undo-file", undo_file, url=url)
    assert done["ledgers_left"] == 1
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    version, data = before
    assert tree(url)[path] == (version + 2, data)
    assert not [each for each in tree(url) if each.startswith("/mledger/kept/")]


def test_the_first_ledgers_that_are_dropped_do_not_count_as_trimmed(url, topic, written, undo_file) -> None:
    answer("topics", "drop-ledgers", topic, written[0], "--yes", "--undo-file", undo_file, url=url)
    planned = answer("topics", "repair", topic, "--min-age", 0, "--dry-run", url=url)
    assert [(each["ledger_id"], each["wrong"]) for each in planned["left"]] == [
        (written[0], "ledger is not in the list")
    ]
    assert not planned["lost"]


def test_the_plan_of_a_deletion_names_the_ledgers_that_were_dropped(url, topic, written, undo_file) -> None:
    ok("topics", "drop-ledgers", topic, written[1], "--yes", "--undo-file", undo_file, url=url)
    plan = answer("topics", "delete", topic, "--dry-run", url=url)
    kept = [each for each in plan["ledgers"] if each["named_as"] != "data ledger"]
    assert ([(each["ledger_id"], each["entries"]) for each in kept], plan["ledgers_deleted"]) == ([(written[1], 10)], 3)
    assert f"ledger {written[1]} of {topic}, kept: nothing else names it, with 10 entries" in plan["lost"]


def test_ledgers_of_a_topic_with_a_live_owner_are_not_dropped(url, topic, undo_file, monkeypatch) -> None:
    monkeypatch.setattr("mledger.cli.shared.changes.change_command.SESSION_TIMEOUT_S", 1.0)

    async def main():
        async with public.open_cluster(url) as cluster:
            owned = await cluster.create_topic(topic)
            ledger = owned.ledgers[0].ledger_id
            drop = ("topics", "drop-ledgers", topic, ledger, "--yes", "--undo-file", undo_file)
            refused = await asyncio.to_thread(mledger, *drop, url=url)
            await owned.add(b"still the owner")
            await owned.abandon()
            return refused

    refused = run(main())
    assert (refused.code, undo_file.exists()) == (4, False)


def test_ledgers_of_a_partitioned_topic_are_dropped_by_partition(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    refused = mledger("topics", "drop-ledgers", topic, 1, "--dry-run", url=url)
    assert refused.code == 2
    assert f"{topic}-partition-0" in refused.err


def test_a_last_ledger_whose_bookies_are_gone_is_dropped_so_that_the_topic_opens_again(
    bookies, topic, undo_file
) -> None:
    (bookie,) = bookies.start(1)
    url = bookies.metadata_url

    async def crash():
        async with public.open_cluster(url, config=ONE_COPY) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("one")
            await fill(opened, 5)
            await opened.abandon()
            return opened.ledgers[-1].ledger_id

    async def reopen():
        async with public.open_cluster(url, config=ONE_COPY) as cluster:
            opened = await cluster.open_topic(topic)
            assert (await opened.open_cursor("one")).backlog == 0
            await fill(opened, 1)

    lost = run(crash())
    bookie.kill()
    bookies.start(1)
    done = mledger(
        "topics", "drop-ledgers", topic, lost, "--yes", "--undo-file", undo_file, "--output", "json", url=url
    )
    assert done.code == 0, done.err
    assert any("cursors" in each for each in done.json["warnings"])
    run(reopen(), timeout=60.0)


async def damage(url, path) -> None:
    """Replace a node's data with bytes that do not parse."""
    async with await open_store(url) as store:
        await store.put(path, b"\xff damaged", (await store.get(path)).version)


@pytest.mark.parametrize("which", [1, -1])
def test_a_ledger_whose_metadata_does_not_parse_is_dropped(url, topic, written, undo_file, which) -> None:
    run(damage(url, ledger_path(written[which])))
    drop = ("topics", "drop-ledgers", topic, written[which], "--yes", "--undo-file", undo_file)
    done = mledger(*drop, "--output", "json", url=url)
    assert done.code == 0, done.err
    assert done.json["ledgers_left"] == 2


def test_a_ledger_that_is_listed_twice_is_dropped(url, topic, written, undo_file) -> None:
    async def list_twice():
        async with await open_store(url) as store:
            path = f"/managed-ledgers/{managed_ledger_of(topic)}"
            node = await store.get(path)
            info = decode_managed_ledger_info(node.data, path).value
            ledgers = (*info.ledgers, info.ledgers[0])
            await store.put(path, encode_managed_ledger_info(structs.replace(info, ledgers=ledgers)), node.version)

    run(list_twice())
    drop = ("topics", "drop-ledgers", topic, written[0], "--yes", "--undo-file", undo_file)
    done = mledger(*drop, "--output", "json", url=url)
    assert done.code == 0, done.err
    assert done.json["ledgers_left"] == 2


def list_impossible(url, topic, *, last: bool) -> str:
    """Have the topic's record list a negative number, as its last ledger or as its first; the record's path."""
    path = f"/managed-ledgers/{managed_ledger_of(topic)}"

    async def main():
        async with await open_store(url) as store:
            node = await store.get(path)
            info = decode_managed_ledger_info(node.data).value
            ledgers = (LedgerInfo(-5, 0, 0, 0),) if last else (LedgerInfo(-5, 1, 1, 1), *info.ledgers)
            await store.put(path, encode_managed_ledger_info(structs.replace(info, ledgers=ledgers)), node.version)

    run(main())
    return path


@pytest.mark.parametrize(
    "command",
    [("topics", "describe"), ("topics", "read"), ("cursors", "list"), ("topics", "produce", "--count", "1")],
    ids=lambda each: each[1],
)
def test_a_negative_ledger_id_is_named_with_its_topic(url, topic, written, command) -> None:
    path = list_impossible(url, topic, last=True)
    done = mledger(*command, topic, url=url)
    assert done.code == 1
    assert f"{path} lists -5, which is no ledger's id" in done.err


@pytest.mark.parametrize("last", [True, False])
def test_a_negative_ledger_id_is_dropped(url, topic, written, undo_file, last) -> None:
    list_impossible(url, topic, last=last)
    done = ok("-o", "json", "topics", "drop-ledgers", topic, "--yes", "--undo-file", undo_file, "--", -5, url=url).json
    assert done["still_listed"] == ([] if last else list(written))
    ok("topics", "read", topic, url=url)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)


def test_a_topic_that_lists_a_negative_ledger_id_is_deleted(url, topic, written, undo_file) -> None:
    path = list_impossible(url, topic, last=True)
    done = answer("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert f"ledger -5 of {topic}, with an unknown number of entries" in done["lost"][0]
    assert path not in tree(url)


def test_an_owner_that_is_taken_over_acknowledges_nothing_in_a_dropped_ledger(url, topic, undo_file) -> None:
    async def main():
        async with public.open_cluster(url, config=ONE_COPY) as cluster:
            owned = await cluster.create_topic(topic)
            await fill(owned, 3)
            last = owned.ledgers[-1].ledger_id
            drop = ("topics", "drop-ledgers", topic, last, "--take-over", "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(ok, *drop, url=url)
            with pytest.raises(public.ManagedLedgerFenced):
                await owned.add(b"nobody would find this")
            await owned.abandon()

    run(main())
