"""A cursor with an unreadable record: shown, kept in the undo file, then created again or deleted (M12)."""

import asyncio
import base64
import json

import pytest

import mledger as public
from mledger.admin.references.attached_ledgers import pending_ack_topic
from mledger.cursors import container
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import encode_managed_cursor_info
from mledger.metastore.records.paths import TopicName, cursor_path
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger
from tests.support.commands.meanwhile import meanwhile
from tests.support.topics import CONFIG, fill, managed_ledger_of

BYTES = b"\xff\xff\xffnot a cursor"


@pytest.fixture
def positions(url, topic):
    """The positions of 25 entries of a topic with a cursor `good` and a cursor `bad` whose record is unreadable."""
    return run(_fill(url, topic))


async def _fill(url, topic):
    async with public.open_cluster(url, config=CONFIG) as cluster:
        opened = await cluster.create_topic(topic)
        await opened.open_cursor("good")
        await opened.open_cursor("bad")
        positions = await fill(opened, 25)
        await opened.close()
        return positions


async def _damage(url, topic, cursor="bad"):
    async with await open_store(url) as store:
        path = cursor_path(managed_ledger_of(topic), cursor)
        await store.put(path, BYTES, (await store.get(path)).version)


async def _data(url, topic):
    async with await open_store(url) as store:
        return (await store.get(cursor_path(managed_ledger_of(topic), "bad"))).data


@pytest.fixture
def damaged(url, topic, positions):
    """The same, with the record damaged."""
    run(_damage(url, topic))
    return positions


def change(url, undo_file, *arguments):
    """Carry out a changing command, and return its answer."""
    return answer("cursors", *arguments, "--yes", "--undo-file", undo_file, url=url)


def kept(undo_file):
    """The record's data in the undo file."""
    (record,) = [each for each in json.loads(undo_file.read_text())["records"] if each["path"].endswith("/bad")]
    return base64.b64decode(record["before"]["data"])


@pytest.mark.parametrize(("command", "backlog"), [("repair", 25), ("reset", 10), ("delete", None)])
def test_a_plan_shows_the_bytes_and_the_undo_file_keeps_them(url, topic, damaged, undo_file, command, backlog) -> None:
    arguments = [command, topic, "bad", *(["--to", str(damaged[15])] if command == "reset" else [])]
    planned = answer("cursors", *arguments, "--dry-run", url=url)
    assert planned["record"].replace(" ", "") == BYTES.hex()
    assert (planned["record_bytes"], "bad" in planned["unreadable"]) == (len(BYTES), True)
    assert run(_data(url, topic)) == BYTES
    done = change(url, undo_file, *arguments)
    assert kept(undo_file) == BYTES
    if command == "delete":
        assert [each["cursor"] for each in answer("cursors", "list", topic, url=url)] == ["good"]
    else:
        found = answer("cursors", "describe", topic, "bad", url=url)
        assert found["backlog"] == planned["backlog_after"] == backlog
        assert found["mark_delete"] == done["mark_delete"]
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert run(_data(url, topic)) == BYTES


async def _with_compaction(url, topic):
    async with public.open_cluster(url, config=CONFIG) as cluster:
        opened = await cluster.open_topic(topic)
        await opened.open_cursor("__compaction")
        await opened.close()


def test_the_cursor_of_compaction_is_not_created_again_past_entries_that_are_not_compacted(
    url, topic, positions, undo_file
) -> None:
    run(_with_compaction(url, topic))
    run(_damage(url, topic, "__compaction"))
    for place in ("latest", str(positions[12])):
        refused = mledger("cursors", "repair", topic, "__compaction", "--to", place, "--dry-run", url=url)
        assert refused.code == 2
        assert "not compacted" in refused.err
    change(url, undo_file, "repair", topic, "__compaction")
    assert answer("cursors", "describe", topic, "__compaction", url=url)["backlog"] == len(positions)


def test_a_readable_record_is_left_alone(url, topic, positions, undo_file) -> None:
    before = answer("metadata", "tree", url=url)
    change(url, undo_file, "repair", topic, "bad")
    assert answer("metadata", "tree", url=url) == before
    assert not undo_file.exists()


