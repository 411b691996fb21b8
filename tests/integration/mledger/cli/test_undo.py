"""`mledger undo` on a real cluster: a command's changes are reverted, or nothing is written."""

import asyncio
import stat
from dataclasses import replace

import pytest
from msgspec import structs

import mledger as public
from mledger.admin.undo.undo_file import NodeState, Outcome
from mledger.cli.shared.changes import undo_files
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.ledger_codec import decode_ledger_metadata, encode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import cursor_path, ledger_path, managed_ledger_path
from mledger.metastore.store import Create, Delete, Put
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.cli import answer, mledger, ok
from tests.support.commands.undo_steps import change_records
from tests.support.metadata.tree import tree
from tests.support.topics import CONFIG, assert_nothing_orphaned, fill, managed_ledger_of

ONE_BOOKIE = replace(
    CONFIG, ensemble_size=1, write_quorum_size=1, ack_quorum_size=1, retention_time_ms=-1, retention_size_in_mb=-1
)


def state_of(url: str, path: str) -> NodeState | None:
    """The node at `path` as it is now."""

    async def main():
        async with await open_store(url) as store:
            (node,) = await store.get_many([path])
            return NodeState.of(node)

    return run(main())


def write(url: str, *operations) -> None:
    """Change the metadata store as another program would."""

    async def main():
        async with await open_store(url) as store:
            await store.multi(operations)

    run(main())


@pytest.fixture
def created(url, topic):
    """A topic; the path of its record."""
    ok("topics", "create", topic, url=url)
    return managed_ledger_path(managed_ledger_of(topic))


def with_property(data: bytes) -> bytes:
    """A topic's record with a property."""
    return encode_managed_ledger_info(structs.replace(decode_managed_ledger_info(data).value, properties=(("a", "b"),)))


def change_topic(url: str, topic: str, path: str, undo_file) -> NodeState:
    """Give a topic a property, as a command would; the record before."""
    before = state_of(url, path)
    assert before is not None
    put = Put(path, with_property(before.data), before.version)
    change_records(url, undo_file, [put], managed_ledger=managed_ledger_of(topic))
    return before


def test_an_interrupted_command_keeps_its_undo_file_because_a_write_may_still_arrive(url, created, undo_file):
    before = state_of(url, created)
    with pytest.raises(asyncio.CancelledError):
        change_records(url, undo_file, [Put(created, b"", before.version)], cut_off=True)
    file = undo_files.load(undo_file)
    assert file.outcome is Outcome.BEGUN
    assert [record.before for record in file.records] == [before]


def test_a_topic_record_is_restored_one_version_up(url, topic, created, undo_file) -> None:
    before = change_topic(url, topic, created, undo_file)
    answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert state_of(url, created) == NodeState(before.data, before.version + 2)


def test_an_undo_can_be_undone(url, topic, created, undo_file) -> None:
    before = change_topic(url, topic, created, undo_file)
    redo = undo_file.with_name("redo.json")
    ok("undo", undo_file, "--yes", "--undo-file", redo, url=url)
    ok("undo", redo, "--yes", "--undo-file", undo_file.with_name("again.json"), url=url)
    assert state_of(url, created) == NodeState(with_property(before.data), before.version + 3)


def test_a_dry_run_shows_what_would_be_restored_and_changes_nothing(url, topic, created, undo_file) -> None:
    change_topic(url, topic, created, undo_file)
    left = state_of(url, created)
    plan = answer("undo", undo_file, "--dry-run", url=url)
    assert [(each["path"], each["action"]) for each in plan["records"]] == [(created, "set")]
    assert state_of(url, created) == left
    assert [each.name for each in undo_file.parent.iterdir()] == [undo_file.name]


def test_a_record_changed_since_is_named_and_nothing_is_written(url, topic, created, undo_file) -> None:
    ok("cursors", "create", topic, "one", url=url)
    cursor = cursor_path(managed_ledger_of(topic), "one")
    before, state = state_of(url, created), state_of(url, cursor)
    operations = [Put(created, with_property(before.data), before.version), Delete(cursor, state.version)]
    change_records(url, undo_file, operations, managed_ledger=managed_ledger_of(topic))
    write(url, Put(created, before.data, before.version + 1))
    refused = mledger("undo", undo_file, "--yes", url=url)
    assert refused.code == 4
    assert created in refused.err
    assert cursor not in refused.err
    assert state_of(url, cursor) is None


def test_a_deleted_cursor_is_created_again_at_version_0(url, topic, created, undo_file) -> None:
    ok("cursors", "create", topic, "one", url=url)
    ok("cursors", "recover", topic, "--apply", url=url)
    cursor = cursor_path(managed_ledger_of(topic), "one")
    before = state_of(url, cursor)
    change_records(url, undo_file, [Delete(cursor, before.version)], managed_ledger=managed_ledger_of(topic))
    done = answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert state_of(url, cursor) == NodeState(before.data, 0)
    assert "version 0" in done["records"][0]["note"]


