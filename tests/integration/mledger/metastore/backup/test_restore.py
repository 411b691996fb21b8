"""A metadata tree copied and restored, over every kind of store; ledger ids only rise."""

import pytest
from msgspec.structs import replace

from mledger.metastore.backup.backup_file import BackupNode
from mledger.metastore.backup.restore import (
    BATCH_OPERATIONS,
    INSTANCE_ID,
    RestoreAction,
    find_live,
    is_counter,
    plan_restore,
    raise_ledger_ids,
    restore,
)
from mledger.metastore.backup.tree_reader import copy_tree
from mledger.metastore.cluster.layout import initialize, instance_id
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import FIRST_LONG_ID
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.metadata.stores import with_store
from tests.support.metadata.tree import read_tree

METADATA = LedgerMetadata(1, 1, 1, (Segment(0, ("127.0.0.1:1",)),))


async def fill(store) -> None:
    """A cluster with two ledgers and some nodes of topics."""
    await initialize(store)
    ledgers = LedgerStore(store)
    for _ in range(2):
        await ledgers.create(await ledgers.next_id(), METADATA)
    for path, data in (("/managed-ledgers/t/n/persistent/x", b"topic"), ("/admin", b""), ("/zookeeper-not", b"z")):
        await store.create(path, data, parents=True)
    await store.create("/managed-ledgers/live", b"gone with us", ephemeral=True)


async def copied(store, start: str = "/") -> list[BackupNode]:
    found: list[BackupNode] = []
    await copy_tree(store, found.append, start)
    return found


@with_store
async def test_a_copy_has_every_node_once_parents_first(store):
    await fill(store)
    found = await copied(store)
    paths = [node.path for node in found]
    assert len(set(paths)) == len(paths)
    lasting = {node.path: (node.version, node.data) for node in found if not node.ephemeral and node.path != "/"}
    assert lasting == await read_tree(store)
    assert [node.path for node in found if node.ephemeral] == ["/managed-ledgers/live"]
    for path in paths[1:]:
        parent = path.rpartition("/")[0]
        assert parent in ("", *paths[: paths.index(path)])


@with_store
async def test_ledgers_that_are_open_are_copied_as_they_are_after_the_topics(store):
    await fill(store)
    ledgers = LedgerStore(store)
    grown = replace(METADATA, segments=(*METADATA.segments, Segment(5, ("127.0.0.1:2",))))

    class ChangedMeanwhile:
        """A reader of a tree whose ledgers change when the ledgers have been read and the topics are not."""

        def __getattr__(self, name):
            return getattr(store, name)

        async def get_many(self, paths):
            if "/managed-ledgers" in paths:
                await ledgers.put(0, grown, 0)
                await ledgers.delete(1)
            return await store.get_many(paths)

    found = {node.path: node.data for node in await copied(ChangedMeanwhile())}
    assert decode_ledger_metadata(found["/ledgers/00/0000/L0000"]).segments == grown.segments
    assert decode_ledger_metadata(found["/ledgers/00/0000/L0001"]).segments == METADATA.segments


@with_store
async def test_a_restore_reverts_changes_and_removals_and_nothing_else(store):
    await fill(store)
    nodes = await copied(store)
    before = await read_tree(store)
    await store.put("/admin", b"changed", 0)
    await store.delete("/managed-ledgers/t/n/persistent/x")
    await store.create("/new", b"")
    plan = await plan_restore(store, nodes)
    assert plan.paths(RestoreAction.CHANGE) == ["/admin"]
    assert plan.paths(RestoreAction.CREATE) == ["/managed-ledgers/t/n/persistent/x"]
    assert plan.paths(RestoreAction.KEEP) == ["/new"]
    await restore(store, plan, lambda: nodes)
    after = await read_tree(store)
    assert {path: data for path, (_, data) in after.items()} == {path: data for path, (_, data) in before.items()} | {
        "/new": b""
    }
    again = await plan_restore(store, nodes, remove=True)
    assert [(step.path, step.action) for step in again.steps] == [("/new", RestoreAction.REMOVE)]
    await restore(store, again, lambda: nodes)
    assert not (await plan_restore(store, nodes, remove=True)).pending


