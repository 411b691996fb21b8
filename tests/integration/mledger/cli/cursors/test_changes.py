"""`mledger cursors skip|reset|clear|set-properties` on a real cluster: plan, change and undo."""

from dataclasses import replace

import pytest

import mledger as public
from mledger.admin.undo.undo_file import Outcome
from mledger.cli.shared.changes import undo_files
from mledger.metastore.records.paths import cursor_path
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.pulsar_entries import pulsar_entry
from tests.support.topics import CONFIG, assert_nothing_orphaned, fill, managed_ledger_of

SMALL = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, max_entries_per_ledger=10)
ENTRIES = 25


async def _fill(url: str, topic: str) -> list[public.Position]:
    """25 entries in three ledgers, and a cursor with entries 2, 3 and 12 acknowledged."""
    async with public.open_cluster(url, config=SMALL) as cluster:
        opened = await cluster.create_topic(topic)
        cursor = await opened.open_cursor("one", cursor_properties={"team": "red", "kept": "yes"})
        positions = await fill(opened, ENTRIES)
        await cursor.acknowledge([positions[2], positions[3], positions[12]])
        await opened.close()
        return positions


@pytest.fixture
def positions(url, topic):
    """The positions of the entries of a topic with a cursor `one`."""
    return run(_fill(url, topic))


def state(url: str, topic: str) -> tuple[object, ...]:
    """The cursor as its users see it."""
    found = answer("cursors", "describe", topic, "one", url=url)
    return found["backlog"], found["holes"], found["read_position"], found["cursor_properties"]


def change(url, undo_file, *arguments):
    """Carry out a changing command, and return its answer."""
    return answer("cursors", *arguments, "--yes", "--undo-file", undo_file, url=url)


def undo(url, undo_file):
    """Undo it."""
    return answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)


def commands(topic, positions) -> dict[str, list[object]]:
    """One of each command."""
    return {
        "skip": ["skip", topic, "one", 5],
        "skip deleted": ["skip", topic, "one", 5, "--include-deleted"],
        "skip all": ["skip", topic, "one", 1000],
        "reset back": ["reset", topic, "one", "--to", "earliest"],
        "reset forth": ["reset", topic, "one", "--to", str(positions[15])],
        "latest": ["reset", topic, "one", "--to", "latest"],
        "clear": ["clear", topic, "one"],
        "properties": ["set-properties", topic, "one", "team=blue", "new=a=b", "--remove", "kept"],
    }


RED = {"team": "red", "kept": "yes"}
EXPECTED = {
    "skip": (17, 1, 7, RED),
    "skip deleted": (19, 1, 5, RED),
    "skip all": (0, 0, None, RED),
    "reset back": (25, 0, 0, RED),
    "reset forth": (10, 0, 15, RED),
    "latest": (0, 0, None, RED),
    "clear": (0, 0, None, RED),
    "properties": (22, 2, 0, {"team": "blue", "new": "a=b"}),
}
"""Backlog, holes, the number of the next entry to read, properties."""


@pytest.mark.parametrize("name", EXPECTED)
def test_a_command_does_what_its_plan_says_and_can_be_undone(url, topic, positions, undo_file, name) -> None:
    before = state(url, topic)
    arguments = commands(topic, positions)[name]
    planned = answer("cursors", *arguments, "--dry-run", url=url)
    assert state(url, topic) == before
    done = change(url, undo_file, *arguments)
    backlog, holes, read_next, properties = EXPECTED[name]
    assert (done["backlog"], done["holes"], done["properties"]) == (backlog, holes, properties)
    if "backlog_after" in planned:
        assert (planned["backlog_after"], planned["holes_after"]) == (backlog, holes)
    else:
        assert planned["properties_after"] == properties
    after = state(url, topic)
    assert after[:2] == (backlog, holes)
    assert after[3] == properties
    if read_next is not None:
        assert after[2] == str(positions[read_next])
    undo(url, undo_file)
    assert state(url, topic) == before
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))


def test_a_dry_run_changes_no_node(url, topic, positions, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = answer("metadata", "tree", url=url)
    for arguments in commands(topic, positions).values():
        answer("cursors", *arguments, "--dry-run", url=url)
    assert answer("metadata", "tree", url=url) == nodes
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["skip", "{}", "one", 0], ["set-properties", "{}", "one", "team=red"]])
def test_if_nothing_changes_nothing_is_written(url, topic, positions, undo_file, arguments) -> None:
    before = answer("metadata", "tree", url=url)
    change(url, undo_file, *[topic if each == "{}" else each for each in arguments])
    assert answer("metadata", "tree", url=url) == before
    assert not undo_file.exists()


async def _own_with_state_in_ledger(url: str, topic: str) -> None:
    """Puts the cursor's state into a cursor ledger, with its owner gone as after a crash."""
    async with public.open_cluster(url, config=SMALL) as cluster:
        opened = await cluster.open_topic(topic)
        cursor = await opened.open_cursor("one")
        await cursor.acknowledge([cursor.read_position])
        await opened.abandon()


def test_a_state_from_a_cursor_ledger_is_restored(url, topic, positions, undo_file) -> None:
    run(_own_with_state_in_ledger(url, topic))
    described = answer("cursors", "describe", topic, "one", url=url)
    assert described["cursor_ledger"] != -1
    before = state(url, topic)
    change(url, undo_file, "clear", topic, "one")
    (saved,) = undo_files.load(undo_file).cursors
    assert saved.path == cursor_path(managed_ledger_of(topic), "one")
    undo(url, undo_file)
    assert state(url, topic) == before
    assert answer("cursors", "describe", topic, "one", url=url)["cursor_ledger"] == -1
    run(assert_nothing_orphaned(url, managed_ledger_of(topic)))


