"""Ledger ids and metadata over every store: unique ids, compare-and-set, listings that are whole or fail."""

import pytest
from msgspec import structs

from mledger.metastore.cluster.ledgers import LedgerStore, LedgerStoreReader
from mledger.metastore.errors import BadVersion, InvalidName, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import FIRST_LONG_ID, MAX_LEDGER_ID, ledger_path, pending_path
from mledger.metastore.store import Create
from tests.support.metadata.stores import with_store, with_two_stores

OPEN = LedgerMetadata(1, 1, 1, (Segment(0, ("bookie-1:3181",)),))
CLOSED = structs.replace(OPEN, state=LedgerState.CLOSED, last_entry=4, length=50)


async def listed(ledgers):
    return [page async for page in ledgers.list()]


@with_store
async def test_ids_rise_and_leave_no_node_behind(store):
    ledgers = LedgerStore(store)
    assert [await ledgers.next_id() for _ in range(3)] == [0, 1, 2]
    assert await store.children("/ledgers/idgen") == []


@with_two_stores
async def test_two_clients_never_draw_the_same_id(one, other):
    first, second = LedgerStore(one), LedgerStore(other)
    drawn = [await ledgers.next_id() for _ in range(5) for ledgers in (first, second)]
    assert len(set(drawn)) == 10


@with_store
async def test_after_the_first_long_id_only_long_ids_are_drawn(store):
    await store.create("/ledgers/idgen-long", parents=True)
    ledgers = LedgerStore(store)
    assert [await ledgers.next_id() for _ in range(2)] == [(1 << 32), (1 << 32) + 1]
    assert await store.exists("/ledgers/idgen") is None


@with_store
async def test_long_ids_continue_in_the_highest_directory(store):
    for high in ("HOB-0000000001", "HOB-0000000007", "other"):
        await store.create(f"/ledgers/idgen-long/{high}", parents=True)
    assert await LedgerStore(store).next_id() == 7 << 32


@with_store
async def test_metadata_is_created_read_replaced_and_deleted(store):
    ledgers = LedgerStore(store)
    assert await ledgers.create(7, OPEN) == 0
    created, version = await ledgers.read(7)
    assert structs.replace(created, c_token=0) == OPEN
    assert created.c_token
    assert version == 0
    assert await ledgers.put(7, CLOSED, 0) == 1
    assert await ledgers.read(7) == (CLOSED, 1)
    await ledgers.delete(7, 1)
    with pytest.raises(NodeNotFound):
        await ledgers.read(7)


@with_store
async def test_an_existing_ledger_is_not_created_again(store):
    ledgers = LedgerStore(store)
    await ledgers.create(7, OPEN)
    with pytest.raises(NodeExists):
        await ledgers.create(7, OPEN)


@with_store
async def test_an_outdated_version_is_a_conflict(store):
    ledgers = LedgerStore(store)
    await ledgers.create(7, OPEN)
    await ledgers.put(7, structs.replace(OPEN, ctime=5), 0)
    with pytest.raises(BadVersion):
        await ledgers.put(7, CLOSED, 0)
    with pytest.raises(BadVersion):
        await ledgers.delete(7, 0)
    assert (await ledgers.read(7))[1] == 1


@with_store
async def test_a_ledger_and_its_record_are_created_together_or_not_at_all(store):
    ledgers = LedgerStore(store)
    await ledgers.create(7, OPEN, [Create(pending_path(7), b"t/ns/persistent/x")])
    assert (await store.get(pending_path(7))).data == b"t/ns/persistent/x"
    with pytest.raises(NodeExists):
        await ledgers.create(8, OPEN, [Create(pending_path(7), b"t/ns/persistent/x")])
    assert await store.exists(ledger_path(8)) is None


@with_store
async def test_contradictory_metadata_is_refused_before_anything_is_written(store):
    ledgers = LedgerStore(store)
    await store.create("/ledgers")
    with pytest.raises(RecordError):
        await ledgers.create(7, structs.replace(OPEN, ack_quorum=2))
    with pytest.raises(InvalidName):
        await ledgers.create(-7, OPEN)
    assert await store.children("/ledgers") == []


