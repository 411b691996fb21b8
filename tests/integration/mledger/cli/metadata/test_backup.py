"""`metadata backup` and `metadata restore` on a real cluster: a lost tree is restored, and its topics open."""

import asyncio
import errno
import os
from contextlib import closing, suppress
from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.repair.ledger_mends import PASSED
from mledger.cli.metadata import backup as command
from mledger.metastore.backup.backup_file import check_backup
from mledger.metastore.backup.restore import INSTANCE_ID
from mledger.metastore.backup.tree_reader import copy_tree
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import ledger_id_from_path, managed_ledger_path
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses, initialize_cluster
from tests.support.cli import answer, mledger, mledger_process, ok
from tests.support.commands.meanwhile import meanwhile
from tests.support.metadata.tree import tree
from tests.support.topics import KEEP, everything, fill, managed_ledger_of, payloads

TOPIC = "persistent://public/default/kept"
ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
SHORT_WAIT = ("--set", "metadataStoreSessionTimeoutMillis=1000")


@pytest.fixture
def cluster(metadata_url, tmp_path):
    """One bookie for tests that stop and start it."""
    initialize_cluster(metadata_url)
    processes = BookieProcesses(metadata_url, tmp_path / "cluster")
    try:
        processes.start(1)
        yield processes
    finally:
        processes.close()


@pytest.fixture
def entries(cluster):
    """A closed topic of 25 entries with a cursor after the fifth."""

    async def main():
        async with public.open_cluster(cluster.metadata_url, config=ONE) as opened:
            topic = await opened.create_topic(TOPIC)
            positions = await fill(topic, 25)
            cursor = await topic.open_cursor("one")
            await cursor.acknowledge_cumulative(positions[4])

    run(main())
    return payloads(25)


@pytest.fixture
def backup(cluster, entries, tmp_path):
    """A backup of it."""
    file = tmp_path / "backup.jsonl.gz"
    before = tree(cluster.metadata_url)
    done = answer("metadata", "backup", file, url=cluster.metadata_url)
    assert tree(cluster.metadata_url) == before
    assert done["nodes"] >= len(before)
    return file


def go_on(url: str) -> list[int]:
    """Write entries 25 to 39 to the topic, and abandon it; the ledgers that they are in."""

    async def main():
        async with public.open_cluster(url, config=ONE) as opened:
            topic = await opened.open_topic(TOPIC)
            positions = await fill(topic, 15, 25)
            await topic.abandon()
            return sorted({position.ledger_id for position in positions})

    return run(main())


def read(url: str, config=ONE) -> list[bytes]:
    """Every entry that the topic has once it is opened."""

    async def main():
        async with public.open_cluster(url, config=config) as opened:
            return await everything(await opened.open_topic(TOPIC, trim=False))

    return run(main())


def delete_everything(url: str) -> None:
    """Delete the whole tree except ZooKeeper's own nodes."""

    async def main():
        async with await open_store(url) as store:
            for path in sorted(tree_paths, reverse=True):
                await store.delete(path)

    tree_paths = tree(url)
    run(main())


def is_ledger(path: str) -> bool:
    with suppress(InvalidName):
        return ledger_id_from_path(path) >= 0
    return False


def stored(url: str) -> dict[str, bytes]:
    return {path: data for path, (_, data) in tree(url).items() if "/idgen" not in path}


