"""`mledger topics delete` that loses to another owner on the way: its undo names nothing that this one wrote."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.cli.shared.changes import undo_files
from mledger.cli.topics import deletion as delete_command
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import cursor_path, managed_ledger_path
from mledger.metastore.url import open_reader
from mledger.topics import deletion
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.topics import KEEP, fill, managed_ledger_of

ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def lose(url, named, owned, write, undo_file, monkeypatch):
    """Delete the topic `named`; another owner opens the topic `owned` before the deletion's write number `write`.

    Returns the record that the other owner left.
    """
    multi_own, writes = deletion.multi_own, []

    async def main():
        loop = asyncio.get_running_loop()
        async with public.open_cluster(url, config=ONE) as other:

            async def own() -> None:
                opened = await other.open_topic(owned)
                await fill(opened, 3)

            async def come(*arguments, **named):
                writes.append(arguments)
                if len(writes) == write:
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(own(), loop))
                return await multi_own(*arguments, **named)

            monkeypatch.setattr(deletion, "multi_own", come)
            words = ("topics", "delete", named, "--yes", "--undo-file", undo_file)
            done = await asyncio.to_thread(mledger, *words, url=url)
        async with await open_reader(url) as reader:
            return done, (await reader.get(managed_ledger_path(managed_ledger_of(owned)))).data

    done, record = run(main())
    assert (done.code, "was changed by an owner while it was being deleted" in done.err) == (4, True), done
    return record


def record_of(url, topic):
    async def main():
        async with await open_reader(url) as reader:
            return (await reader.get(managed_ledger_path(managed_ledger_of(topic)))).data

    return run(main())


def test_a_deletion_that_deleted_nothing_leaves_no_undo_file(url, topic, undo_file, monkeypatch) -> None:
    ok("topics", "create", topic, url=url)
    ok("cursors", "create", topic, "one", url=url)
    lose(url, topic, topic, 1, undo_file, monkeypatch)
    assert not undo_file.exists()


def test_a_deletion_that_was_interrupted_before_it_began_leaves_no_undo_file(url, topic, undo_file, monkeypatch):
    async def wait(*arguments) -> None:
        raise StoreUnavailable("as Ctrl-C, --timeout or the loss of the store end it")

    ok("topics", "create", topic, url=url)
    monkeypatch.setattr(delete_command, "check_planned_records", wait)
    assert mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url).code == 5
    assert not undo_file.exists()


def test_undo_brings_back_the_cursors_that_were_deleted_and_leaves_the_owner_s_record(
    url, topic, undo_file, monkeypatch
) -> None:
    ok("topics", "create", topic, url=url)
    for name in ("a", "b", "c"):
        ok("cursors", "create", topic, name, url=url)
    monkeypatch.setattr(deletion, "CURSORS_AT_ONCE", 1)
    record = lose(url, topic, topic, 3, undo_file, monkeypatch)
    name = managed_ledger_of(topic)
    assert sorted(undo_files.load(undo_file).paths) == [cursor_path(name, "a"), cursor_path(name, "b")]
    ok("undo", undo_file, "--incomplete", "--yes", url=url)
    assert [each["cursor"] for each in answer("cursors", "list", topic, url=url)] == ["a", "b", "c"]
    assert record_of(url, topic) == record


@pytest.mark.parametrize("lost", [1, 2])
def test_partitions_that_were_not_deleted_are_not_for_undo(url, topic, undo_file, monkeypatch, lost) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    partitions = [f"{topic}-partition-{index}" for index in range(3)]
    lose(url, topic, partitions[lost], lost + 1, undo_file, monkeypatch)
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == tuple(map(managed_ledger_of, partitions[:lost]))
    assert not [path for path in file.paths for each in partitions[lost:] if path.endswith(each.rpartition("/")[2])]
