"""`topics repair` on real bookies finds what is broken, repairs it, and undoes it; the topic opens afterwards."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.cli.shared.changes import change_command, undo_files
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import cursor_path, managed_ledger_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.store import Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.meanwhile import meanwhile
from tests.support.metadata.tree import tree
from tests.support.topics import KEEP, assert_nothing_orphaned, fill, managed_ledger_of, recount

IN_LEDGER = replace(KEEP, max_unacked_ranges_to_persist_in_metadata_store=0)


@pytest.fixture
def name(topic):
    """The managed ledger of the topic."""
    return managed_ledger_of(topic)


def act(url, work):
    """The result of `work` with a store and its ledgers."""

    async def main():
        async with await open_store(url) as store:
            return await work(store, LedgerStore(store))

    return run(main())


def make(url, topic, config=IN_LEDGER, *, close: bool = True) -> tuple[list[int], int]:
    """The ledger ids of a topic with 25 entries in three ledgers, and a cursor `one` with holes in a cursor ledger."""

    async def main():
        async with public.open_cluster(url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one", cursor_properties={"kept": "yes"})
            positions = await fill(opened, 25)
            await cursor.acknowledge([*positions[:3], positions[12], positions[22]])
            found = list(opened.ledger_list.ids), cursor.cursor_ledger
            if not close:
                await opened.abandon()
            return found

    return run(main())


def delete_ledger(url, ledger_id: int) -> None:
    async def work(_, ledgers):
        await ledgers.delete(ledger_id)

    act(url, work)


def change_topic(url, name, change) -> None:
    """Write the topic's record, changed by `change`."""
    path = managed_ledger_path(name)

    async def work(store, _):
        node = await store.get(path)
        info = change(decode_managed_ledger_info(node.data).value)
        await store.multi([Put(path, encode_managed_ledger_info(info), node.version)])

    act(url, work)


def change_cursor(url, name, change) -> None:
    """Write the cursor's record, changed by `change`."""
    path = cursor_path(name, "one")

    async def work(store, _):
        node = await store.get(path)
        record = change(decode_managed_cursor_info(node.data).value)
        await store.multi([Put(path, encode_managed_cursor_info(record), node.version)])

    act(url, work)


def repair(url, undo_file, *arguments):
    """Repair, and return the report. A dry run before it must report the same and change nothing."""
    before = tree(url)
    planned = answer("topics", "repair", *arguments, "--min-age", 0, "--dry-run", url=url)
    assert tree(url) == before
    done = answer("topics", "repair", *arguments, "--min-age", 0, "--yes", "--undo-file", undo_file, url=url)
    assert done["mends"] == planned["mends"]
    return done


def wrongs(done) -> list[tuple[str, int | None, str]]:
    return [(each["wrong"], each["ledger_id"], each["cursor"]) for each in done["mends"]]


def reopened(url, topic):
    """Mark-delete, backlog and recount of the cursor, and the topic's ledgers, after opening the topic."""

    async def main():
        async with public.open_cluster(url, config=KEEP) as cluster:
            opened = await cluster.open_topic(topic)
            await opened.initialized()
            cursor = await opened.open_cursor("one", create=False)
            assert dict(cursor.cursor_properties) == {"kept": "yes"}
            return cursor.mark_delete, cursor.backlog, await recount(opened, cursor), list(opened.ledger_list.ids)

    return run(main())


def is_sound(url, topic) -> bool:
    return answer("topics", "repair", topic, "--min-age", 0, "--dry-run", url=url)["mends"] == []


def test_a_sound_topic_is_not_changed(url, topic, undo_file):
    make(url, topic)
    done = answer("topics", "repair", topic, "--min-age", 0, "--yes", "--undo-file", undo_file, url=url)
    assert (done["mends"], done["left"], done["undo_file"]) == ([], [], None)
    assert not undo_file.exists()


def test_a_cursor_whose_ledger_is_deleted_falls_back_to_its_snapshot(url, topic, name, undo_file):
    ledgers, cursor_ledger = make(url, topic)
    delete_ledger(url, cursor_ledger)
    done = repair(url, undo_file, topic)
    assert wrongs(done) == [("cursor ledger is lost", cursor_ledger, "one")]
    assert "mark-delete position:" in done["mends"][0]["mend"]
    assert is_sound(url, topic)
    run(assert_nothing_orphaned(url, name))
    mark_delete, backlog, counted, _ = reopened(url, topic)
    assert mark_delete == Position(ledgers[0], 2)  # the snapshot from the creation of the cursor ledger
    assert backlog == counted == 22