def test_of_two_backups_to_one_file_at_once_the_first_to_end_is_kept_whole(cluster_url, tmp_path, monkeypatch):
    file, others = tmp_path / "backup.jsonl", []

    async def overtaken(*arguments):
        others.append(await asyncio.to_thread(mledger_process, "metadata", "backup", file, url=cluster_url))
        return await copy_tree(*arguments)

    monkeypatch.setattr(command, "copy_tree", overtaken)
    done = mledger("metadata", "backup", file, url=cluster_url)
    assert ([other.code for other in others], done.code != 0) == ([0], True)
    assert check_backup(file)[1] == len(tree(cluster_url)) + 1
    assert [path.name for path in tmp_path.glob(".*backup*")] == []


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_error_of_the_network_is_not_said_to_be_the_files(cluster_url, tmp_path, monkeypatch, suffix):
    async def unreachable(*_):
        raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))

    monkeypatch.setattr(command, "copy_tree", unreachable)
    done = mledger("metadata", "backup", tmp_path / f"backup.jsonl{suffix}", url=cluster_url)
    assert (done.code, "No route to host" in done.err, "cannot be written" in done.err) == (1, True, False)
    assert list(tmp_path.glob("*backup*")) == []


def test_a_lost_tree_is_restored_and_its_topics_open(cluster, entries, backup, undo_file):
    url = cluster.metadata_url
    before = stored(url)
    cluster.stop(0)
    delete_everything(url)
    planned = answer("metadata", "restore", backup, "--dry-run", url=url)
    assert (planned["create"], planned["change"], tree(url)) == (len(tree_of(planned)), 0, {})
    answer("metadata", "restore", backup, "--yes", "--undo-file", undo_file, url=url)
    assert stored(url) == before
    cluster.restart(0)

    async def main():
        async with public.open_cluster(url, config=ONE) as opened:
            topic = await opened.open_topic(TOPIC)
            cursor = await topic.open_cursor("one", create=False)
            found = await everything(topic), cursor.backlog
            await fill(topic, 1)
            return found

    assert run(main()) == (entries, 20)


def test_a_ledger_that_was_closed_since_the_backup_keeps_what_it_got_since(cluster, tmp_path, undo_file):
    url, file = cluster.metadata_url, tmp_path / "backup.jsonl"
    all_entries = replace(ONE, max_entries_per_ledger=1000)

    async def write():
        async with public.open_cluster(url, config=all_entries) as opened:
            topic = await opened.create_topic(TOPIC)
            await fill(topic, 10)
            await asyncio.to_thread(answer, "metadata", "backup", file, url=url)
            await asyncio.to_thread(cluster.start, 1)
            await asyncio.to_thread(cluster.kill, 0)
            await fill(topic, 10, 10)

    run(write())
    cluster.restart(0)
    assert read(url, all_entries) == payloads(20)  # this has closed the ledger
    for number in (0, 1):
        cluster.stop(number)
    restored = answer("metadata", "restore", file, "--yes", "--undo-file", undo_file, url=url)
    for number in (0, 1):
        cluster.restart(number)
    assert read(url, all_entries) == payloads(20)
    assert restored["newer"] == 1


def test_what_a_topic_got_since_the_backup_is_named_and_no_repair_deletes_it(cluster, backup, undo_file):
    url, path = cluster.metadata_url, managed_ledger_path(managed_ledger_of(TOPIC))
    since = go_on(url)
    restored = answer("metadata", "restore", backup, "--path", path, "--yes", "--undo-file", undo_file, url=url)
    assert f"the way to {len(since)} ledgers ({', '.join(map(str, since))}) that {path} lists" in restored["lost"][0]
    repair = ("topics", "repair", TOPIC, "--min-age", 0, "--yes", "--undo-file", undo_file.with_name("repair.json"))
    left = answer(*repair, url=url)["left"]
    assert [each["ledger_id"] for each in left if each["wrong"] == "ledger is not in the list"] == since
    found = mledger("ledgers", "check", "--all", "--references-only", "--min-age", 0, "--output", "json", url=url).json
    assert [(each["ledger_id"], each["state"]) for each in found["unnamed"]] == [(each, "unlisted") for each in since]
    assert "has lost it" in mledger("ledgers", "delete", since[0], "--dry-run", url=url).err
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert read(url) == payloads(40)