def test_a_topic_is_deleted_with_a_cursor_whose_record_is_unreadable(url, topic, damaged, undo_file) -> None:
    answer("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    assert kept(undo_file) == BYTES
    assert topic not in [each["topic"] for each in answer("topics", "list", url=url)]


def test_an_owner_opens_the_others_trims_nothing_and_opens_the_repaired_one(
    url, topic, damaged, undo_file, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(container, "RETRY_DELAYS_S", (0.05,))

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster, await open_store(url) as store:
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            good = opened.open_cursors["good"]
            await good.clear_backlog()
            plan = await opened.trim()
            assert plan.deletions == ()
            assert plan.kept_because == "the state of bad is not known yet; repair bad with `mledger cursors repair`"
            assert "cursors repair" in caplog.text
            with pytest.raises(RecordError, match="bad"):
                await opened.delete_cursor("bad")
            path = cursor_path(managed_ledger_of(topic), "bad")
            record = encode_managed_cursor_info(ManagedCursorInfo(mark_delete=damaged[11]))
            await store.put(path, record, (await store.get(path)).version)  # by another program
            while "bad" not in opened.open_cursors:
                await asyncio.sleep(0.02)
            assert opened.open_cursors["bad"].backlog == 13
            await opened.trim()
            assert opened.ledgers[0].ledger_id == damaged[10].ledger_id

    run(main(), timeout=60.0)


@pytest.mark.parametrize("command", [["repair"], ["reset", "--to", "earliest"]], ids=lambda command: command[0])
def test_an_owner_that_knew_the_cursor_before_the_damage_trims_nothing_of_a_new_one(
    url, topic, positions, undo_file, command
) -> None:
    """As one that was frozen for longer than its session, or was taken over."""

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            owner = await cluster.open_topic(topic, trim=False)
            await owner.initialized()
            for name in ("good", "bad"):
                await owner.open_cursors[name].clear_backlog()
            await _damage(url, topic)
            arguments = (command[0], topic, "bad", *command[1:], "--take-over")
            await asyncio.to_thread(change, url, undo_file, *arguments)
            with pytest.raises(public.ManagedLedgerFenced):
                await owner.trim()
            await owner.abandon()
            again = await cluster.open_topic(topic, trim=False)
            cursor = await again.open_cursor("bad", create=False)
            assert len(await cursor.read(100)) == len(positions)

    run(main())


COMMANDS = pytest.mark.parametrize(
    "command", [["repair"], ["reset", "--to", "earliest"], ["delete"]], ids=lambda command: command[0]
)


@COMMANDS
def test_a_record_that_somebody_deleted_meanwhile_is_not_for_undo(
    url, topic, damaged, undo_file, monkeypatch, command
) -> None:
    async def remove() -> None:
        async with await open_store(url) as store:
            await store.delete(cursor_path(managed_ledger_of(topic), "bad"))

    meanwhile(monkeypatch, "write cursor record", lambda: run(remove()))
    done = mledger("cursors", command[0], topic, "bad", *command[1:], "--yes", "--undo-file", undo_file, url=url)
    assert done.code != 0
    assert not undo_file.exists(), done


@COMMANDS
def test_what_an_owner_made_of_the_record_before_the_undo_file_was_completed_is_not_in_it(
    url, topic, damaged, undo_file, monkeypatch, command
) -> None:
    async def own() -> None:
        async with public.open_cluster(url, config=CONFIG) as other:
            opened = await other.open_topic(topic)
            cursor = await opened.open_cursor("bad")
            await cursor.clear_backlog()
            await opened.close()

    meanwhile(monkeypatch, "complete undo file", lambda: run(own()))
    done = mledger("cursors", command[0], topic, "bad", *command[1:], "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, "had another owner" in done.err) == (0, True), done
    assert json.loads(undo_file.read_text())["outcome"] == "begun"


def test_the_pending_acknowledgements_that_are_deleted_with_an_unreadable_cursor_had_no_other_owner(
    url, topic, damaged, undo_file
) -> None:
    acks = str(pending_ack_topic(TopicName.parse(topic), "bad"))

    async def make() -> None:
        async with public.open_cluster(url, config=CONFIG) as cluster:
            await (await cluster.create_topic(acks)).close()

    run(make())
    done = mledger("cursors", "delete", topic, "bad", "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, "had another owner" in done.err) == (0, False), done
    assert json.loads(undo_file.read_text())["outcome"] == "done"
