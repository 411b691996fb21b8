"""Commands that move a cursor, and their undo, killed with -9 at each of their steps on a real cluster."""

import itertools
from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import change_command, undo_files
from mledger.ledgers.ledger_factory import ignore_steps
from tests.support.aio import run
from tests.support.cli import answer, mledger, mledger_process, ok
from tests.support.commands.command_kills import killed_commands
from tests.support.topics import CONFIG, assert_nothing_orphaned, fill, managed_ledger_of

SETTINGS = ("--ensemble-size", 1, "--write-quorum", 1, "--ack-quorum", 1, "--take-over")
ONE = replace(
    CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, max_entries_per_ledger=100_000,
    retention_time_ms=-1, retention_size_in_mb=-1,
)  # fmt: skip
FEW, MANY = 3, 1200
STEPS_AT_MOST = 40


async def _prepare(url: str, topic: str, holes: int) -> None:
    """A topic whose cursor has many holes in a cursor ledger, and whose owner is gone."""
    async with public.open_cluster(url, config=ONE) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one", cursor_properties={"kept": "yes"})
        positions = await fill(opened, 2 * holes + 2)
        await cursor.acknowledge(positions[1 : 2 * holes : 2])
        await opened.abandon()


async def _open_and_close(url: str, topic: str) -> None:
    """Open the topic as the next owner, which finishes what others left."""
    async with public.open_cluster(url, config=ONE) as cluster:
        opened = await cluster.open_topic(topic, take_over=True)
        await opened.initialized()
        await opened.close()


def state(url: str, topic: str) -> tuple[object, ...]:
    """The cursor as its users see it."""
    found = answer("cursors", "describe", topic, "one", url=url)
    return found["mark_delete"], found["backlog"], found["hole_ranges"], found["cursor_properties"]


@pytest.fixture(scope="module")
def commands():
    """Runs commands that kill themselves."""
    with killed_commands() as running:
        yield running


def test_a_command_killed_at_any_step_is_undone_or_has_changed_nothing(url, topic, tmp_path, commands) -> None:
    steps = []
    for number in itertools.count(1):
        assert number < STEPS_AT_MOST
        name, file = f"{topic}-a{number}", tmp_path / f"{number}.json"
        run(_prepare(url, name, FEW))
        before = state(url, name)
        ended = commands.run(
            number, "--metadata", url, "cursors", "clear", name, "one", "--yes", "--undo-file", file, *SETTINGS
        )
        if file.exists():
            how = ["--incomplete"] if undo_files.load(file).outcome is Outcome.BEGUN else []
            ok("undo", file, "--yes", "--undo-file", tmp_path / f"{number}.redo", *how, *SETTINGS, url=url)
        assert state(url, name) == before, ended
        run(_open_and_close(url, name))
        run(assert_nothing_orphaned(url, managed_ledger_of(name)))
        assert state(url, name)[1:] == before[1:], ended
        if not ended.killed_at:
            assert ended.code == 0
            break
        steps.append(ended.killed_at)
    assert steps[:2] == ["look again", "write undo file"]
    assert steps[-1] == "undo file completed"
    assert {"act", "list ledger", "complete undo file"} < set(steps)


def test_an_undo_killed_at_any_step_is_repeated(url, topic, tmp_path, commands) -> None:
    steps = []
    for number in itertools.count(1):
        assert number < STEPS_AT_MOST
        name, file, redo = f"{topic}-b{number}", tmp_path / f"{number}.json", tmp_path / f"{number}.redo"
        run(_prepare(url, name, MANY))
        before = state(url, name)
        ok("cursors", "skip", name, "one", 10, "--yes", "--undo-file", file, *SETTINGS, url=url)
        skipped = state(url, name)
        arguments = ["undo", file, "--yes", "--undo-file", redo, *SETTINGS]
        ended = commands.run(number, "--metadata", url, *arguments)
        now = state(url, name)
        assert now in (before, skipped), ended
        if now == skipped:
            ok(*arguments[: -len(SETTINGS) - 1], tmp_path / f"{number}.again", *SETTINGS, url=url)
        assert state(url, name) == before, ended
        run(_open_and_close(url, name))
        run(assert_nothing_orphaned(url, managed_ledger_of(name)))
        if not ended.killed_at:
            assert ended.code == 0
            break
        steps.append(ended.killed_at)
    assert {"write undo file", "create ledger", "undo", "undone", "delete ledger", "undo file completed"} < set(steps)


def test_a_command_that_fails_before_any_change_leaves_no_undo_file(url, topic, tmp_path) -> None:
    run(_prepare(url, topic, FEW))
    before = state(url, topic)
    file = tmp_path / "undo.json"
    refused = mledger(
        "cursors", "clear", topic, "one", "--yes", "--undo-file", file, "--ensemble-size", 60, "--take-over", url=url
    )
    assert refused.code == 5
    assert not file.exists()
    assert state(url, topic) == before


def test_a_change_since_the_plan_is_refused(url, topic, tmp_path, monkeypatch) -> None:
    run(_prepare(url, topic, FEW))
    skipping = ("cursors", "skip", topic, "one", 1, "--yes", "--undo-file", tmp_path / "other.json", *SETTINGS)

    def another_comes(step: str) -> None:
        if step == "look again":
            monkeypatch.setattr(change_command, "on_step", ignore_steps)
            assert mledger_process(*skipping, url=url).code == 0

    monkeypatch.setattr(change_command, "on_step", another_comes)
    file = tmp_path / "undo.json"
    refused = mledger("cursors", "clear", topic, "one", "--yes", "--undo-file", file, *SETTINGS, url=url)
    assert refused.code == 4
    assert "changed since" in refused.err
    assert not file.exists()