def test_a_lost_data_ledger_is_removed_from_the_list_and_the_cursor_moves_past_it(url, topic, name, undo_file):
    ledgers, _ = make(url, topic, KEEP)
    delete_ledger(url, ledgers[0])
    done = repair(url, undo_file, topic)
    assert ("ledger is lost", ledgers[0], "") in wrongs(done)
    assert is_sound(url, topic)
    mark_delete, backlog, counted, ids = reopened(url, topic)
    assert (mark_delete, ids[:2]) == (Position(ledgers[1], -1), ledgers[1:3])
    assert backlog == counted == 13
    run(assert_nothing_orphaned(url, name))


def test_wrong_counts_are_corrected_and_undo_restores_them(url, topic, name, undo_file):
    make(url, topic)
    path = managed_ledger_path(name)

    def break_counts(info):
        first, *rest = info.ledgers
        return structs.replace(info, ledgers=(replace(first, entries=7, size=70), *rest))

    change_topic(url, name, break_counts)
    broken = tree(url)[path][1]
    done = repair(url, undo_file, topic)
    assert [each["wrong"] for each in done["mends"]] == ["entries or size are wrong"]
    info = decode_managed_ledger_info(tree(url)[path][1]).value
    assert (info.ledgers[0].entries, info.ledgers[0].size) == (10, 120)
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert tree(url)[path][1] == broken


def test_a_position_past_the_end_moves_back_and_undo_restores_the_state(url, topic, name, undo_file):
    ledgers, _ = make(url, topic, KEEP)
    path = cursor_path(name, "one")
    change_cursor(url, name, lambda record: structs.replace(record, mark_delete=Position(ledgers[-1], 99), ranges=()))
    broken = tree(url)[path][1]
    done = repair(url, undo_file, topic)
    assert [each["wrong"] for each in done["mends"]] == ["state does not fit the ledgers"]
    assert decode_managed_cursor_info(tree(url)[path][1]).value.mark_delete == Position(ledgers[-1], 4)
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert tree(url)[path][1] == broken


def test_orphans_and_left_over_records_are_removed(url, topic, name, undo_file):
    ledgers, _ = make(url, topic)

    def forget(info):
        return structs.replace(info, ledgers=info.ledgers[1:])

    change_topic(url, name, forget)

    async def leave(store, _):
        for folder, ledger in (("pending", ledgers[1]), ("deletions", 888_888)):
            await store.create(f"/mledger/{folder}/{ledger}", name.encode(), parents=True)

    act(url, leave)
    done = repair(url, undo_file, topic)
    orphan, left_over = "ledger is an orphan", "record is left over"
    assert set(wrongs(done)) == {(orphan, ledgers[0], ""), (left_over, ledgers[1], ""), (left_over, 888_888, "")}
    assert len(wrongs(done)) == 3
    assert done["deleted_ledgers"] == 1  # one of the others is in use, and one does not exist
    assert f"the entries of ledger {ledgers[0]}" in done["lost"]
    run(assert_nothing_orphaned(url, name))
    assert is_sound(url, topic)
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert answer("ledgers", "describe", ledgers[0], url=url)["state"] == "CLOSED"


def test_a_ledger_of_another_topic_that_is_left_is_not_counted_as_deleted(url, topic, name, undo_file):
    make(url, topic)
    foreign = make(url, f"{topic}-other")[0][0]

    async def leave(store, _):
        await store.create(f"/mledger/deletions/{foreign}", name.encode(), parents=True)

    act(url, leave)
    done = repair(url, undo_file, topic)
    assert wrongs(done) == [("record is left over", foreign, "")]
    assert done["deleted_ledgers"] == 0
    assert answer("ledgers", "describe", foreign, url=url)["state"] == "CLOSED"


def test_a_ledger_before_the_last_that_was_never_closed_is_recovered(url, topic, name, undo_file):
    ledgers, _ = make(url, topic, KEEP, close=False)

    async def add_last(store, records):
        metadata, _ = await records.read(ledgers[-1])
        last = await records.next_id()
        await records.create(last, structs.replace(metadata, state=LedgerState.CLOSED))
        return last

    last = act(url, add_last)
    change_topic(
        url,
        name,
        lambda info: structs.replace(info, ledgers=(*info.ledgers, replace(info.ledgers[-1], ledger_id=last))),
    )
    done = repair(url, undo_file, topic)
    assert ("ledger is not closed", ledgers[-1], "") in wrongs(done)

    async def states(_, records):
        return (await records.read(ledgers[-1]))[0]

    metadata = act(url, states)
    assert (metadata.state, metadata.last_entry) == (LedgerState.CLOSED, 4)
    assert is_sound(url, topic)


