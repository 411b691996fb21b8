"""Partitioned topics by the command, in Pulsar's own nodes."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.cli.shared.changes import undo_files
from mledger.cli.topics import deletion, properties
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.metastore.url import open_reader, open_store
from mledger.topics.properties import mark_deleted
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.meanwhile import meanwhile
from tests.support.topics import CONFIG, fill, managed_ledger_of

ONE = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def node(url: str, path: str) -> bytes | None:
    async def main() -> bytes | None:
        async with await open_reader(url) as reader:
            (found,) = await reader.get_many([path])
            return None if found is None else found.data

    return run(main())


def paths(topic: str) -> tuple[str, str]:
    """The partitioned topic's node, and those of its partitions without the index."""
    local = topic.rpartition("/")[2]
    return (
        f"/admin/partitioned-topics/public/default/persistent/{local}",
        f"/managed-ledgers/public/default/persistent/{local}-partition-",
    )


def test_a_partitioned_topic_consists_of_the_nodes_that_pulsar_creates(url, topic) -> None:
    created = answer("topics", "create", topic, "--partitions", 3, url=url)
    assert created == {"topic": topic, "created": [f"{topic}-partition-{index}" for index in range(3)]}
    record, partition = paths(topic)
    assert node(url, record) == b'{"partitions":3,"deleted":false}'
    assert [node(url, f"{partition}{index}") for index in range(4)] == [b"", b"", b"", None]


def test_properties_are_kept_with_the_partitioned_topic(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 1, "--property", "team=storage", url=url)
    assert node(url, paths(topic)[0]) == b'{"partitions":1,"deleted":false,"properties":{"team":"storage"}}'
    assert answer("topics", "describe", topic, url=url)["properties"] == {"team": "storage"}


def test_a_property_that_another_program_sets_during_the_plan_stays(url, topic, monkeypatch, tmp_path) -> None:
    ok("topics", "create", topic, "--partitions", 1, url=url)
    find_targets = properties.find_targets

    async def find(*arguments):
        found = await find_targets(*arguments)
        async with await open_store(url) as store:
            path = paths(topic)[0]
            await store.put(path, b'{"partitions":1,"deleted":false,"properties":{"team":"storage"}}', 0)
        return found

    monkeypatch.setattr(properties, "find_targets", find)
    ok("topics", "set-properties", topic, "owner=alice", "--yes", "--undo-file", tmp_path / "undo", url=url)
    monkeypatch.undo()
    assert answer("topics", "describe", topic, url=url)["properties"] == {"team": "storage", "owner": "alice"}