def test_cleared_entries_are_not_trimmed_until_the_next_owner_comes(url, topic, positions, undo_file) -> None:
    change(url, undo_file, "clear", topic, "one")
    assert answer("topics", "describe", topic, url=url)["entries"] == ENTRIES


def test_another_cursor_keeps_its_place(url, topic, positions, undo_file) -> None:
    ok("cursors", "create", topic, "two", "--at", str(positions[4]), url=url)
    change(url, undo_file, "clear", topic, "one")
    assert answer("cursors", "describe", topic, "two", url=url)["backlog"] == ENTRIES - 5


async def _pulsar_entries(url: str, topic: str, times: list[int]) -> list[public.Position]:
    async with public.open_cluster(url, config=SMALL) as cluster:
        opened = await cluster.create_topic(topic)
        await opened.open_cursor("one")
        positions = [await opened.add(pulsar_entry(time_ms)) for time_ms in times]
        await opened.close()
        return positions


@pytest.mark.parametrize(
    ("to", "index"), [("2026-01-31T12:00:10Z", 10), ("2026-01-31T13:00:09.500+01:00", 10), (str(1_769_860_803_000), 3)]
)
def test_a_reset_to_a_time_finds_the_first_entry_from_then_on(url, topic, undo_file, to, index) -> None:
    start = 1_769_860_800_000  # 2026-01-31T12:00:00Z
    positions = run(_pulsar_entries(url, topic, [start + 1000 * number for number in range(20)]))
    planned = answer("cursors", "reset", topic, "one", "--to", to, "--dry-run", url=url)
    assert planned["backlog_after"] == 20 - index
    change(url, undo_file, "reset", topic, "one", "--to", to)
    assert state(url, topic)[2] == str(positions[index])


def test_entries_without_a_time_are_refused_before_any_change(url, topic, positions, undo_file) -> None:
    before = answer("metadata", "tree", url=url)
    arguments = ("cursors", "reset", topic, "one", "--to", "2026-01-31", "--yes", "--undo-file", undo_file)
    refused = mledger(*arguments, url=url)
    assert refused.code == 1
    assert "publish time" in refused.err
    assert answer("metadata", "tree", url=url) == before
    assert not undo_file.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["skip", "{}", "nobody", 1], 3),
        (["clear", "persistent://public/default/nothing", "one"], 3),
        (["skip", "{}", "one", -1], 2),
        (["reset", "{}", "one", "--to", "tomorrow"], 2),
        (["reset", "{}", "one"], 2),
        (["set-properties", "{}", "one"], 2),
        (["set-properties", "{}", "one", "a=b", "--remove", "a"], 2),
        (["set-properties", "{}", "one", "#pulsar.internal.delayed.bucket_1_1=5"], 2),
        (["set-properties", "{}", "one", "--remove", "#pulsar.internal.delayed.bucket_1_1"], 2),
    ],
)
def test_invalid_input_is_refused_with_its_exit_code(url, topic, positions, undo_file, arguments, code) -> None:
    given = [topic if each == "{}" else each for each in arguments]
    refused = mledger("cursors", *given, "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == code
    assert refused.err.startswith("mledger: ")
    assert not undo_file.exists()


def test_the_plan_refuses_properties_that_the_record_cannot_hold(url, topic, positions, undo_file) -> None:
    many = [f"key-{number}={'x' * 120_000}" for number in range(5)]
    for how in (("--dry-run",), ("--yes", "--undo-file", undo_file)):
        refused = mledger("cursors", "set-properties", topic, "one", *many, *how, url=url)
        assert refused.code == 1
        assert "do not fit into the cursor's record" in refused.err
    assert not undo_file.exists()


def test_a_live_owner_is_left_alone(url, topic, positions, undo_file, monkeypatch) -> None:
    import asyncio

    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)

    async def main() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            owned = await cluster.open_topic(topic)
            refused = await asyncio.to_thread(
                mledger, "cursors", "clear", topic, "one", "--yes", "--undo-file", undo_file, url=url
            )
            assert refused.code == 4
            await owned.add(b"still the owner")

    run(main())
    assert not undo_file.exists()


def test_the_undo_file_is_named_after_the_command_by_default(url, topic, positions, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = answer("cursors", "skip", topic, "one", 1, "--yes", url=url)
    (file,) = tmp_path.iterdir()
    assert done["undo_file"] == file.name
    assert file.name.startswith("mledger-undo-cursors-skip-public-default-topic-")
    assert undo_files.load(file).outcome is Outcome.DONE


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("place", ["earliest", "latest"])
def test_a_reset_on_a_topic_without_entries_plans_the_ledger_that_opening_creates(
    url, topic, undo_file, place, crash
) -> None:
    async def main() -> None:
        async with public.open_cluster(url, config=SMALL) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("one")
            await (opened.abandon() if crash else opened.close())

    run(main())
    planned = answer("cursors", "reset", topic, "one", "--to", place, "--dry-run", url=url)
    assert planned["mark_delete_after"] == "new:-1"
    done = change(url, undo_file, "reset", topic, "one", "--to", place)
    before = int(planned["mark_delete_before"].partition(":")[0])
    ledger, _, entry = done["mark_delete"].partition(":")
    assert (int(ledger) > before, entry) == (True, "-1")