def test_an_unreadable_cursor_is_left_and_reported(url, topic, name, undo_file):
    make(url, topic)
    path = cursor_path(name, "one")

    async def work(store, _):
        node = await store.get(path)
        await store.multi([Put(path, b"\xff\xff", node.version)])

    act(url, work)
    done = answer("topics", "repair", topic, "--min-age", 0, "--dry-run", url=url)
    assert done["mends"] == []
    assert [(each["wrong"], each["cursor"]) for each in done["left"]] == [("cannot be read", "one")]

    async def remove(store, _):
        await store.delete(path)

    act(url, remove)


def test_a_namespace_or_everything_is_repaired_at_once(url, undo_file):
    topics = [f"persistent://tenant/{each}" for each in ("one/x", "one/y", "two/x")]
    for each in topics:
        _, cursor_ledger = make(url, each)
        delete_ledger(url, cursor_ledger)
    done = repair(url, undo_file, "--namespace", "tenant/one")
    assert [each["topic"] for each in done["mends"]] == topics[:2]
    assert done["repaired"] == 2
    rest = repair(url, undo_file.with_name("all.json"), "--all")
    assert topics[2] in [each["topic"] for each in rest["mends"]]
    assert all(is_sound(url, each) for each in topics)


def test_a_live_owner_is_not_disturbed(url, topic, undo_file, monkeypatch):
    monkeypatch.setattr("mledger.cli.shared.changes.change_command.SESSION_TIMEOUT_S", 0.0)

    async def main():
        async with public.open_cluster(url, config=IN_LEDGER) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            await cursor.acknowledge((await fill(opened, 3))[1:])
            await asyncio.to_thread(delete_ledger, url, cursor.cursor_ledger)
            arguments = ("topics", "repair", topic, "--yes", "--undo-file", undo_file)
            done = await asyncio.to_thread(mledger, *arguments, url=url)
            await fill(opened, 1)  # it was not fenced
            await opened.abandon()
            return done

    done = run(main())
    assert (done.code, undo_file.exists()) == (4, False)
    assert "has an owner" in done.err


def test_the_undo_of_a_repair_that_a_change_stopped_leaves_what_others_did(url, undo_file, monkeypatch):
    topics = [f"persistent://stopped/repair/{name}" for name in ("a", "b", "c")]
    for each in topics:
        _, cursor_ledger = make(url, each)
        delete_ledger(url, cursor_ledger)

    async def own() -> None:
        async with public.open_cluster(url, config=KEEP) as cluster:
            for each in topics[1:]:
                opened = await cluster.open_topic(each)
                await (await opened.open_cursor("one")).clear_backlog()
                await opened.close()

    meanwhile(monkeypatch, "act", lambda: run(own()))
    done = mledger("topics", "repair", "--namespace", "stopped/repair", "--yes", "--undo-file", undo_file, url=url)
    assert done.code == 4
    assert undo_files.load(undo_file).managed_ledgers == (managed_ledger_of(topics[0]),)
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    backlogs = [answer("cursors", "describe", each, "one", url=url)["backlog"] for each in topics]
    assert backlogs == [22, 0, 0]