@with_store
async def test_a_topic_of_which_only_a_cursor_is_restored_is_written_unchanged(store):
    """Else an owner that was frozen for longer than its session would trim what the cursor needs."""
    await fill(store)
    topic, other = "/managed-ledgers/t/n/persistent/x", "/managed-ledgers/t/n/persistent/y"
    await store.create(other, b"other")
    for path in (f"{topic}/one", f"{topic}/two", f"{other}/one"):
        await store.create(path, b"then")
    nodes = await copied(store)
    await store.put(f"{topic}/one", b"now", 0)
    await store.delete(f"{topic}/two")
    plan = await plan_restore(store, nodes)
    assert (plan.paths(RestoreAction.CHANGE), plan.paths(RestoreAction.FENCE)) == ([f"{topic}/one"], [topic])
    await restore(store, plan, lambda: nodes)
    after = await read_tree(store)
    assert (after[topic], after[other]) == ((1, b"topic"), (0, b"other"))
    assert not (await plan_restore(store, nodes)).pending


@with_store
async def test_the_record_of_a_ledger_goes_forward_only(store):
    await fill(store)
    ledgers, nodes = LedgerStore(store), await copied(store)
    grown = replace(METADATA, segments=(*METADATA.segments, Segment(5, ("127.0.0.1:2",))))
    await ledgers.put(0, grown, 0)
    later, path = await copied(store), "/ledgers/00/0000/L0000"
    plan = await plan_restore(store, nodes)
    assert [(step.path, step.action) for step in plan.steps] == [(path, RestoreAction.NEWER)]
    assert (plan.pending, plan.touched) == (False, [])
    await ledgers.put(0, replace(METADATA, segments=(Segment(0, ("127.0.0.1:3",)),)), 1)  # an earlier restore's mistake
    plan = await plan_restore(store, later)
    assert plan.paths(RestoreAction.CHANGE) == [path]
    await restore(store, plan, lambda: later)
    assert (await ledgers.read(0))[0].segments == grown.segments


@with_store
async def test_ephemeral_nodes_and_counters_are_left_alone(store):
    await fill(store)
    nodes = [BackupNode("/managed-ledgers/dead", b"", 0, ephemeral=True)]
    plan = await plan_restore(store, nodes, remove=True)
    assert plan.skipped == 1
    assert "/managed-ledgers" in plan.paths(RestoreAction.KEEP)  # a live node is in it
    assert "/ledgers/idgen" in plan.paths(RestoreAction.KEEP)
    assert "/admin" in plan.paths(RestoreAction.REMOVE)


@with_store
async def test_part_of_a_tree_is_restored_into_an_empty_one(store):
    nodes = [
        BackupNode("/managed-ledgers/t/n/persistent/x", b"topic", 4),
        BackupNode("/managed-ledgers/t/n/persistent/x/one", b"cursor", 4),
        BackupNode("/other", b"", 0),
    ]
    plan = await plan_restore(store, nodes, "/managed-ledgers/t")
    await restore(store, plan, lambda: nodes)
    found = await read_tree(store)
    assert found["/managed-ledgers/t/n/persistent/x"] == (0, b"topic")
    assert found["/managed-ledgers/t/n/persistent/x/one"] == (0, b"cursor")
    assert "/other" not in found


@with_store
async def test_bookies_know_their_cluster_only_when_every_ledger_is_restored(store):
    await fill(store)
    ledger = next(node for node in await copied(store) if node.path == "/ledgers/00/0000/L0001")
    more = [replace(ledger, path=f"/ledgers/00/0000/L{number:04d}") for number in range(10, 10 + BATCH_OPERATIONS)]
    nodes = [*await copied(store), *more]
    for path in sorted(await read_tree(store), reverse=True):
        if path.startswith("/ledgers"):
            await store.delete(path)

    def interrupt(count):
        if count == BATCH_OPERATIONS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore(store, await plan_restore(store, nodes), lambda: nodes, interrupt)
    assert await store.exists(ledger.path) is not None
    assert await store.exists(more[-1].path) is None
    with pytest.raises(NodeNotFound, match="INSTANCEID"):
        await instance_id(store)
    await restore(store, await plan_restore(store, nodes), lambda: nodes)
    assert await store.exists(more[-1].path) is not None
    assert (await instance_id(store)).encode() == next(node.data for node in nodes if node.path == INSTANCE_ID)


@with_store
async def test_bookies_do_not_know_their_cluster_while_ledgers_are_restored_into_its_tree(store):
    await fill(store)
    nodes = await copied(store)
    before = await instance_id(store)
    await LedgerStore(store).delete(1)

    def interrupt(count):
        raise KeyboardInterrupt

    plan = await plan_restore(store, nodes)
    assert plan.paths(RestoreAction.CREATE) == ["/ledgers/00/0000/L0001"]
    with pytest.raises(KeyboardInterrupt):
        await restore(store, plan, lambda: nodes, interrupt)
    with pytest.raises(NodeNotFound, match="INSTANCEID"):
        await instance_id(store)
    await restore(store, await plan_restore(store, nodes), lambda: nodes)
    assert await instance_id(store) == before
    assert await store.exists("/ledgers/00/0000/L0001") is not None


