"""`mledger topics trim|terminate|truncate|delete|set-properties` on a real cluster: plan, change and undo."""

import asyncio
import json
from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import change_command, undo_files
from mledger.metastore.records.codec import decode_managed_ledger_info, encode_managed_ledger_info
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import read_tree
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of

ONE = {"ensemble_size": 1, "write_quorum_size": 1, "ack_quorum_size": 1}
SMALL = replace(KEEP, **ONE, max_entries_per_ledger=10)
SINGLE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
ENTRIES = 35
CHANGES = ("trim", "truncate", "terminate", "delete", "set-properties")


async def _fill(url: str, topic: str, acknowledged: int, *, crash: bool = False) -> list[public.Position]:
    """35 entries in four ledgers; cursor `ahead` has acknowledged so many, `holes` three less, and a later one."""
    async with public.open_cluster(url, config=SMALL) as cluster:
        opened = await cluster.open_topic(topic, create=True)
        ahead, holes = await opened.open_cursor("ahead"), await opened.open_cursor("holes")
        positions = await fill(opened, ENTRIES)
        await opened.set_properties({"team": "red"})
        if acknowledged:
            await ahead.acknowledge_cumulative(positions[acknowledged - 1])
            await holes.acknowledge_cumulative(positions[acknowledged - 4])
            await holes.acknowledge([positions[acknowledged - 1]])
        if crash:
            await opened.abandon()
        else:
            await opened.close()
        return positions


def change(url: str, undo_file, command: str, topic: str, *arguments: object):
    """Carry out a command, and return its answer."""
    settings = () if command == "set-properties" else SINGLE
    return answer("topics", command, topic, *arguments, *settings, "--yes", "--undo-file", undo_file, url=url)


def plan(url: str, command: str, topic: str, *arguments: object):
    """A command's plan."""
    return answer("topics", command, topic, *arguments, "--dry-run", url=url)


def undo(url: str, undo_file, *arguments: object):
    """Undo it."""
    redo = undo_file.with_name("redo.json")
    return mledger("undo", undo_file, "--yes", "--undo-file", redo, *arguments, *SINGLE, url=url)


def described(url: str, topic: str):
    """The topic's description."""
    return answer("topics", "describe", topic, url=url)


def entries(url: str, topic: str) -> list[str]:
    """The topic's payloads."""
    return ok("topics", "read", topic, url=url).out.splitlines()


def tree(url: str):
    """Every node with its version."""

    async def main():
        async with await open_reader(url) as reader:
            return await read_tree(reader)

    return run(main())


def write(url: str, path: str, data: bytes) -> None:
    """Create a node, as Pulsar would."""

    async def main() -> None:
        async with await open_store(url) as store:
            await store.create(path, data, parents=True)

    run(main())


def nothing_orphaned(url: str, topic: str) -> None:
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))


# trim


