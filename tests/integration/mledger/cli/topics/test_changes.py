"""`mledger topics trim|terminate|truncate` on a real cluster: plan, change and undo."""

import asyncio
import json

import pytest

import mledger as public
from mledger.cli.shared.changes import undo_files
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.topic_changes import (
    ENTRIES,
    SINGLE,
    SMALL,
    change,
    described,
    entries,
    filled,
    nothing_orphaned,
    plan,
    tree,
    undo,
    write,
)

CHANGES = ("trim", "truncate", "terminate", "delete", "set-properties")


# trim


def test_trim_deletes_the_ledgers_that_its_plan_names_and_no_other(url, topic, undo_file) -> None:
    run(filled(url, topic, 22))
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
    run(filled(url, topic, 22))
    (line,) = plan(url, "trim", topic)["lost"]
    assert line.startswith(f"10 entries, 120 bytes of {topic}")
    change(url, undo_file, "trim", topic)
    assert undo_files.load(undo_file).lost == (line,)


def test_trim_counts_a_cursor_at_the_end_as_past_the_last_ledger(url, topic, undo_file) -> None:
    run(filled(url, topic, 0))
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
    run(filled(url, kept, 22))
    planned = plan(url, "trim", kept)
    assert planned["ledgers"] == []
    assert "retention" in planned["kept_because"]
    assert planned["retention_ms"] == 3_600_000
    assert "nothing to do" in ok("topics", "trim", kept, url=url).out
    ok("topics", "produce", kept, "--count", 1, *SINGLE, url=url)
    assert described(url, kept)["entries"] == ENTRIES + 1


def test_trim_takes_retention_from_a_broker_conf(url, topic, tmp_path) -> None:
    run(filled(url, topic, 22))
    conf = tmp_path / "broker.conf"
    conf.write_text("defaultRetentionTimeInMinutes=-1\ndefaultRetentionSizeInMB=-1\n")
    assert plan(url, "trim", topic, "--config", conf)["ledgers"] == []


def test_an_undone_trim_leaves_the_topic_without_the_deleted_ledgers(url, topic, undo_file) -> None:
    run(filled(url, topic, 22))
    change(url, undo_file, "trim", topic)
    assert undo(url, undo_file).code == 0
    assert entries(url, topic) == [f"entry-{number:06d}" for number in range(10, ENTRIES)]
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [13, 15]
    nothing_orphaned(url, topic)


# truncate


@pytest.mark.parametrize("crash", [False, True])
def test_truncate_deletes_every_entry_and_leaves_no_backlog(url, topic, undo_file, crash) -> None:
    run(filled(url, topic, 22, crash=crash))
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
    run(filled(url, topic, 22))
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
    positions = run(filled(url, topic, 22))
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
    run(filled(url, topic, 22))
    change(url, undo_file, "terminate", topic)
    assert undo(url, undo_file).code == 0
    assert described(url, topic)["terminated"] is None
    ok("topics", "produce", topic, "--count", 3, *SINGLE, url=url)
    assert len(entries(url, topic)) >= 13 + 3
    assert [each["backlog"] for each in answer("cursors", "list", topic, url=url)] == [16, 18]
    nothing_orphaned(url, topic)


# common to all, `delete` and `set-properties` too


def arguments(command: str) -> tuple[str, ...]:
    return ("owner=alice",) if command == "set-properties" else ()


def test_a_dry_run_changes_no_node(url, topic) -> None:
    run(filled(url, topic, 22, crash=True))
    left = tree(url)
    for command in CHANGES:
        assert plan(url, command, topic, *arguments(command))["dry_run"] is True
    assert tree(url) == left


def test_partitions_are_changed_together(url, topic, undo_file) -> None:
    ok("topics", "create", topic, "--partitions", 2, url=url)
    for index in range(2):
        run(filled(url, f"{topic}-partition-{index}", 22))
    assert plan(url, "trim", topic)["ledgers_deleted"] == 2
    assert len(change(url, undo_file, "trim", topic)["removed"]) == 2
    done = change(url, undo_file.with_name("terminate.json"), "terminate", topic)
    assert set(done["terminated"]) == {f"{topic}-partition-0", f"{topic}-partition-1"}
    change(url, undo_file.with_name("truncate.json"), "truncate", topic)
    assert described(url, topic)["entries"] == 2 * 5  # the last ledger of each partition stays: it is terminated
    for index in range(2):
        nothing_orphaned(url, f"{topic}-partition-{index}")


@pytest.mark.parametrize("command", CHANGES)
def test_without_a_terminal_it_asks_for_yes(url, topic, command) -> None:
    run(filled(url, topic, 22))
    refused = mledger("topics", command, topic, *arguments(command), url=url)
    assert refused.code == 2
    assert "--yes" in refused.err


@pytest.mark.parametrize("command", CHANGES)
def test_a_missing_topic_is_not_found(url, topic, command) -> None:
    assert mledger("topics", command, topic, *arguments(command), "--yes", url=url).code == 3


def test_a_live_owner_is_left_alone_and_the_plan_can_be_shown(url, topic, monkeypatch, undo_file) -> None:
    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)
    run(filled(url, topic, 22))

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
