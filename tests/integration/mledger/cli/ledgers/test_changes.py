"""`ledgers recover` and `ledgers delete`: plan, refusals, change and undo."""

import asyncio
from dataclasses import replace

import pytest

import mledger as public
from mledger.bookie.errors import RecoveryUndecided
from mledger.errors import CursorRecoveryFailed
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import cursor_path, managed_ledger_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import lose_disk
from tests.support.cli import answer, mledger, ok
from tests.support.metadata.tree import tree
from tests.support.topics import CONFIG, fill, managed_ledger_of, payloads

ONE_COPY = replace(CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


def act(url, work):
    """The result of `work` with a store and its ledgers."""

    async def main():
        async with await open_store(url) as store:
            return await work(store, LedgerStore(store))

    return run(main())


def metadata(url, ledger_id: int) -> LedgerMetadata:
    async def read(_, ledgers):
        return (await ledgers.read(ledger_id))[0]

    return act(url, read)


def unclosed(url, topic) -> int:
    """The ledger of a topic with 5 entries whose owner went without closing it."""

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            positions = await fill(opened, 5)
            await opened.abandon()
            return positions[0].ledger_id

    return run(main())


def orphan(url, component: bytes = b"managed-ledger") -> int:
    """A closed ledger of a deleted topic's cursor."""

    async def make(_, ledgers):
        ledger_id = await ledgers.next_id()
        topic, cursor = ("pulsar/managed-ledger", b"public/default/persistent/gone"), ("pulsar/cursor", b"one")
        custom = (("component", component), topic, cursor)
        segments = (Segment(0, ("127.0.0.1:1",)),)
        closed = LedgerState.CLOSED
        await ledgers.create(
            ledger_id, LedgerMetadata(1, 1, 1, segments, state=closed, last_entry=4, length=50, custom_metadata=custom)
        )
        return ledger_id

    return act(url, make)


def test_the_plan_of_a_recovery_shows_the_end_and_changes_nothing(url, topic):
    ledger = unclosed(url, topic)
    before = tree(url)
    planned = answer("ledgers", "recover", ledger, "--dry-run", url=url)
    assert tree(url) == before
    assert (planned["state"], planned["last_entry_seen"], planned["of"]) == ("OPEN", 4, managed_ledger_of(topic))
    assert planned["lost"]


def test_a_recovered_ledger_is_closed_at_its_true_end_and_stays_closed_when_that_is_undone(url, topic, undo_file):
    ledger = unclosed(url, topic)
    done = answer("ledgers", "recover", ledger, "--yes", "--undo-file", undo_file, url=url)
    assert (done["state"], done["last_entry"], done["length"]) == ("CLOSED", 4, 60)
    closed = metadata(url, ledger)
    assert closed.state is LedgerState.CLOSED
    again = answer("ledgers", "recover", ledger, "--yes", "--undo-file", undo_file.with_name("no.json"), url=url)
    assert again["undo_file"] is None
    undone = answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert [each["note"] for each in undone["records"]] == ["the ledger stays closed"]
    assert metadata(url, ledger) == closed


@pytest.mark.parametrize("verb", ["recover", "delete"])
def test_a_ledger_with_a_live_owner_is_refused(url, topic, verb, undo_file, monkeypatch):
    monkeypatch.setattr("mledger.cli.shared.changes.change_command.SESSION_TIMEOUT_S", 0.0)

    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            ledger = (await fill(opened, 1))[0].ledger_id
            force = ["--force"] if verb == "delete" else []
            arguments = ("ledgers", verb, ledger, "--yes", "--undo-file", undo_file, *force)
            done = await asyncio.to_thread(mledger, *arguments, url=url)
            await fill(opened, 1)  # it was not fenced
            return done

    done = run(main())
    assert (done.code, undo_file.exists()) == (4, False)
    assert "has an owner" in done.err


def test_a_named_ledger_is_deleted_only_with_force(url, topic, undo_file):
    ledger = unclosed(url, topic)
    refused = mledger("ledgers", "delete", ledger, "--yes", "--undo-file", undo_file, url=url)
    assert (refused.code, undo_file.exists()) == (4, False)
    assert "names it as data ledger" in refused.err
    before = metadata(url, ledger)
    done = answer("ledgers", "delete", ledger, "--force", "--yes", "--undo-file", undo_file, url=url)
    assert done["deleted"]
    assert len(done["named_by"]) == 1
    assert mledger("ledgers", "describe", ledger, url=url).code == 3
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert metadata(url, ledger) == before


def test_an_owner_whose_ledger_is_deleted_goes_on_in_another(url, topic, undo_file):
    async def main():
        async with public.open_cluster(url, config=CONFIG) as cluster:
            opened = await cluster.create_topic(topic)
            ledger = (await fill(opened, 1))[0].ledger_id
            force = ("--force", "--take-over", "--yes", "--undo-file", undo_file)
            assert (await asyncio.to_thread(mledger, "ledgers", "delete", ledger, *force, url=url)).code == 0
            return (await fill(opened, 1))[0].ledger_id != ledger

    assert run(main())


@pytest.mark.parametrize("cursor", [None, "one"])
def test_a_frozen_owner_can_no_longer_name_an_orphan_that_is_deleted(url, topic, undo_file, cursor):
    """One of Pulsar's, which leaves no pending record of the ledger that it has created and is about to name."""
    name = managed_ledger_of(topic)
    path = managed_ledger_path(name) if cursor is None else cursor_path(name, cursor)

    async def create(store, ledgers):
        async with public.open_cluster(url, config=CONFIG) as cluster:
            await (await cluster.create_topic(topic)).open_cursor("one")
        ledger_id = await ledgers.next_id()
        of_cursor = () if cursor is None else (("pulsar/cursor", cursor.encode()),)
        custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", name.encode()), *of_cursor)
        bookie = min(await store.children("/ledgers/available"))
        await ledgers.create(ledger_id, LedgerMetadata(1, 1, 1, (Segment(0, (bookie,)),), custom_metadata=custom))
        return ledger_id, await store.get(path)

    async def go_on(store, _):
        with pytest.raises(BadVersion):
            await store.put(path, b"it names the ledger", known.version)
        assert (await store.get(path)).data == known.data

    ledger, known = act(url, create)
    assert ok("ledgers", "delete", ledger, "--yes", "--undo-file", undo_file, url=url)
    act(url, go_on)


def test_an_orphan_is_deleted_with_a_warning_that_its_entries_are_lost(url, undo_file):
    ledger = orphan(url)
    planned = answer("ledgers", "delete", ledger, "--dry-run", url=url)
    assert planned["lost"] == [
        f"the 5 entries of ledger {ledger}: bookies free them over time; undo restores only the record"
    ]
    assert answer("ledgers", "delete", ledger, "--yes", "--undo-file", undo_file, url=url)["deleted"]
    assert mledger("ledgers", "describe", ledger, url=url).code == 3


def test_a_ledger_of_another_component_is_deleted_only_with_force(url, undo_file):
    ledger = orphan(url, b"compacted-ledger")
    refused = mledger("ledgers", "delete", ledger, "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == 4
    assert "component compacted-ledger" in refused.err
    answer("ledgers", "delete", ledger, "--force", "--yes", "--undo-file", undo_file, url=url)


def test_a_missing_ledger_is_not_found(url):
    assert mledger("ledgers", "recover", 999_999, "--dry-run", url=url).code == 3
    assert mledger("ledgers", "delete", 999_999, "--dry-run", url=url).code == 3


def test_the_errors_of_a_lost_disk_name_the_commands_that_give_up_its_ledgers(bookies, topic):
    """The topic opens without the entries, and its cursor goes on from the record in its znode."""
    bookies.start(1)
    url = bookies.metadata_url

    async def fill_and_lose():
        async with public.open_cluster(url, config=ONE_COPY) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("sub")
            positions = await fill(opened, 5)
            await cursor.acknowledge_cumulative(positions[2])
            await opened.abandon()
        await lose_disk(bookies[0])
        return positions[0].ledger_id

    async def cursor_ledger():
        async with await open_store(url) as store:
            node = await store.get(cursor_path(managed_ledger_of(topic), "sub"))
            return decode_managed_cursor_info(node.data, "sub").value.cursors_ledger_id

    async def backlog_of_a_new_entry():
        async with public.open_cluster(url, config=ONE_COPY) as cluster:
            opened = await cluster.open_topic(topic)
            cursor = await opened.open_cursor("sub")
            await opened.append(payloads(1))
            return cursor.backlog

    lost = run(fill_and_lose())
    with pytest.raises(RecoveryUndecided, match="mledger topics drop-ledgers"):
        run(backlog_of_a_new_entry())
    ok("topics", "drop-ledgers", topic, lost, "--yes", url=url)
    with pytest.raises(CursorRecoveryFailed, match=r"mledger ledgers delete .*--force"):
        run(backlog_of_a_new_entry())
    ok("ledgers", "delete", run(cursor_ledger()), "--force", "--yes", url=url)
    assert run(backlog_of_a_new_entry()) == 1