@with_store
async def test_ledger_ids_continue_above_those_of_the_backup(store):
    ledgers = LedgerStore(store)
    nodes: list[BackupNode] = []
    await initialize(store)
    await ledgers.next_id_above(76)
    await ledgers.create(77, METADATA)
    await ledgers.next_id()
    nodes = [node for node in await copied(store, "/ledgers") if "/idgen" not in node.path]
    await ledgers.delete(77)
    plan = await plan_restore(store, nodes)
    assert plan.ids_above == 10_077
    await restore(store, plan, lambda: nodes)
    assert 10_077 < await LedgerStore(store).next_id() < FIRST_LONG_ID
    assert (await ledgers.read(77))[0].segments == METADATA.segments


@with_store
async def test_where_the_counter_was_lost_no_id_comes_that_it_may_have_given_out_since_the_backup(store):
    ledgers = LedgerStore(store)
    await initialize(store)
    await ledgers.create(77, METADATA)
    nodes = await copied(store, "/ledgers")
    await ledgers.delete(77)
    await restore(store, await plan_restore(store, nodes), lambda: nodes)
    assert await LedgerStore(store).next_id() >= FIRST_LONG_ID


@with_store
async def test_a_counter_is_never_moved_back_and_with_a_large_gap_the_long_ids_begin(store):
    ledgers = LedgerStore(store)
    await initialize(store)
    await raise_ledger_ids(store, 500, -1)
    assert 500 < await ledgers.next_id() < FIRST_LONG_ID
    here = await ledgers.next_id()
    await raise_ledger_ids(store, 10, 5)
    assert await ledgers.next_id() > here
    await raise_ledger_ids(store, 2_000_000_000, 5)
    assert await LedgerStore(store).next_id() > 2_000_000_000
    await raise_ledger_ids(store, (5 << 32) + 7, 5 << 32)
    assert await LedgerStore(store).next_id() >= 6 << 32


@with_store
async def test_live_owners_are_found_by_the_paths_that_a_restore_touches(store):
    await initialize(store)
    await store.create("/ledgers/available/b:1", b"", ephemeral=True, parents=True)
    await store.create("/mledger/owners/x", b"", ephemeral=True, parents=True)
    assert [str(live) for live in await find_live(store, ["/ledgers/00/0000/L0001"])] == [
        "a live bookie (/ledgers/available/b:1)"
    ]
    assert [str(live) for live in await find_live(store, ["/managed-ledgers"])] == ["a live owner (/mledger/owners/x)"]
    assert await find_live(store, []) == []


def test_ledgers_in_a_store_of_their_own_are_copied_and_restored_there():
    async def main():
        async with await open_store("memory:backup-topics?ledgers=memory:backup-ledgers") as store:
            await fill(store)
            nodes, before = await copied(store), await read_tree(store)
        async with await open_store("memory:other-topics?ledgers=memory:other-ledgers") as empty:
            await restore(empty, await plan_restore(empty, nodes), lambda: nodes)
            after = await read_tree(empty)
        async with await open_store("memory:other-ledgers") as ledgers:
            assert await ledgers.exists("/ledgers/00/0000/L0001") is not None
        return tuple(
            {path: data for path, (_, data) in tree.items() if not is_counter(path)} for tree in (before, after)
        )

    before, after = run(main())
    assert before == after


def test_access_control_lists_are_copied_and_restored(metadata_url):
    acl = ("world:anyone:r", "digest:me:ZGlnZXN0:crwda")

    async def main():
        async with await open_store(metadata_url) as store:
            await store.multi([Create("/closed", b"x", acl=("ip:127.0.0.1:crwda",))])
            assert await store.acl_many(["/closed", "/none"]) == [("ip:127.0.0.1:crwda",), ()]
            nodes = [BackupNode("/mine", b"y", 3, acl)]
            await restore(store, await plan_restore(store, nodes), lambda: nodes)
            assert [node.acl for node in await copied(store, "/closed")] == [("ip:127.0.0.1:crwda",)]
            (found,) = await store.acl_many(["/mine"])
            assert found[0] == acl[0]
            assert found[1].startswith("digest:me:")

    run(main())


@with_store
async def test_a_large_node_after_small_ones_is_restored(store):
    """Together they pass the limit of one request; each alone does not."""
    nodes = [BackupNode("/small", b"s" * 200_000, 0), BackupNode("/large", b"l" * 1_000_000, 0)]
    await restore(store, await plan_restore(store, nodes), lambda: nodes)
    assert await read_tree(store) == {node.path: (0, node.data) for node in nodes}