def test_describe_counts_over_the_partitions_and_shows_each(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    ok("cursors", "create", f"{topic}-partition-0", "c", url=url)
    ok("topics", "produce", f"{topic}-partition-0", "--count", 5, "--size", 10, "--raw", url=url)
    described = answer("topics", "describe", topic, url=url)
    assert (described["partition_count"], described["entries"], described["size"]) == (2, 5, 50)
    assert described["cursors"] == ["c"]
    assert [(each["partition"], each["entries"], each["cursors"]) for each in described["partitions"]] == [
        (0, 5, 1),
        (1, 0, 0),
    ]
    assert "partitions" in ok("topics", "describe", topic, url=url).out


def test_cursors_of_a_partitioned_topic_are_those_of_every_partition(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    for index, count in ((0, 5), (2, 7)):
        ok("cursors", "create", f"{topic}-partition-{index}", "c", url=url)
        ok("topics", "produce", f"{topic}-partition-{index}", "--count", count, url=url)
    listed = answer("cursors", "list", topic, url=url)
    assert [(each["partition"], each["cursor"], each["backlog"]) for each in listed] == [(0, "c", 5), (2, "c", 7)]
    described = answer("cursors", "describe", topic, "c", url=url)
    assert (described["partitions"], described["backlog"]) == (2, 12)
    assert [each["partition"] for each in described["partition_cursors"]] == [0, 2]
    assert "partition" in ok("cursors", "list", topic, url=url).out
    assert mledger("cursors", "describe", topic, "nobody", url=url).code == 3


def test_list_marks_partitions_and_partitioned_topics(url, topic) -> None:
    space = topic.replace("public/default", f"public/{topic.rpartition('/')[2]}")
    namespace = space.removeprefix("persistent://").rpartition("/")[0]
    ok("topics", "create", space, "--partitions", 2, url=url)
    ok("topics", "create", f"{space}-alone-partition-3", url=url)
    listed = {each["topic"]: each["partition_of"] for each in answer("topics", "list", namespace, url=url)}
    assert listed == {
        f"{space}-partition-0": space,
        f"{space}-partition-1": space,
        f"{space}-alone-partition-3": None,
    }
    (whole,) = answer("topics", "list", namespace, "--partitioned", url=url)
    assert (whole["topic"], whole["partition_count"], whole["existing"]) == (space, 2, 2)


def test_list_has_partitioned_topics_that_are_not_persistent(url, topic) -> None:
    local = topic.rpartition("/")[2]
    ok("topics", "create", f"non-persistent://public/{local}/events", "--partitions", 2, url=url)
    (whole,) = answer("topics", "list", f"public/{local}", "--partitioned", url=url)
    assert whole["topic"] == f"non-persistent://public/{local}/events"
    assert (whole["partition_count"], whole["existing"]) == (2, None)


def test_missing_partitions_are_reported_and_created(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    remove(url, f"{paths(topic)[1]}1")
    described = answer("topics", "describe", topic, url=url)
    assert described["partitions"][1]["entries"] is None
    assert "--missing" in described["warnings"][0]
    assert answer("topics", "create", topic, "--missing", url=url)["created"] == [f"{topic}-partition-1"]
    assert answer("topics", "create", topic, "--missing", url=url)["created"] == []


def remove(url: str, path: str) -> None:
    async def main() -> None:
        async with await open_store(url) as store:
            await store.delete(path)

    run(main())


def test_existing_names_are_a_conflict(url, topic) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    assert mledger("topics", "create", topic, "--partitions", 3, url=url).code == 4
    assert mledger("topics", "create", topic, url=url).code == 4
    assert mledger("topics", "create", f"{topic}-partition-7", url=url).code == 4
    ok("topics", "create", f"{topic}-plain", url=url)
    assert mledger("topics", "create", f"{topic}-plain", "--partitions", 2, url=url).code == 4


def test_invalid_input_is_refused_before_anything_is_written(url, topic) -> None:
    assert mledger("topics", "create", topic, "--partitions", 0, url=url).code == 2
    assert mledger("topics", "create", topic, "--missing", "--partitions", 2, url=url).code == 2
    assert mledger("topics", "create", f"{topic}-partition-0", "--partitions", 2, url=url).code == 2
    assert mledger("topics", "create", topic, "--missing", url=url).code == 3
    assert mledger("topics", "describe", topic, url=url).code == 3


def test_more_partitions_than_fit_one_request_are_created(url, topic) -> None:
    created = answer("topics", "create", topic, "--partitions", 1201, url=url)
    assert len(created["created"]) == 1201
    (whole,) = [
        each for each in answer("topics", "list", "public/default", "--partitioned", url=url) if each["topic"] == topic
    ]
    assert whole["existing"] == 1201


def open_and_close(url: str, topic: str) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=ONE) as cluster:
            await (await cluster.open_topic(topic)).close()

    run(main())


@pytest.mark.parametrize("command", ["truncate", "terminate", "delete"])
def test_the_undo_of_a_change_that_another_owner_stopped_leaves_what_that_one_did(
    url, topic, undo_file, monkeypatch, command
) -> None:
    names = [f"{topic}-partition-{index}" for index in range(3)]
    ok("topics", "create", topic, "--partitions", 3, url=url)

    async def own(partitions: list[str]) -> None:
        async with public.open_cluster(url, config=ONE) as cluster:
            for name in partitions:
                opened = await cluster.open_topic(name)
                cursor = await opened.open_cursor("one")
                await fill(opened, 3)
                await cursor.clear_backlog()
                await fill(opened, 3)
                await opened.close()

    run(own(names))
    step = "delete topic" if command == "delete" else "act"  # a deletion looks at all partitions before it begins
    meanwhile(monkeypatch, step, lambda: run(own(names[1:])))
    done = mledger("topics", command, topic, "--yes", "--undo-file", undo_file, url=url)
    assert done.code == 4
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == (managed_ledger_of(names[0]),)
    assert not [path for path in file.paths if "partition-1" in path or "partition-2" in path]


def test_the_undo_of_a_change_that_ended_while_it_waited_for_an_owner_leaves_that_ones_partition_out(
    url, topic, undo_file, monkeypatch
) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    for index in range(2):
        ok("topics", "produce", f"{topic}-partition-{index}", "--count", 3, url=url)

    async def wait(reader, managed_ledger, **options) -> None:
        if managed_ledger == managed_ledger_of(f"{topic}-partition-1"):
            raise StoreUnavailable("the store went away")

    meanwhile(monkeypatch, "act", lambda: monkeypatch.setattr("mledger.cluster.check_owner", wait))
    done = mledger("topics", "truncate", topic, "--yes", "--undo-file", undo_file, url=url)
    assert done.code == 5, done
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == (managed_ledger_of(f"{topic}-partition-0"),)
    assert not [path for path in file.paths if "partition-1" in path]


@pytest.mark.parametrize("deleted", [False, True], ids=["owned", "deleted"])
def test_the_undo_of_a_deletion_that_came_upon_another_owner_leaves_what_that_one_did(
    url, topic, undo_file, monkeypatch, deleted
) -> None:
    names = [f"{topic}-partition-{index}" for index in range(3)]
    ok("topics", "create", topic, "--partitions", 3, url=url)
    ok("cursors", "create", names[1], "one", url=url)
    check_unwritten = deletion.check_unwritten

    async def main():
        loop = asyncio.get_running_loop()
        async with public.open_cluster(url, config=ONE) as other:

            async def own() -> None:
                if deleted:
                    await other.delete_topic(names[1])
                else:
                    await fill(await other.open_topic(names[1]), 3)

            async def check(reader, topic, planned_at) -> None:
                await check_unwritten(reader, topic, planned_at)
                if topic == TopicName.parse(names[1]):
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(own(), loop))

            monkeypatch.setattr(deletion, "check_unwritten", check)
            words = ("topics", "delete", topic, "--yes", "--undo-file", undo_file)
            brief = ("--set", "metadataStoreSessionTimeoutMillis=1000")  # how long the deletion waits for the owner
            return await asyncio.to_thread(mledger, *words, *brief, url=url)

    done = run(main())
    assert done.code == (3 if deleted else 4), done
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == (managed_ledger_of(names[0]),)
    assert not [path for path in file.paths if "partition-1" in path or "partition-2" in path]


def test_a_deletion_that_is_refused_leaves_no_mark(url, topic, undo_file, monkeypatch) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    meanwhile(monkeypatch, "delete topic", lambda: open_and_close(url, f"{topic}-partition-0"))
    refused = mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert (refused.code, "was written since the plan was made" in refused.err) == (4, True)
    assert not undo_file.exists()
    ok("topics", "create", topic, "--missing", url=url)


def test_a_deletion_that_is_refused_leaves_the_mark_of_an_earlier_one(url, topic, undo_file, monkeypatch) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)

    async def mark() -> None:
        async with await open_store(url) as store:
            await mark_deleted(store, TopicName.parse(topic))

    run(mark())
    meanwhile(monkeypatch, "delete topic", lambda: open_and_close(url, f"{topic}-partition-0"))
    refused = mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == 4
    assert "is being deleted" in mledger("topics", "create", topic, "--missing", url=url).err


def test_a_deletion_is_refused_if_the_topic_gets_more_partitions_meanwhile(url, topic, undo_file, monkeypatch) -> None:
    """Else they would stay when their topic is gone."""
    ok("topics", "create", topic, "--partitions", 2, url=url)

    record, partition = paths(topic)

    async def add() -> None:
        async with await open_store(url) as store:
            await store.create(f"{partition}2")
            await store.put(record, b'{"partitions":3,"deleted":false}', 0)

    meanwhile(monkeypatch, "mark partitioned topic", lambda: run(add()))
    refused = mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert (refused.code, "was written since the plan was made" in refused.err) == (4, True)
    assert [node(url, f"{partition}{index}") for index in range(3)] == [b"", b"", b""]
