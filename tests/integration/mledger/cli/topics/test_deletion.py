"""`mledger topics delete` on a real cluster: plan, change and undo."""

import pytest

from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import change_command, undo_files
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.topic_changes import (
    ENTRIES,
    SINGLE,
    change,
    described,
    filled,
    nothing_orphaned,
    plan,
    undo,
)


@pytest.mark.parametrize("crash", [False, True])
def test_delete_leaves_nothing_of_the_topic(url, topic, undo_file, crash) -> None:
    run(filled(url, topic, 22, crash=crash))
    planned = plan(url, "delete", topic)
    assert (planned["cursors"], planned["entries_deleted"], planned["bytes_deleted"]) == (2, ENTRIES, 420)
    change(url, undo_file, "delete", topic)
    assert mledger("topics", "describe", topic, url=url).code == 3
    nothing_orphaned(url, topic)


def test_topics_of_a_topic_s_transactions_are_planned_and_deleted_with_it(url, topic, undo_file) -> None:
    run(filled(url, topic, 22))
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
    run(filled(url, topic, 22))
    change(url, undo_file, "delete", topic)
    refused = undo(url, undo_file)
    assert refused.code == 4
    assert "35 entries" in refused.err
    assert "--accept-loss" in refused.err
    assert mledger("topics", "describe", topic, url=url).code == 3


@pytest.mark.parametrize("crash", [False, True])
def test_a_deleted_topic_is_restored_with_its_cursors_if_the_loss_is_accepted(url, topic, undo_file, crash) -> None:
    run(filled(url, topic, 22, crash=crash))
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
    run(filled(url, f"{topic}-partition-1", 22))
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
