"""M7: a write whose answer is lost is verified before it counts as failed; another refusal is final."""

import pytest

from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.store import Check, Create, Delete, Put
from mledger.metastore.write_verification import ATTEMPTS, create_own, delete_own, multi_own, put_own
from tests.support.aio import run

OPEN = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie-1:3181",)),))


class LossyStore(MemoryStore):
    """A store whose connection breaks around a write: before it is carried out, or before the answer arrives."""

    carried_out = True
    losses = 0
    sent = 0
    meanwhile = None

    async def _lose(self, write):
        self.sent += 1
        if not self.losses:
            return await write()
        self.losses -= 1
        if self.carried_out:
            await write()
        if self.meanwhile:
            await self.meanwhile()
        raise StoreUnavailable("the connection broke")

    async def put(self, path, data, version):
        put = super().put
        return await self._lose(lambda: put(path, data, version))

    async def multi(self, operations):
        multi = super().multi
        return await self._lose(lambda: multi(operations))


def with_lossy_store(test):
    def call(*arguments):
        async def main():
            async with LossyStore() as store:
                await store.create("/node", b"old")
                await test(store, *arguments)

        run(main())

    call.__name__ = test.__name__
    return call


@with_lossy_store
async def test_a_put_whose_answer_is_lost_is_found_carried_out(store):
    store.losses = 1
    assert await put_own(store, "/node", b"new", 0) == 1
    assert store.sent == 1


@with_lossy_store
async def test_a_lost_put_is_sent_again(store):
    store.losses, store.carried_out = 1, False
    assert await put_own(store, "/node", b"new", 0) == 1
    assert (await store.get("/node")).version == 1


@with_lossy_store
async def test_a_write_lost_every_time_fails_after_a_few_attempts(store):
    store.losses, store.carried_out = 99, False
    with pytest.raises(StoreUnavailable):
        await put_own(store, "/node", b"new", 0)
    assert store.sent == ATTEMPTS
    assert (await store.get("/node")).data == b"old"


@with_lossy_store
async def test_a_put_lost_while_another_wrote_is_a_conflict(store):
    async def another():
        await MemoryStore.put(store, "/node", b"theirs", 0)

    store.losses, store.carried_out, store.meanwhile = 1, False, another
    with pytest.raises(BadVersion):
        await put_own(store, "/node", b"new", 0)
    assert (await store.get("/node")).data == b"theirs"


@with_lossy_store
async def test_a_put_carried_out_and_then_overwritten_is_a_conflict(store):
    async def another():
        await MemoryStore.put(store, "/node", b"theirs", 1)

    store.losses, store.meanwhile = 1, another
    with pytest.raises(BadVersion):
        await put_own(store, "/node", b"new", 0)


@with_lossy_store
async def test_our_own_bytes_one_version_up_are_our_write_once_an_answer_was_lost(store):
    store.losses, store.carried_out = 1, False

    async def another():
        await MemoryStore.put(store, "/node", b"new", 0)

    store.meanwhile = another
    assert await put_own(store, "/node", b"new", 0) == 1


@with_lossy_store
async def test_another_s_put_of_the_same_bytes_is_a_conflict_if_no_answer_was_lost(store):
    await store.put("/node", b"new", 0)
    with pytest.raises(BadVersion):
        await put_own(store, "/node", b"new", 0)


@with_lossy_store
async def test_another_s_multi_with_the_same_bytes_is_a_conflict_if_no_answer_was_lost(store):
    await store.create("/record", b"")
    operations = [Create("/made", b"x"), Delete("/record")]
    await store.multi(operations)
    with pytest.raises(NodeExists):
        await multi_own(store, operations)


@with_lossy_store
async def test_another_s_bytes_one_version_up_are_a_conflict(store):
    await store.put("/node", b"theirs", 0)
    with pytest.raises(BadVersion):
        await put_own(store, "/node", b"new", 0)


@with_lossy_store
async def test_a_deleted_node_is_not_found(store):
    with pytest.raises(NodeNotFound):
        await put_own(store, "/gone", b"new", 0)


