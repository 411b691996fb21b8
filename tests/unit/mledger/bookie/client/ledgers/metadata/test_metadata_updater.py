"""Ledger metadata changed by compare-and-set while others change it too (M7), in a memory store."""

import asyncio
import itertools
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from mledger.bookie.client.ledgers.metadata.metadata_batches import MetadataUpdates
from mledger.bookie.client.ledgers.metadata.metadata_reads import MetadataReads
from mledger.bookie.client.ledgers.metadata.metadata_updater import MetadataUpdater
from mledger.bookie.client.plans.placement import with_ensemble
from mledger.bookie.errors import LedgerConflict, LedgerFenced, NoSuchLedger
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion, NodeNotFound, RecordError, StoreClosed, StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import run

numbers = itertools.count()
OPEN = LedgerMetadata(2, 2, 1, (Segment(0, ("a:1", "b:1")),))
CLOSED = replace(OPEN, state=LedgerState.CLOSED, last_entry=9, length=90)


@dataclass
class UpdatedLedgers:
    store: MetadataStore
    records: LedgerStore
    updates: MetadataUpdates

    async def held(self):
        """An open ledger, created by the updater under test."""
        version = await self.records.create(1, OPEN)
        return MetadataUpdater(self.updates, 1, OPEN, version, timeout_s=1.0)


def with_records(test):
    async def main():
        async with await open_store(f"memory:held-{next(numbers)}") as store:
            await initialize(store)
            records = LedgerStore(store)
            await test(UpdatedLedgers(store, records, MetadataUpdates(store, records)))

    def call():
        run(main())

    call.__name__, call.__doc__ = test.__name__, test.__doc__
    return call


def change(first, *bookies):
    return lambda metadata: with_ensemble(metadata, first, bookies)


@with_records
async def test_each_update_goes_one_version_up(world):
    mine = await world.held()
    await mine.update(change(5, "a:1", "c:1"))
    await mine.update(change(7, "d:1", "c:1"))
    found, version = await world.records.read(1)
    assert [segment.first_entry for segment in found.segments] == [0, 5, 7]
    assert (version, mine.version) == (2, 2)
    assert mine.metadata == found


@with_records
async def test_a_ledger_in_recovery_by_another_is_fenced(world):
    mine = await world.held()
    await world.records.put(1, replace(OPEN, state=LedgerState.IN_RECOVERY), 0)
    with pytest.raises(LedgerFenced, match="made it IN_RECOVERY"):
        await mine.update(change(5, "a:1", "c:1"))
    assert (await world.records.read(1))[1] == 1


@with_records
async def test_another_last_ensemble_is_a_conflict(world):
    mine = await world.held()
    await world.records.put(1, with_ensemble(OPEN, 3, ("x:1", "y:1")), 0)
    with pytest.raises(LedgerConflict, match="changed its last ensemble"):
        await mine.update(change(5, "a:1", "c:1"))


@with_records
async def test_an_update_whose_answer_was_lost_is_the_base_of_the_next(world):
    mine = await world.held()
    task = asyncio.create_task(mine.update(change(5, "a:1", "c:1")))
    await asyncio.sleep(0)  # the request is on its way
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    while (await world.records.read(1))[1] == 0:
        await asyncio.sleep(0)
    await mine.update(change(7, "d:1", "c:1"))
    found, _ = await world.records.read(1)
    assert found.segments[-1] == Segment(7, ("d:1", "c:1"))


@with_records
async def test_an_update_whose_answer_was_lost_is_known_again_though_an_earlier_ensemble_was_replicated(world):
    mine = await world.held()
    task = asyncio.create_task(mine.update(change(5, "a:1", "c:1")))
    await asyncio.sleep(0)  # the request is on its way
    task.cancel()
    await asyncio.wait([task])
    while (found := await world.records.read(1))[1] == 0:
        await asyncio.sleep(0)
    await world.records.put(1, replace(found[0], segments=(Segment(0, ("a:1", "x:1")), found[0].segments[-1])), 1)
    await mine.update(change(7, "d:1", "c:1"))
    segments = (await world.records.read(1))[0].segments
    assert segments == (Segment(0, ("a:1", "x:1")), Segment(5, ("a:1", "c:1")), Segment(7, ("d:1", "c:1")))


@with_records
async def test_an_update_that_the_store_never_answers_ends_and_is_the_base_of_the_next(world):
    mine = await world.held()
    carry_out = world.store.put

    async def put(*asked):
        await carry_out(*asked)
        await asyncio.get_running_loop().create_future()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "put", put)
        with pytest.raises(StoreUnavailable, match="did not carry out an update"):
            await mine.update(change(5, "a:1", "c:1"))
    await mine.update(change(7, "d:1", "c:1"))
    assert (await world.records.read(1))[0].segments[-1] == Segment(7, ("d:1", "c:1"))