def test_what_a_topic_got_since_the_backup_is_listed_again_by_repair(cluster, backup, undo_file):
    url, path = cluster.metadata_url, managed_ledger_path(managed_ledger_of(TOPIC))

    async def trim():
        async with public.open_cluster(url, config=replace(ONE, retention_time_ms=0, retention_size_in_mb=0)) as opened:
            topic = await opened.open_topic(TOPIC, trim=True)
            await (await topic.open_cursor("one")).acknowledge_cumulative((await fill(topic, 15, 40))[-1])
            await topic.trim()
            return topic.ledgers[0].ledger_id

    since = go_on(url)
    answer("metadata", "restore", backup, "--path", path, "--yes", "--undo-file", undo_file, url=url)
    assert run(trim()) > since[-1]
    repair = ("topics", "repair", TOPIC, "--min-age", 0)
    assert [each["ledger_id"] for each in answer(*repair, "--dry-run", url=url)["left"]] == since
    planned = answer(*repair, "--relist", "--dry-run", url=url)
    assert {each["mend"] for each in planned["mends"] if each["wrong"] == "ledger is not in the list"} == {PASSED}
    answer(*repair, "--relist", "--yes", "--undo-file", undo_file.with_name("repair.json"), url=url)
    assert read(url)[:15] == payloads(40)[25:]
    assert not [each for each in tree(url) if each.startswith("/mledger/kept/")]


def test_no_other_topic_gets_the_ledgers_that_a_topic_restored_without_them_names(cluster, backup, undo_file):
    url = f"{cluster.metadata_url}/other"
    ok("metadata", "init", url=url)
    answer("metadata", "restore", backup, "--path", "/managed-ledgers", "--yes", "--undo-file", undo_file, url=url)

    async def ids():
        async with await open_store(url) as store:
            node = await store.get(managed_ledger_path(managed_ledger_of(TOPIC)))
            listed = [each.ledger_id for each in decode_managed_ledger_info(node.data).value.ledgers]
            return max(listed), await LedgerStore(store).next_id()

    named, drawn = run(ids())
    assert drawn > named


def tree_of(planned) -> list[str]:
    return [each["path"] for each in planned["nodes"] if each["action"] == "create"]


def test_a_restore_into_an_empty_chroot_works_while_the_cluster_lives(cluster, backup, undo_file):
    url = cluster.metadata_url
    planned = mledger("metadata", "restore", backup, "--dry-run", url=f"{url}/copy")
    assert (planned.code, "without --dry-run the command creates it" in planned.err) == (3, True), planned
    unasked = mledger("metadata", "restore", backup, "--undo-file", undo_file, url=f"{url}/copy")
    assert (unasked.code, "use --yes" in unasked.err, "/copy" in stored(url)) == (2, True, False), unasked
    answer("metadata", "restore", backup, "--yes", "--undo-file", undo_file, url=f"{url}/copy")
    assert stored(f"{url}/copy") == {path: data for path, data in stored(url).items() if not path.startswith("/copy")}


def test_a_restore_under_live_bookies_and_owners_is_refused(cluster, backup, undo_file):
    url = cluster.metadata_url
    path = managed_ledger_path(managed_ledger_of(TOPIC))

    async def main():
        async with public.open_cluster(url, config=ONE) as opened:
            topic = await opened.open_topic(TOPIC)
            arguments = ("metadata", "restore", backup, "--yes", "--undo-file", undo_file)
            everything_done = await asyncio.to_thread(mledger, *arguments, url=url)
            topics_done = await asyncio.to_thread(mledger, *arguments, "--path", "/managed-ledgers", url=url)
            await fill(topic, 1)
            return everything_done, topics_done

    for done in run(main()):
        assert done.code == 4, done
        assert "would lose the metadata that it uses" in done.err
    assert not undo_file.exists()
    planned = answer("metadata", "restore", backup, "--path", path, "--dry-run", url=url)
    assert planned["change"] == 1