def test_a_created_cursor_is_deleted(url, topic, created, undo_file) -> None:
    ok("cursors", "create", topic, "one", url=url)
    like = state_of(url, cursor_path(managed_ledger_of(topic), "one"))
    cursor = cursor_path(managed_ledger_of(topic), "two")
    change_records(url, undo_file, [Create(cursor, like.data)], managed_ledger=managed_ledger_of(topic))
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert state_of(url, cursor) is None


def test_ledger_metadata_is_restored(url, topic, created, undo_file) -> None:
    ledger = answer("topics", "describe", topic, url=url)["ledgers"][0]["ledger_id"]
    path = ledger_path(ledger)
    before = state_of(url, path)
    metadata = structs.replace(decode_ledger_metadata(before.data), state=LedgerState.IN_RECOVERY)
    put = Put(path, encode_ledger_metadata(metadata), before.version)
    change_records(url, undo_file, [put])
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert state_of(url, path) == NodeState(before.data, before.version + 2)


def test_deleted_ledger_metadata_is_created_again(url, topic, created, undo_file) -> None:
    path = ledger_path(999_000_001)
    like = state_of(url, ledger_path(answer("topics", "describe", topic, url=url)["ledgers"][0]["ledger_id"]))
    run(_create(url, path, like.data))
    change_records(url, undo_file, [Delete(path, 0)], lost=["entries of ledger 999000001"])
    done = answer("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert state_of(url, path) == NodeState(like.data, 0)
    assert done["lost"] == ["entries of ledger 999000001"]


async def _create(url: str, path: str, data: bytes) -> None:
    async with await open_store(url) as store:
        await store.create(path, data, parents=True)


async def _crash_with_acks(url: str, topic: str, holes: int) -> tuple[public.Position, str]:
    """A cursor with its state in a cursor ledger: every second entry acknowledged, the owner gone as after a crash."""
    async with public.open_cluster(url, config=replace(ONE_BOOKIE, max_entries_per_ledger=100_000)) as cluster:
        opened = await cluster.open_topic(topic)
        cursor = await opened.open_cursor("one", cursor_properties={"kept": "yes"})
        positions = await fill(opened, 2 * holes + 2)
        await cursor.acknowledge(positions[1::2])
        await opened.abandon()
        return cursor.mark_delete, cursor.individually_deleted


async def _cursor_now(url: str, topic: str) -> tuple[public.Position, str, dict[str, str]]:
    async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
        opened = await cluster.open_topic(topic)
        cursor = await opened.open_cursor("one")
        found = cursor.mark_delete, cursor.individually_deleted, cursor.cursor_properties
        await opened.close()
        return found


@pytest.mark.parametrize(("holes", "in_ledger"), [(3, False), (1500, True)])
def test_a_state_whose_cursor_ledger_was_deleted_is_restored(url, topic, created, undo_file, holes, in_ledger) -> None:
    mark_delete, deleted = run(_crash_with_acks(url, topic, holes))
    name = managed_ledger_of(topic)
    cursor = cursor_path(name, "one")
    before = state_of(url, cursor)
    ledger = decode_managed_cursor_info(before.data).value.cursors_ledger_id
    operations = [Delete(cursor, before.version), Delete(ledger_path(ledger))]
    change_records(url, undo_file, operations[:1], managed_ledger=name, cursors=["one"])
    write(url, operations[1])
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    record = decode_managed_cursor_info(state_of(url, cursor).data).value
    assert (record.cursors_ledger_id != -1) == in_ledger
    if in_ledger:  # the quorums are those of the topic's last ledger, not the default
        metadata = decode_ledger_metadata(state_of(url, ledger_path(record.cursors_ledger_id)).data)
        assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (1, 1, 1)
    assert run(_cursor_now(url, topic)) == (mark_delete, deleted, {"kept": "yes"})
    run(assert_nothing_orphaned(url, name))


def test_a_cursor_ledger_that_an_undo_writes_has_the_password_of_the_topics_ledgers(url, topic, undo_file) -> None:
    """Without --config: the topic's owner, who opens all of them with one password, could not load the cursor."""
    config = replace(ONE_BOOKIE, password=b"right", max_entries_per_ledger=100_000)

    async def crash_with_acks() -> None:
        async with public.open_cluster(url, config=config) as cluster:
            opened = await cluster.create_topic(topic)
            cursor = await opened.open_cursor("one")
            positions = await fill(opened, 3002)
            await cursor.acknowledge(positions[1::2])
            await opened.abandon()

    run(crash_with_acks())
    cursor = cursor_path(managed_ledger_of(topic), "one")
    before = state_of(url, cursor)
    gone = ledger_path(decode_managed_cursor_info(before.data).value.cursors_ledger_id)
    delete = Delete(cursor, before.version)
    change_records(url, undo_file, [delete], managed_ledger=managed_ledger_of(topic), cursors=["one"])
    write(url, Delete(gone))
    ok("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    restored = decode_managed_cursor_info(state_of(url, cursor).data).value.cursors_ledger_id
    assert decode_ledger_metadata(state_of(url, ledger_path(restored)).data).password == b"right"


def test_the_undo_file_records_what_the_command_left_and_is_private(url, topic, created, undo_file) -> None:
    before = change_topic(url, topic, created, undo_file)
    assert stat.S_IMODE(undo_file.stat().st_mode) == 0o600
    file = undo_files.load(undo_file)
    assert file.outcome is Outcome.DONE
    (record,) = file.records
    assert record.before == before
    assert record.after == state_of(url, created)


def test_an_existing_file_is_never_overwritten(url, topic, created, undo_file) -> None:
    change_topic(url, topic, created, undo_file)
    kept = undo_file.read_bytes()
    refused = mledger("undo", undo_file, "--yes", "--undo-file", undo_file, url=url)
    assert refused.code == 1
    assert "exists already" in refused.err
    assert undo_file.read_bytes() == kept
    assert decode_managed_ledger_info(state_of(url, created).data).value.properties


def test_without_a_terminal_it_asks_for_yes(url, topic, created, undo_file) -> None:
    change_topic(url, topic, created, undo_file)
    refused = mledger("undo", undo_file, url=url)
    assert refused.code == 2
    assert "--yes" in refused.err


def test_a_live_owner_is_left_alone(url, topic, created, undo_file, monkeypatch) -> None:
    monkeypatch.setattr("mledger.settings.SESSION_TIMEOUT_S", 1.0)
    change_topic(url, topic, created, undo_file)
    left = state_of(url, created)
    owner = f"/mledger/owners/{public.TopicName.parse(topic).managed_ledger_name.replace('/', '%2F')}"

    async def main() -> None:
        import asyncio

        async with await open_store(url) as store:
            await store.create(owner, b"{}", ephemeral=True)
            refused = await asyncio.to_thread(mledger, "undo", undo_file, "--yes", url=url)
            assert refused.code == 4
            assert "owner" in refused.err

    run(main())
    assert state_of(url, created) == left


def test_an_invalid_undo_file_is_refused(url, undo_file) -> None:
    undo_file.write_text('{"format": 7}')
    refused = mledger("undo", undo_file, "--yes", url=url)
    assert refused.code == 1
    assert "format 7" in refused.err


def test_a_file_of_another_cluster_does_not_make_a_topic_list_the_ledgers_of_others(url, topic, written, undo_file):
    ok("topics", "delete", topic, "--yes", "--undo-file", undo_file, url=url)
    other = managed_ledger_of("persistent://public/default/other").encode()

    async def give_out_the_ids_again():
        async with await open_store(url) as store:
            for ledger_id in written:
                custom = (("component", b"managed-ledger"), ("pulsar/managed-ledger", other))
                segments = (Segment(0, ("127.0.0.1:1",)),)
                metadata = LedgerMetadata(1, 1, 1, segments, last_entry=4, length=50, custom_metadata=custom)
                await LedgerStore(store).create(ledger_id, structs.replace(metadata, state=LedgerState.CLOSED))

    run(give_out_the_ids_again())
    before = tree(url)
    done = mledger("undo", undo_file, "--yes", "--undo-file", undo_file.with_name("redo.json"), url=url)
    assert done.code == 4
    assert f"ledger {written[0]} of {managed_ledger_of(topic)} belongs to {other.decode()} here" in done.err
    assert tree(url) == before


def test_the_plan_says_if_the_file_was_written_for_another_url(url, created, topic, undo_file):
    change_topic(url, topic, created, undo_file)
    assert answer("undo", undo_file, "--dry-run", url=url)["warnings"] == []
    file = structs.replace(undo_files.load(undo_file), cluster="zk://elsewhere:2181")
    undo_files.rewrite(undo_file, file)
    (warning,) = answer("undo", undo_file, "--dry-run", url=url)["warnings"]
    assert warning == "the file was written for the cluster at zk://elsewhere:2181"


def test_an_owner_that_an_undo_takes_over_acknowledges_nothing_in_a_cursor_ledger_that_is_dropped(
    url, topic, undo_file
):
    async def main():
        async with public.open_cluster(url, config=ONE_BOOKIE) as cluster:
            opened = await cluster.create_topic(topic)
            await opened.open_cursor("sub")
            positions = await fill(opened, 9)
            await opened.close()
            clear = ("cursors", "clear", topic, "sub", "--yes", "--undo-file", undo_file)
            await asyncio.to_thread(ok, *clear, url=url)
            opened = await cluster.open_topic(topic)
            cursor = await opened.open_cursor("sub", create=False)
            await cursor.reset(positions[0])  # names a cursor ledger
            file = undo_files.load(undo_file)
            records = tuple(structs.replace(each, after=None) for each in file.records)
            undo_files.rewrite(undo_file, structs.replace(file, records=records, outcome=Outcome.BEGUN))
            how = ("--incomplete", "--take-over", "--yes", "--undo-file", undo_file.with_name("redo.json"))
            await asyncio.to_thread(ok, "undo", undo_file, *how, url=url)
            with pytest.raises(public.ManagedLedgerFenced):
                await cursor.acknowledge(positions[:3])
            await opened.abandon()

    run(main())