@with_lossy_store
async def test_a_multi_whose_answer_is_lost_is_found_carried_out(store):
    await store.create("/record", b"")
    store.losses = 1
    operations = [Put("/node", b"new", 0), Create("/made", b"x"), Delete("/record", 0), Check("/made", 0)]
    assert await multi_own(store, operations) == [1, "/made", None, None]
    assert store.sent == 1


@with_lossy_store
async def test_a_multi_with_one_write_that_is_not_ours_was_not_carried_out(store):
    await store.create("/made", b"theirs")
    with pytest.raises(NodeExists):
        await multi_own(store, [Put("/node", b"new", 0), Create("/made", b"x")])
    assert (await store.get("/node")).data == b"old"


@with_lossy_store
async def test_a_deletion_alone_is_no_evidence(store):
    with pytest.raises(NodeNotFound):
        await multi_own(store, [Delete("/gone", 0)])


@with_lossy_store
async def test_nodes_that_are_gone_after_a_lost_answer_are_deleted(store):
    await store.create("/other", b"")
    store.losses = 1
    await delete_own(store, [Delete("/node", 0), Delete("/other")])
    assert (store.sent, await store.exists("/node"), await store.exists("/other")) == (1, None, None)


@with_lossy_store
async def test_a_lost_deletion_is_sent_again(store):
    store.losses, store.carried_out = 1, False
    await delete_own(store, [Delete("/node", 0)])
    assert (store.sent, await store.exists("/node")) == (2, None)


@with_lossy_store
async def test_a_node_that_was_changed_while_its_deletion_was_lost_stays(store):
    async def another():
        await MemoryStore.put(store, "/node", b"theirs", 0)

    store.losses, store.carried_out, store.meanwhile = 1, False, another
    with pytest.raises(BadVersion):
        await delete_own(store, [Delete("/node", 0)])


@with_lossy_store
async def test_a_deletion_is_not_sent_again_where_another_made_the_node_anew(store):
    async def make_anew():
        await MemoryStore.create(store, "/node", b"theirs")

    async def check_same():
        if (await store.get("/node")).data != b"old":
            raise NodeExists("made anew", "/node")

    store.losses, store.meanwhile = 1, make_anew
    with pytest.raises(NodeExists):
        await multi_own(store, [Delete("/node", 0)], gone_is_deleted=True, before_again=check_same)
    assert (await store.get("/node")).data == b"theirs"


@with_lossy_store
async def test_a_node_that_was_gone_before_is_not_found(store):
    with pytest.raises(NodeNotFound):
        await delete_own(store, [Delete("/gone")])


@with_lossy_store
async def test_where_deletions_tell_what_was_written_besides_may_have_gone_on(store):
    async def another():
        await store.delete("/made")

    store.losses, store.meanwhile = 1, another
    await multi_own(store, [Create("/made", b"x"), Delete("/node", 0)], gone_is_deleted=True)
    assert (store.sent, await store.exists("/node")) == (1, None)


@with_lossy_store
async def test_a_node_whose_creation_was_lost_is_found_with_its_folders(store):
    await create_own(store, "/a/b/c", b"x")
    store.losses = 1
    await create_own(store, "/a/b/d", b"y")
    assert [(await store.get(path)).data for path in ("/a", "/a/b", "/a/b/c", "/a/b/d")] == [b"", b"", b"x", b"y"]
    with pytest.raises(NodeExists):
        await create_own(store, "/a/b/d", b"y")


@with_lossy_store
async def test_a_sequential_node_is_refused(store):
    with pytest.raises(ValueError, match="sequential"):
        await multi_own(store, [Create("/node/ID-", sequential=True)])


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_ledger_whose_creation_was_lost_is_looked_up(carried_out):
    @with_lossy_store
    async def check(store):
        ledgers = LedgerStore(store)
        await ledgers.create(1, OPEN)
        store.losses, store.carried_out = 1, carried_out
        assert await ledgers.create(2, OPEN) == 0
        assert (await ledgers.read(2))[1] == 0

    check()


@with_lossy_store
async def test_another_s_ledger_with_the_same_bytes_is_not_taken_for_ours(store):
    ledgers = LedgerStore(store)
    await ledgers.create(2, OPEN)
    store.losses, store.carried_out = 1, False
    with pytest.raises(NodeExists):
        await ledgers.create(2, OPEN)