def test_overwritten_nodes_are_restored_by_undo(cluster, backup, undo_file):
    url = cluster.metadata_url
    path = managed_ledger_path(managed_ledger_of(TOPIC))
    ok("topics", "set-properties", TOPIC, "colour=red", "--yes", "--undo-file", undo_file.with_name("p"), url=url)
    changed = stored(url)
    answer("metadata", "restore", backup, "--path", path, "--yes", "--undo-file", undo_file, url=url)
    assert stored(url) != changed
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert stored(url) == changed


def test_undo_brings_back_the_instance_id_that_a_failed_restore_has_removed(cluster, backup, undo_file, monkeypatch):
    url = cluster.metadata_url
    cluster.stop(0)
    ledger = next(path for path in tree(url) if is_ledger(path))
    metadata = stored(url)[ledger]

    async def delete():
        async with await open_store(url) as store:
            await store.delete(ledger)

    async def create():
        async with await open_store(url) as store:
            await store.create(ledger, metadata)

    run(delete())
    meanwhile(monkeypatch, "restore", lambda: asyncio.run(create()))
    failed = mledger("metadata", "restore", backup, "--yes", "--undo-file", undo_file, url=url)
    assert (failed.code != 0, INSTANCE_ID in tree(url)) == (True, False)
    assert f"{undo_file} lists what was changed" in failed.err
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert stored(url)[ledger] == metadata
    cluster.restart(0)


async def with_acl(url: str, path: str) -> None:
    """Create a node that not everybody may write."""
    async with await open_store(url) as store:
        await store.multi([Create(path, b"", acl=("world:anyone:rcda",))])


def test_a_restore_of_a_partial_backup_removes_nothing_outside_its_part(metadata_url, tmp_path, undo_file):
    part, file = "/managed-ledgers/t/n/persistent/one", tmp_path / "part.jsonl"

    def create(*paths):
        async def main():
            async with await open_store(metadata_url) as store:
                for path in paths:
                    await store.create(path, b"", parents=True)

        run(main())

    initialize_cluster(metadata_url)
    create(part, "/managed-ledgers/t/n/persistent/two")
    before = tree(metadata_url)
    answer("metadata", "backup", file, "--path", part, url=metadata_url)
    create(f"{part}/late")
    restricted = f"{part}/restricted"
    run(with_acl(metadata_url, restricted))
    planned = answer("metadata", "restore", file, "--remove", "--dry-run", url=metadata_url)
    assert planned["lost"] == [
        f"the version and the creation (czxid, ctime) of 2 removed nodes ({part}/late, {restricted}): "
        "undo creates them anew, at version 0",
        f"the access control lists of 1 removed node ({restricted}): undo creates them with the default one",
    ]
    answer("metadata", "restore", file, "--remove", "--yes", "--undo-file", undo_file, url=metadata_url)
    assert tree(metadata_url) == before
    elsewhere = ("metadata", "restore", file, "--path", "/managed-ledgers/t/n/persistent/two", "--remove", "--dry-run")
    refused = mledger(*elsewhere, url=metadata_url)
    assert refused.code == 3
    assert f"the backup begins at {part}" in refused.err


def test_a_restore_removes_nothing_where_other_clusters_may_have_ledgers(rocksdb_url, metadata_url, tmp_path):
    url, file, others = (
        f"{rocksdb_url}?ledgers={metadata_url}/ledgers",
        tmp_path / "ours.jsonl",
        "/ledgers/00/0000/L0004",
    )

    async def create(*paths):
        async with await open_store(url) as store:
            for path in paths:
                await store.create(path, parents=True)

    initialize_cluster(url)
    answer("metadata", "backup", file, url=url)
    run(create(others, "/ours"))
    shown = answer("metadata", "restore", file, "--remove", "--dry-run", url=url)["nodes"]
    actions = {each["path"]: each["action"] for each in shown}
    assert (actions[others], actions["/ours"]) == ("keep", "remove")


def test_a_restore_that_changes_nothing_says_so(cluster, backup, undo_file):
    done = answer("metadata", "restore", backup, "--yes", "--undo-file", undo_file, url=cluster.metadata_url)
    assert (done["undo_file"], done["create"], done["change"], done["remove"]) == (None, 0, 0, 0)