@with_records
async def test_of_two_updates_that_the_store_never_answered_either_is_the_base_of_the_next(world):
    mine = await world.held()
    carry_out = world.store.put

    async def put(*asked):
        if asked[2] == 0 and mine.metadata is OPEN and not done:
            done.append(await carry_out(*asked))
        await asyncio.get_running_loop().create_future()

    done: list[int] = []
    closed = replace(OPEN, state=LedgerState.CLOSED, last_entry=4, length=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "put", put)
        for plan in (change(5, "a:1", "c:1"), lambda _: closed):
            with pytest.raises(StoreUnavailable, match="did not carry out an update"):
                await mine.update(plan)
    await mine.update(lambda metadata: replace(metadata, state=LedgerState.CLOSED, last_entry=4, length=9))
    found, _ = await world.records.read(1)
    assert (found.state, found.segments[-1]) == (LedgerState.CLOSED, Segment(5, ("a:1", "c:1")))


@with_records
async def test_an_update_that_could_not_be_looked_for_after_a_lost_answer_is_the_base_of_the_next(world):
    mine = await world.held()

    async def put(*asked):
        await world.records.put(*asked)  # refused when it is sent again: the first time it was carried out
        raise StoreUnavailable("the answer was lost")

    async def read(_):
        raise StoreUnavailable("the connection was lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.updates, "put", put)
        patch.setattr(world.updates, "read", read)
        with pytest.raises(StoreUnavailable, match="the connection was lost"):
            await mine.update(change(5, "a:1", "c:1"))
    await mine.update(change(7, "d:1", "c:1"))
    assert (await world.records.read(1))[0].segments[-1] == Segment(7, ("d:1", "c:1"))


@with_records
async def test_a_deleted_ledger_is_named(world):
    mine = await world.held()
    await world.records.delete(1)
    with pytest.raises(NoSuchLedger, match="was deleted"):
        await mine.update(change(5, "a:1", "c:1"))


@with_records
async def test_nothing_is_written_if_nothing_changes(world):
    mine = await world.held()
    assert await mine.update(lambda _: None) == OPEN
    assert (await world.records.read(1))[1] == 0


@with_records
async def test_an_endless_conflict_fails_after_a_while(world):
    mine = await world.held()

    def plan(metadata):
        mine.version += 1
        return with_ensemble(metadata, 5, ("a:1", "c:1"))

    with pytest.raises(LedgerConflict, match="faster than it can be written"):
        await mine.update(plan)


@with_records
async def test_each_update_of_one_turn_gets_its_own_answer(world):
    for ledger in range(250):
        await world.records.create(ledger, OPEN)
    await world.records.put(7, replace(OPEN, state=LedgerState.IN_RECOVERY), 0)
    await world.records.delete(8)
    results = await asyncio.gather(
        *(world.updates.put(ledger, CLOSED, 0) for ledger in range(250)), return_exceptions=True
    )
    assert results[:7] + results[9:] == [1] * 248
    assert [type(result) for result in results[7:9]] == [BadVersion, NodeNotFound]
    assert (await world.records.read(249))[0].state is LedgerState.CLOSED


@with_records
async def test_two_updates_of_one_ledger_in_one_turn_are_a_conflict(world):
    await world.records.create(1, OPEN)
    one, other = await asyncio.gather(
        world.updates.put(1, CLOSED, 0),
        world.updates.put(1, replace(OPEN, state=LedgerState.IN_RECOVERY), 0),
        return_exceptions=True,
    )
    assert one == 1
    assert isinstance(other, BadVersion)


@with_records
async def test_each_read_of_one_turn_gets_its_own_answer(world):
    await world.records.create(1, OPEN)
    await world.records.create(2, CLOSED)
    await world.records.create(3, OPEN)
    await world.store.put(ledger_path(3), b"damaged", 0)
    reads = MetadataReads(world.records)
    found = await asyncio.gather(*(reads.read(ledger) for ledger in (1, 2, 3, 4, 1)), return_exceptions=True)
    assert [result[0].state if isinstance(result, tuple) else type(result) for result in found] == [
        LedgerState.OPEN,
        LedgerState.CLOSED,
        RecordError,
        type(None),
        LedgerState.OPEN,
    ]


@with_records
async def test_a_closed_store_fails_every_update_and_read(world):
    await world.records.create(1, OPEN)
    await world.store.close()
    reads = MetadataReads(world.records)
    results = await asyncio.gather(
        reads.read(1), reads.read(2), world.updates.put(1, CLOSED, 0), return_exceptions=True
    )
    assert [type(result) for result in results] == [StoreClosed] * 3