def test_the_undo_of_a_repair_that_lost_the_store_has_only_topics_that_it_had_begun(url, undo_file, monkeypatch):
    topics = [f"persistent://lost/store/{name}" for name in ("a", "b", "c")]
    for each in topics:
        _, cursor_ledger = make(url, each)
        delete_ledger(url, cursor_ledger)
    steps = []

    def lose_at_second(step: str) -> None:
        steps.append(step)
        if steps.count("write records") == 2:
            raise StoreUnavailable("the store went away")

    monkeypatch.setattr(change_command, "on_step", lose_at_second)
    done = mledger("topics", "repair", "--namespace", "lost/store", "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, "the outcome is unknown" in done.err) == (5, True)
    file = undo_files.load(undo_file)
    assert file.managed_ledgers == tuple(map(managed_ledger_of, topics[:2]))
    assert managed_ledger_of(topics[2]) not in "".join(file.paths)


@pytest.mark.parametrize("at", ["cli.topics.repair.open_store", "admin.repair.repairer.ensure_folders"])
def test_a_repair_that_loses_the_store_before_it_writes_leaves_no_undo_file(url, topic, undo_file, monkeypatch, at):
    delete_ledger(url, make(url, topic)[1])

    async def away(*_):
        raise StoreUnavailable("the store went away")

    monkeypatch.setattr(f"mledger.{at}", away)
    done = mledger("topics", "repair", topic, "--yes", "--undo-file", undo_file, url=url)
    assert (done.code, undo_file.exists(), "outcome" in done.err) == (5, False, False)


def test_bad_usage_and_unknown_topics_are_refused(url):
    assert mledger("topics", "repair", url=url).code == 2
    assert mledger("topics", "repair", "x", "--all", url=url).code == 2
    assert mledger("topics", "repair", "persistent://public/default/none", "--dry-run", url=url).code == 3


def orphan_of(url, managed_ledger: bytes) -> int:
    """A closed ledger of a managed ledger that does not exist."""

    async def make(_, ledgers):
        ledger_id = await ledgers.next_id()
        custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", managed_ledger))
        segments = (Segment(0, ("127.0.0.1:1",)),)
        closed = LedgerState.CLOSED
        await ledgers.create(
            ledger_id, LedgerMetadata(1, 1, 1, segments, state=closed, last_entry=4, length=50, custom_metadata=custom)
        )
        return ledger_id

    return act(url, make)


def test_a_ledger_with_entries_whose_topic_is_gone_stays_until_it_is_said_that_it_was_deleted(url, undo_file):
    ledger = orphan_of(url, b"of/another/program")
    left = answer("topics", "repair", "--all", "--min-age", 0, "--dry-run", url=url)["left"]
    assert ledger in [each["ledger_id"] for each in left]
    assert ("ledger is an orphan", ledger, "") in wrongs(repair(url, undo_file, "--all", "--gone-topics"))
    assert mledger("ledgers", "describe", ledger, url=url).code == 3


def test_an_orphan_that_names_what_no_managed_ledger_is_called_does_not_stop_the_others(url, topic, undo_file):
    _, cursor_ledger = make(url, topic)
    delete_ledger(url, cursor_ledger)
    ledger = orphan_of(url, b"a//b")
    arguments = ("topics", "repair", "--all", "--min-age", 0, "--yes", "--undo-file", undo_file, "--output", "json")
    done = mledger(*arguments, url=url)
    assert done.code == 1
    assert [each["topic"] for each in done.json["not_looked_at"]] == ["a//b"]
    assert topic in [each["topic"] for each in done.json["mends"]]
    assert is_sound(url, topic)
    delete_ledger(url, ledger)


@pytest.mark.parametrize("number", [-(2**63), -5])
def test_a_list_with_a_number_that_no_ledger_has_does_not_stop_the_others(url, topic, undo_file, number):
    _, cursor_ledger = make(url, topic)
    delete_ledger(url, cursor_ledger)
    wrong = f"{topic}-wrong"
    make(url, wrong)
    good = tree(url)[managed_ledger_path(managed_ledger_of(wrong))][1]
    wrong_first = LedgerInfo(number, 1, 1, 1)
    change_topic(
        url, managed_ledger_of(wrong), lambda info: structs.replace(info, ledgers=(wrong_first, *info.ledgers))
    )
    checked = mledger("ledgers", "check", "--all", "--references-only", "--output", "json", url=url)
    assert checked.code == 1
    assert number in [each["ledger_id"] for each in checked.json["dangling"]]
    arguments = ("topics", "repair", "--all", "--yes", "--undo-file", undo_file, "--output", "json")
    done = mledger(*arguments, url=url)
    assert done.code == 1
    (left,) = done.json["not_looked_at"]
    assert left["topic"] == wrong
    assert f"lists {number}, which is no ledger's id" in left["reason"]
    assert is_sound(url, topic)
    change_topic(url, managed_ledger_of(wrong), lambda _: decode_managed_ledger_info(good).value)


def test_the_exit_code_tells_that_a_topic_could_not_be_looked_at(url, topic, name, undo_file):
    make(url, topic)
    path = managed_ledger_path(name)
    broken = tree(url)[path][1]

    def write(data):
        async def work(store, _):
            await store.put(path, data, (await store.get(path)).version)

        act(url, work)

    write(b"\xff\xff")
    for flags in (("--dry-run",), ("--yes", "--undo-file", undo_file)):
        done = mledger("topics", "repair", topic, *flags, "--output", "json", url=url)
        assert done.code == 1
        assert [each["topic"] for each in done.json["not_looked_at"]] == [topic]
        assert f"{topic} was not looked at" in done.err
    write(broken)
