"""`cursors delete` on a real cluster, and its undo, after kill -9 too."""

import itertools
from dataclasses import replace

from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import change_command, undo_files
from mledger.ledgers.ledger_factory import ignore_steps
from tests.support.aio import run
from tests.support.cli import answer, mledger, mledger_process, ok
from tests.support.commands.command_kills import killed_commands
from tests.support.topics import KEEP, write_topic

ONE = replace(KEEP, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)
ONE_BOOKIE = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1)
STEPS_AT_MOST = 40


def state(url, topic):
    """The cursor as its users see it."""
    found = answer("cursors", "describe", topic, "one", url=url)
    return found["mark_delete"], found["backlog"], found["hole_ranges"], found["cursor_properties"]


def test_a_deleted_cursor_is_restored_at_its_place(url, topic, written, undo_file) -> None:
    before = state(url, topic)
    ok("cursors", "delete", topic, "one", "--yes", "--undo-file", undo_file, url=url)
    assert answer("cursors", "list", topic, url=url) == []
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_suffix(".redo"), url=url)
    assert state(url, topic) == before


def test_a_topic_written_since_the_plan_keeps_its_pending_acknowledgements(
    url, topic, written, undo_file, monkeypatch
) -> None:
    acks, other = f"{topic}-one__transaction_pending_ack", undo_file.with_suffix(".other")
    run(write_topic(url, acks, ONE))

    def another_writes(step: str) -> None:
        if step == "delete topic":
            monkeypatch.setattr(change_command, "on_step", ignore_steps)
            setting = ("topics", "set-properties", topic, "owner=alice", "--yes", "--undo-file", other)
            assert mledger_process(*setting, url=url).code == 0

    monkeypatch.setattr(change_command, "on_step", another_writes)
    refused = mledger("cursors", "delete", topic, "one", "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == 4
    assert "since the plan was made" in refused.err
    assert answer("topics", "describe", acks, url=url)["entries"] > 0


def test_deleting_a_cursor_killed_at_any_step_is_undone_or_has_changed_nothing(url, topic, tmp_path) -> None:
    with killed_commands() as commands:
        for number in itertools.count(1):
            assert number < STEPS_AT_MOST
            name, file = f"{topic}-k{number}", tmp_path / f"{number}.json"
            run(write_topic(url, name, ONE))
            before = state(url, name)
            ended = commands.run(
                number, "--metadata", url, "cursors", "delete", name, "one", "--yes", "--undo-file", file,
                "--take-over", *ONE_BOOKIE,
            )  # fmt: skip
            if file.exists():
                how = ["--incomplete"] if undo_files.load(file).outcome is Outcome.BEGUN else []
                redo = tmp_path / f"{number}.redo"
                ok("undo", file, "--yes", "--undo-file", redo, *how, "--take-over", *ONE_BOOKIE, url=url)
            assert state(url, name) == before, ended
            if not ended.killed_at:
                return