def test_trim_deletes_the_ledgers_that_its_plan_names_and_no_other(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    before = [each["ledger_id"] for each in described(url, topic)["ledgers"]]
    planned = plan(url, "trim", topic)
    assert [each["ledger_id"] for each in planned["ledgers"]] == before[:1]  # `holes` is in the second
    assert (planned["ledgers_deleted"], planned["entries_deleted"], planned["bytes_deleted"]) == (1, 10, 120)
    done = change(url, undo_file, "trim", topic)
    assert done["removed"] == before[:1]
    assert entries(url, topic) == [f"entry-{number:06d}" for number in range(10, ENTRIES)]
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [13, 15]
    nothing_orphaned(url, topic)


def test_trim_names_the_entries_that_are_lost(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    (line,) = plan(url, "trim", topic)["lost"]
    assert line.startswith(f"10 entries, 120 bytes of {topic}")
    change(url, undo_file, "trim", topic)
    assert undo_files.load(undo_file).lost == (line,)


def test_trim_counts_a_cursor_at_the_end_as_past_the_last_ledger(url, topic, undo_file) -> None:
    run(_fill(url, topic, 0))
    for cursor in ("ahead", "holes"):
        ok("cursors", "clear", topic, cursor, *SINGLE, "--yes", "--undo-file", undo_file.with_name(cursor), url=url)
    planned = plan(url, "trim", topic)
    assert planned["entries_deleted"] == ENTRIES
    change(url, undo_file, "trim", topic)
    assert described(url, topic)["entries"] == 0
    nothing_orphaned(url, topic)


def test_trim_keeps_what_the_namespaces_retention_keeps(url, topic, undo_file) -> None:
    kept = topic.replace("/default/", "/kept-an-hour/")
    policies = {"retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}}
    write(url, "/admin/policies/public/kept-an-hour", json.dumps(policies).encode())
    run(_fill(url, kept, 22))
    planned = plan(url, "trim", kept)
    assert planned["ledgers"] == []
    assert "retention" in planned["kept_because"]
    assert planned["retention_ms"] == 3_600_000
    assert "nothing to do" in ok("topics", "trim", kept, url=url).out
    ok("topics", "produce", kept, "--count", 1, *SINGLE, url=url)
    assert described(url, kept)["entries"] == ENTRIES + 1


def test_trim_takes_retention_from_a_broker_conf(url, topic, tmp_path) -> None:
    run(_fill(url, topic, 22))
    conf = tmp_path / "broker.conf"
    conf.write_text("defaultRetentionTimeInMinutes=-1\ndefaultRetentionSizeInMB=-1\n")
    assert plan(url, "trim", topic, "--config", conf)["ledgers"] == []


def test_an_undone_trim_leaves_the_topic_without_the_deleted_ledgers(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    change(url, undo_file, "trim", topic)
    assert undo(url, undo_file).code == 0
    assert entries(url, topic) == [f"entry-{number:06d}" for number in range(10, ENTRIES)]
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [13, 15]
    nothing_orphaned(url, topic)


# truncate


@pytest.mark.parametrize("crash", [False, True])
def test_truncate_deletes_every_entry_and_leaves_no_backlog(url, topic, undo_file, crash) -> None:
    run(_fill(url, topic, 22, crash=crash))
    planned = plan(url, "truncate", topic)
    assert planned["entries_deleted"] == ENTRIES
    assert {each["cursor"]: (each["backlog_before"], each["backlog_after"]) for each in planned["cursors"]} == {
        "ahead": (13, 0),
        "holes": (15, 0),
    }
    change(url, undo_file, "truncate", topic)
    after = described(url, topic)
    assert (after["entries"], after["properties"]) == (0, {"team": "red"})
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [0, 0]
    nothing_orphaned(url, topic)


def test_an_undone_truncate_leaves_a_topic_that_works(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    change(url, undo_file, "truncate", topic)
    undone = undo(url, undo_file)
    assert undone.code == 0
    assert "35 entries" in undone.out
    ok("topics", "produce", topic, "--count", 3, *SINGLE, url=url)
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [3, 3]
    nothing_orphaned(url, topic)


def test_an_empty_topic_is_not_truncated(url, topic) -> None:
    ok("topics", "create", topic, url=url)
    left = tree(url)
    assert "nothing to do" in ok("topics", "truncate", topic, "--yes", url=url).out
    assert tree(url) == left


# terminate


def test_a_terminated_topic_accepts_no_more_entries_and_keeps_those_it_has(url, topic, undo_file) -> None:
    positions = run(_fill(url, topic, 22))
    (row,) = plan(url, "terminate", topic)["topics"]
    assert (row["last_entry"], row["terminated"]) == (str(positions[-1]), None)
    done = change(url, undo_file, "terminate", topic)
    assert described(url, topic)["terminated"] == done["terminated"][topic]
    refused = mledger("topics", "produce", topic, "--count", 1, *SINGLE, url=url)
    assert refused.code == 1
    assert "terminated" in refused.err
    assert len(entries(url, topic)) == ENTRIES
    assert "nothing to do" in ok("topics", "terminate", topic, url=url).out
    nothing_orphaned(url, topic)


def test_after_an_undo_a_terminated_topic_accepts_entries_again(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    change(url, undo_file, "terminate", topic)
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["terminated"] is None
    ok("topics", "produce", topic, "--count", 3, *SINGLE, url=url)
    assert len(entries(url, topic)) >= 13 + 3
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [16, 18]
    nothing_orphaned(url, topic)


# delete


@pytest.mark.parametrize("crash", [False, True])
def test_delete_leaves_nothing_of_the_topic(url, topic, undo_file, crash) -> None:
    run(_fill(url, topic, 22, crash=crash))
    planned = plan(url, "delete", topic)
    assert (planned["cursors"], planned["entries_deleted"], planned["bytes_deleted"]) == (2, ENTRIES, 420)
    change(url, undo_file, "delete", topic)
    assert mledger("topics", "describe", topic, url=url).code == 3
    nothing_orphaned(url, topic)


def test_topics_of_a_topic_s_transactions_are_planned_and_deleted_with_it(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    acks = f"{topic}-ahead__transaction_pending_ack"
    ok("topics", "create", acks, *SINGLE, url=url)
    planned = plan(url, "delete", topic)
    assert planned["topics"] == 2
    assert {(each["topic"], each["named_as"]) for each in planned["ledgers"]} == {
        (topic, "data ledger"),
        (acks, "data ledger"),
    }
    assert change(url, undo_file, "delete", topic)["topics_deleted"] == 2
    assert mledger("topics", "describe", acks, url=url).code == 3


def test_undoing_a_deletion_is_refused_and_names_the_losses(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    change(url, undo_file, "delete", topic)
    refused = undo(url, undo_file)
    assert refused.code == 4
    assert "35 entries" in refused.err
    assert "--accept-loss" in refused.err
    assert mledger("topics", "describe", topic, url=url).code == 3


@pytest.mark.parametrize("crash", [False, True])
def test_a_deleted_topic_is_restored_with_its_cursors_if_the_loss_is_accepted(url, topic, undo_file, crash) -> None:
    run(_fill(url, topic, 22, crash=crash))
    change(url, undo_file, "delete", topic)
    undone = undo(url, undo_file, "--accept-loss")
    assert undone.code == 0, undone.err
    after = described(url, topic)
    assert (after["entries"], after["properties"], after["cursors"]) == (0, {"team": "red"}, ["ahead", "holes"])
    ok("topics", "produce", topic, "--count", 3, *SINGLE, url=url)
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [3, 3]
    nothing_orphaned(url, topic)


def test_a_topic_without_entries_is_restored_without_a_question(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--property", "a=b", url=url)
    ok("cursors", "create", topic, "c", url=url)
    change(url, undo_file, "delete", topic)
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["cursors"] == ["c"]


def test_a_partitioned_topic_is_deleted_with_its_partitions(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    run(_fill(url, f"{topic}-partition-1", 22))
    planned = plan(url, "delete", topic)
    assert (planned["topics"], planned["entries_deleted"]) == (3, ENTRIES)
    done = change(url, undo_file, "delete", topic)
    assert done["topics_deleted"] == 3
    assert mledger("topics", "describe", topic, url=url).code == 3
    for index in range(3):
        nothing_orphaned(url, f"{topic}-partition-{index}")
    assert undo(url, undo_file).code == 4
    assert undo(url, undo_file, "--accept-loss").code == 0
    back = described(url, topic)
    assert (back["partition_count"], back["being_deleted"], back["warnings"]) == (3, False, [])


def test_an_interrupted_deletion_is_reported_and_finished_by_the_next(url, topic, undo_file, monkeypatch) -> None:
    ok("topics", "create", topic, "--partitions", 3, url=url)
    steps = []

    def fail(step: str) -> None:
        steps.append(step)
        if steps.count("delete topic") == 2:
            raise RuntimeError("cut off")

    monkeypatch.setattr(change_command, "on_step", fail)
    assert mledger("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url).code == 1
    monkeypatch.undo()
    assert undo_files.load(undo_file).outcome is Outcome.FAILED
    left = described(url, topic)
    assert left["being_deleted"]
    assert sum(each["entries"] is not None for each in left["partitions"]) == 2
    change(url, undo_file.with_name("again.json"), "delete", topic)
    assert mledger("topics", "describe", topic, url=url).code == 3


# properties


def test_properties_are_set_and_removed_by_one_write_of_the_record(url, topic, undo_file) -> None:
    run(_fill(url, topic, 22))
    before = described(url, topic)
    done = change(url, undo_file, "set-properties", topic, "owner=alice", "text=a=b", "--remove", "team")
    after = described(url, topic)
    assert done["properties"] == after["properties"] == {"owner": "alice", "text": "a=b"}
    assert after["metadata_version"] == before["metadata_version"] + 1
    assert after["ledgers"] == before["ledgers"]
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["properties"] == {"team": "red"}


def test_a_compressed_record_stays_compressed(url, topic, undo_file) -> None:
    ok("topics", "create", topic, url=url)
    path = public.TopicName.parse(topic).managed_ledger_path

    async def rewrite(compression: str | None) -> str:
        async with await open_store(url) as store:
            decoded = decode_managed_ledger_info((await store.get(path)).data)
            if compression is not None:
                await store.put(path, encode_managed_ledger_info(decoded.value, compression=compression), ANY_VERSION)
            return decoded.compression

    run(rewrite("ZSTD"))
    change(url, undo_file, "set-properties", topic, "owner=alice")
    assert run(rewrite(None)) == "ZSTD"


def test_a_partitioned_topic_s_properties_are_where_pulsar_keeps_them(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--partitions", 2, "--property", "team=red", url=url)
    change(url, undo_file, "set-properties", topic, "owner=alice", "--remove", "team")
    assert described(url, topic)["properties"] == {"owner": "alice"}
    assert described(url, f"{topic}-partition-0")["properties"] == {}
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["properties"] == {"team": "red"}


def test_properties_that_are_set_already_are_nothing_to_do(url, topic, undo_file) -> None:
    run(_fill(url, topic, 0))
    assert "nothing to do" in ok("topics", "set-properties", topic, "team=red", url=url).out
    assert mledger("topics", "set-properties", topic, url=url).code == 2
    assert mledger("topics", "set-properties", topic, "a=b", "--remove", "a", url=url).code == 2


# common to all


def arguments(command: str) -> tuple[str, ...]:
    return ("owner=alice",) if command == "set-properties" else ()


def test_a_dry_run_changes_no_node(url, topic) -> None:
    run(_fill(url, topic, 22, crash=True))
    left = tree(url)
    for command in CHANGES:
        assert plan(url, command, topic, *arguments(command))["dry_run"] is True
    assert tree(url) == left


def test_partitions_are_changed_together(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    for index in range(2):
        run(_fill(url, f"{topic}-partition-{index}", 22))
    assert plan(url, "trim", topic)["ledgers_deleted"] == 2
    assert len(change(url, undo_file, "trim", topic)["removed"]) == 2
    done = change(url, undo_file.with_name("terminate.json"), "terminate", topic)
    assert set(done["terminated"]) == {f"{topic}-partition-0", f"{topic}-partition-1"}
    change(url, undo_file.with_name("truncate.json"), "truncate", topic)
    assert described(url, topic)["entries"] == 0
    for index in range(2):
        nothing_orphaned(url, f"{topic}-partition-{index}")


@pytest.mark.parametrize("command", CHANGES)
def test_without_a_terminal_it_asks_for_yes(url, topic, command) -> None:
    run(_fill(url, topic, 22))
    refused = mledger("topics", command, topic, *arguments(command), url=url)
    assert refused.code == 2
    assert "--yes" in refused.err


@pytest.mark.parametrize("command", CHANGES)
def test_a_missing_topic_is_not_found(url, topic, command) -> None:
    assert mledger("topics", command, topic, *arguments(command), "--yes", url=url).code == 3


def test_a_live_owner_is_left_alone_and_the_plan_can_be_shown(url, topic, monkeypatch, undo_file) -> None:
    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)
    run(_fill(url, topic, 22))

    async def main() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            owned = await cluster.open_topic(topic)
            await owned.initialized()
            for command in CHANGES:
                words = ("topics", command, topic, *arguments(command))
                planned = await asyncio.to_thread(mledger, *words, "--dry-run", url=url)
                assert planned.code == 0, planned.err
                refused = await asyncio.to_thread(mledger, *words, "--yes", "--undo-file", undo_file, url=url)
                assert refused.code == 4
                assert "--take-over" in refused.err
                assert not undo_file.exists()
            await owned.add(b"still the owner")

    run(main())