@with_store
async def test_many_are_read_at_once_and_a_missing_one_is_none(store):
    ledgers = LedgerStore(store)
    await ledgers.create(7, OPEN)
    await ledgers.create(FIRST_LONG_ID, OPEN)
    found = await ledgers.read_many([FIRST_LONG_ID, 8, 7])
    assert [each and each[1] for each in found] == [0, None, 0]


@with_store
async def test_a_listing_has_every_ledger_in_order_and_nothing_else(store):
    ledgers = LedgerStore(store)
    ids = [0, 3, 9999, 10000, 123456789, FIRST_LONG_ID - 1, FIRST_LONG_ID, 5_000_000_000, MAX_LEDGER_ID]
    for ledger_id in reversed(ids):
        await ledgers.create(ledger_id, OPEN)
    for name in ("LAYOUT", "INSTANCEID", "available", "cookies", "underreplication"):
        await store.create(f"/ledgers/{name}")
    await ledgers.next_id()
    pages = await listed(LedgerStoreReader(store))
    assert [ledger_id for page in pages for ledger_id in page] == ids
    assert all(pages)


@with_store
async def test_a_cluster_without_ledgers_lists_none(store):
    await store.create("/ledgers")
    assert await listed(LedgerStoreReader(store)) == []


@with_store
async def test_a_listing_without_a_cluster_fails(store):
    with pytest.raises(NodeNotFound):
        await listed(LedgerStoreReader(store))


@pytest.mark.parametrize("stranger", ["/ledgers/00/0000/what", "/ledgers/000/0000/0000/0000/L0001"])
def test_a_listing_leaves_out_a_node_that_is_no_ledger_and_names_it(any_metadata_url, stranger):
    @with_store
    async def check(store):
        await LedgerStore(store).create(3, OPEN)
        await store.create(stranger, parents=True)
        strange = []
        found = [ledger async for page in LedgerStoreReader(store).list(strange) for ledger in page]
        assert (found, [error.path for error in strange]) == ([3], [stranger])

    check(any_metadata_url)


@with_store
async def test_a_listing_of_a_flat_cluster_fails(store):
    await LedgerStore(store).create(3, OPEN)
    await store.create("/ledgers/L0000000001")
    with pytest.raises(RecordError) as caught:
        await listed(LedgerStoreReader(store))
    assert caught.value.path == "/ledgers/L0000000001"


@with_store
async def test_deleting_removes_the_directories_it_leaves_empty(store):
    ledgers = LedgerStore(store)
    await ledgers.create(3, OPEN)
    await ledgers.create(10000, OPEN)
    await ledgers.delete(3)
    assert await store.children("/ledgers/00") == ["0001"]
    await ledgers.delete(10000)
    assert await store.children("/ledgers") == []
    with pytest.raises(NodeNotFound):
        await ledgers.delete(3)


@with_store
async def test_ledgers_missing_from_a_listing_are_found_by_their_directories(store):
    ledgers = LedgerStore(store)
    there = [1, 9_999, 10_000, FIRST_LONG_ID - 1, FIRST_LONG_ID, MAX_LEDGER_ID]
    for ledger in there:
        await ledgers.create(ledger, OPEN)
    asked = sorted({*there, 2, 10_001, 500_000_000, FIRST_LONG_ID + 1, MAX_LEDGER_ID - 1})
    assert await LedgerStoreReader(store).absent(asked) == [each for each in asked if each not in there]
    assert await LedgerStoreReader(store).absent([]) == []


@with_store
async def test_nothing_is_reported_absent_without_a_cluster_or_from_a_flat_one(store):
    with pytest.raises(NodeNotFound):
        await LedgerStoreReader(store).absent([1])
    await store.create("/ledgers/L0000000001", parents=True)
    with pytest.raises(RecordError):
        await LedgerStoreReader(store).absent([1])