def test_a_backup_overwrites_nothing_and_a_damaged_one_is_refused(cluster, backup):
    url = cluster.metadata_url
    assert mledger("metadata", "backup", backup, url=url).code == 2
    assert mledger("metadata", "backup", backup.with_name("other"), "--path", "/none", url=url).code == 3
    assert [each.name for each in backup.parent.glob(".*")] == []
    backup.write_bytes(backup.read_bytes()[:-9])
    refused = mledger("metadata", "restore", backup, "--dry-run", url=url)
    assert refused.code == 1
    assert "cannot be read to its end" in refused.err


def test_nothing_is_restored_below_an_owner_that_came_since_the_plan(cluster, backup, tmp_path, monkeypatch):
    url, file = cluster.metadata_url, tmp_path / "undo.json"

    async def main():
        loop = asyncio.get_running_loop()
        async with await open_store(url) as store:
            path = managed_ledger_path(managed_ledger_of(TOPIC))
            await store.put(path, b"", (await store.get(path)).version)

            async def own():
                await store.create("/mledger/owners/one", ephemeral=True, parents=True)

            meanwhile(monkeypatch, "act", lambda: asyncio.run_coroutine_threadsafe(own(), loop).result())
            arguments = ("metadata", "restore", backup, "--path", "/managed-ledgers", "--yes", "--undo-file", file)
            done = await asyncio.to_thread(mledger, *arguments, url=url)
            return done, (await store.get(path)).data

    done, data = run(main())
    assert (done.code, file.exists(), data) == (4, False, b"")
    assert "a live owner (/mledger/owners/one) would lose the metadata" in done.err


def test_undoing_a_restore_of_a_cursor_leaves_a_live_owner_alone(cluster, backup, tmp_path):
    url, file = cluster.metadata_url, tmp_path / "undo.json"
    cursor = f"{managed_ledger_path(managed_ledger_of(TOPIC))}/one"

    async def main():
        async with await open_store(url) as store:
            await store.put(cursor, b"", (await store.get(cursor)).version)
        arguments = ("metadata", "restore", backup, "--path", "/managed-ledgers", "--yes", "--undo-file", file)
        await asyncio.to_thread(ok, *arguments, url=url)
        async with public.open_cluster(url, config=ONE) as opened:
            topic = await opened.open_topic(TOPIC)
            one = await topic.open_cursor("one")
            undoing = ("undo", file, "--yes", "--undo-file", tmp_path / "redo.json", *SHORT_WAIT)
            done = await asyncio.to_thread(mledger, *undoing, url=url)
            await one.clear_backlog()  # it was not fenced
            return done

    done = run(main())
    assert done.code == 4
    assert "has an owner" in done.err


@pytest.mark.parametrize("name", [TOPIC, f"{TOPIC}-other"])
def test_a_backup_is_not_restored_where_its_ledger_ids_are_other_ledgers(cluster, backup, tmp_path, undo_file, name):
    url = f"{cluster.metadata_url}/other"
    ok("metadata", "init", url=url)

    async def main():
        async with public.open_cluster(url, config=ONE) as opened:
            await fill(await opened.create_topic(name), 25)

    with closing(BookieProcesses(url, tmp_path / "other")) as others:
        others.start(1)
        run(main())
        others.stop(0)
    before = tree(url)
    for path in ("/", "/managed-ledgers"):
        arguments = ("metadata", "restore", backup, "--path", path)
        (first, *_) = answer(*arguments, "--dry-run", url=url)["foreign_ledgers"]
        refused = mledger(*arguments, "--yes", "--undo-file", undo_file, url=url)
        assert (refused.code, first in refused.err, undo_file.exists()) == (4, True, False)
        assert f"of {managed_ledger_of(TOPIC)} is another one here" in first
    assert tree(url) == before
