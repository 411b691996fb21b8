"""`mledger cursors` on a real cluster."""

from dataclasses import replace

import pytest

import mledger as public
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.topics import KEEP


@pytest.fixture
def filled(url, topic):
    """A topic of ten entries; the ledger they are in."""
    ok("topics", "create", topic, url=url)
    return int(answer("topics", "produce", topic, "--count", 10, url=url)["first"].split(":")[0])


def test_a_new_cursor_starts_where_told(url, topic, filled) -> None:
    ok("cursors", "create", topic, "all", url=url)
    ok("cursors", "create", topic, "none", "--at", "latest", url=url)
    ok("cursors", "create", topic, "some", "--at", f"{filled}:3", url=url)
    listed = {each["cursor"]: each for each in answer("cursors", "list", topic, url=url)}
    assert {name: each["backlog"] for name, each in listed.items()} == {"all": 10, "none": 0, "some": 6}
    assert listed["some"]["position"] == f"{filled}:3"


def test_describe_shows_the_record_and_the_state(url, topic, filled) -> None:
    ok("cursors", "create", topic, "one", "--property", "of=test", url=url)
    described = answer("cursors", "describe", topic, "one", url=url)
    assert described["cursor_properties"] == {"of": "test"}
    assert described["backlog"] == 10
    assert described["rules"][0] == "R2"
    assert described["cursor_ledger"] == -1


def test_partly_acknowledged_batches_are_shown_with_what_is_left(url, topic) -> None:
    async def main() -> str:
        config = replace(KEEP, deletion_at_batch_index_level_enabled=True)
        async with public.open_cluster(url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            position = await opened.add(b"a batch of ten")
            await opened.add(b"another")
            cursor = await opened.open_cursor("one")
            await cursor.acknowledge_batch(position, [0b1111100101])
            await opened.close()
            return str(position)

    position = run(main())
    (listed,) = answer("cursors", "list", topic, url=url)
    assert (listed["partial_batches"], listed["backlog"]) == (1, 2)
    described = answer("cursors", "describe", topic, "one", url=url)
    assert described["partial_batches"] == [{"position": position, "unacknowledged": [0, 2, 5, 6, 7, 8, 9]}]
    assert f"{position} lacks 0, 2, 5, 6, 7, 8, 9" in ok("cursors", "describe", topic, "one", url=url).out
    assert "partial batches" in ok("cursors", "list", topic, url=url).out


def test_recover_without_apply_changes_nothing(url, topic, filled) -> None:
    ok("cursors", "create", topic, "one", url=url)
    before = answer("cursors", "describe", topic, "one", url=url)
    plan = answer("cursors", "recover", topic, url=url)
    assert [(each["cursor"], each["backlog"]) for each in plan] == [("one", 10)]
    assert answer("cursors", "describe", topic, "one", url=url) == before


def test_recover_apply_opens_as_owner_and_reports_what_it_did(url, topic, filled) -> None:
    ok("cursors", "create", topic, "one", url=url)
    done = answer("cursors", "recover", topic, "--apply", url=url)
    assert [each["cursor"] for each in done["plan"]] == ["one"]
    assert [each["backlog"] for each in done["done"]] == [10]
    names = [event["event"] for event in done["events"]]
    assert names.index("opening") < names.index("ledger created") < names.index("loading cursor")
    assert names.index("loading cursor") < names.index("recovered to position") < names.index("initialized")


def test_recover_shows_one_cursor_if_one_is_named(url, topic, filled) -> None:
    for name in ("one", "two"):
        ok("cursors", "create", topic, name, url=url)
    assert [each["cursor"] for each in answer("cursors", "recover", topic, "two", url=url)] == ["two"]


def test_a_deleted_cursor_is_gone(url, topic, filled, tmp_path) -> None:
    ok("cursors", "create", topic, "one", url=url)
    ok("cursors", "delete", topic, "one", "--yes", "--undo-file", tmp_path / "undo.json", url=url)
    assert answer("cursors", "list", topic, url=url) == []
    assert mledger("cursors", "describe", topic, "one", url=url).code == 3


def test_creating_an_existing_cursor_is_a_conflict(url, topic, filled) -> None:
    ok("cursors", "create", topic, "one", url=url)
    assert mledger("cursors", "create", topic, "one", url=url).code == 4
