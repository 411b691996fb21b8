"""Records of ledgers between two versions of an owner's list, and what a replay does with them (R10)."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from mledger.admin.repair.repair_plan import RepairPlan
from mledger.admin.repair.repairer import repair
from mledger.bookie.client.client import BookKeeper
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.orphans.orphan_cleanup import Claimant, OrphanCleanup, replay
from mledger.ledgers.orphans.pending_records import (
    claim_deletion,
    deletion_record,
    ensure_folders,
    listed,
    listed_again,
    owned_ledgers,
    pending_record,
    read_records,
)
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion, NodeNotFound
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from mledger.metastore.records.paths import cursor_path, deletion_path, managed_ledger_path
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from mledger.metastore.write_verification import multi_own
from tests.support.aio import run

NAME, OTHER, GONE = "t/n/persistent/topic", "t/n/persistent/other", "t/n/persistent/gone"


class Scene:
    """A store with ledger metadata, topics and records."""

    def __init__(self, store) -> None:
        self.store = store
        self.ledgers = LedgerStore(store)
        self.bookkeeper = BookKeeper(store)

    async def topic(self, name: str, *ledgers: int) -> None:
        info = ManagedLedgerInfo(tuple(map(LedgerInfo, ledgers)))
        await self.store.create(managed_ledger_path(name), encode_managed_ledger_info(info), parents=True)

    async def cursor(self, name: str, cursor: str, ledger_id: int) -> None:
        record = ManagedCursorInfo(cursors_ledger_id=ledger_id)
        await self.store.create(cursor_path(name, cursor), encode_managed_cursor_info(record))

    async def made(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            await self.ledgers.create(ledger_id, LedgerMetadata(1, 1, 1, (Segment(0, ("b:1",)),)))

    async def pending(self, ledger_id: int, name: str = NAME) -> None:
        await self.store.multi([pending_record(ledger_id, name)])

    async def deletion(self, ledger_id: int, name: str = NAME) -> None:
        await self.store.multi([deletion_record(ledger_id, name)])

    async def claimant(self, *, in_hand=(), on_step=lambda _: None) -> Claimant:
        return Claimant(await TopicRecord.read(self.store, NAME), in_hand, on_step)

    async def replay(self, in_hand=()) -> list[int]:
        return await replay(self.bookkeeper, self.store, {NAME: await self.claimant(in_hand=in_hand)})

    async def existing(self) -> list[int]:
        return [ledger_id async for page in self.ledgers.list() for ledger_id in page]


@asynccontextmanager
async def scene():
    async with await open_store("memory:") as store:
        await ensure_folders(store)
        await ensure_folders(store)
        made = Scene(store)
        yield made
        await made.bookkeeper.close()


def test_a_listed_ledger_only_loses_its_record():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1, 2)
            await it.cursor(NAME, "sub", 3)
            await it.made(1, 2, 3)
            await it.pending(2)
            await it.pending(3)
            await it.deletion(1)
            assert await owned_ledgers(it.store, NAME) == {1, 2, 3}
            assert await it.replay() == []
            assert await it.existing() == [1, 2, 3]
            assert await read_records(it.store) == []

    run(main())


def test_an_unlisted_ledger_is_deleted_with_its_record():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2, 3)
            await it.pending(2)
            await it.deletion(3)
            await it.deletion(4)  # its ledger is gone already
            assert await it.replay() == [2, 3]
            assert await it.existing() == [1]
            assert await read_records(it.store) == []

    run(main())


def test_ledgers_under_creation_are_left_alone():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2)
            await it.pending(2)
            assert await it.replay(in_hand={2}) == []
            assert [record.ledger_id for record in await read_records(it.store)] == [2]

    run(main())


def test_another_topic_s_records_belong_to_its_owner_and_a_deleted_topic_s_to_anyone():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.topic(OTHER)
            await it.made(1, 2, 3)
            await it.pending(2, OTHER)
            await it.deletion(3, GONE)
            assert await it.replay() == [3]
            assert await it.existing() == [1, 2]
            assert [record.managed_ledger for record in await read_records(it.store)] == [OTHER]

    run(main())


def test_nothing_is_deleted_while_a_cursor_s_record_cannot_be_read():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.store.create(cursor_path(NAME, "sub"), b"\xff\xff")
            await it.made(1, 2)
            await it.deletion(2)
            assert await it.replay() == []
            assert await it.existing() == [1, 2]
            assert len(await read_records(it.store)) == 1

    run(main())


def test_an_owner_that_lost_the_topic_claims_nothing():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2)
            await it.pending(2)
            former = await it.claimant()
            await it.store.put(managed_ledger_path(NAME), encode_managed_ledger_info(ManagedLedgerInfo()), 0)
            assert await replay(it.bookkeeper, it.store, {NAME: former}) == []
            assert await it.existing() == [1, 2]
            assert len(await read_records(it.store)) == 1

    run(main())


def test_a_ledger_listed_while_a_replay_is_delayed_is_not_deleted():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2)
            await it.pending(2)
            store = it.store

            def list_it(step):
                if step == "finish deletion":
                    store.listing = asyncio.ensure_future(multi_own(store, [listed(2)]))

            held_up = await it.claimant(on_step=list_it)
            assert await replay(it.bookkeeper, store, {NAME: held_up}) in ([], [2])
            try:
                await store.listing
            except NodeNotFound:
                assert await it.existing() == [1]  # the replay came first, and the listing was refused
            else:
                assert await it.existing() == [1, 2]

    run(main())


def test_a_claimed_ledger_is_deleted_by_the_next_replay():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2)
            await it.pending(2)

            class Crash(Exception):
                pass

            def crash(step):
                if step == "leftover claimed":
                    raise Crash

            with pytest.raises(Crash):
                await replay(it.bookkeeper, it.store, {NAME: await it.claimant(on_step=crash)})
            assert await it.existing() == [1, 2]
            with pytest.raises(NodeNotFound):
                await multi_own(it.store, [listed(2)])
            assert await it.replay() == [2]
            assert await read_records(it.store) == []

    run(main())


def test_either_a_deletion_is_claimed_or_the_ledger_is_listed_again():
    async def main():
        async with scene() as it:
            await it.deletion(2)
            await it.deletion(3)
            assert await claim_deletion(it.store, 2, NAME)
            with pytest.raises(BadVersion):
                await it.store.multi([listed_again(2)])
            assert await claim_deletion(it.store, 2, NAME)  # to finish what another began
            await it.store.multi([listed_again(3)])
            assert not await claim_deletion(it.store, 3, NAME)

    run(main())


def test_the_owner_that_dropped_a_ledger_does_not_delete_it_once_its_record_was_withdrawn():
    async def main():
        async with scene() as it:
            await it.made(1, 2)
            await it.deletion(1)
            factory = LedgerFactory(it.bookkeeper, it.store, NAME, ManagedLedgerConfig())
            await factory.delete(1)
            await factory.delete(2)
            assert await it.existing() == [2]

    run(main())


@pytest.mark.parametrize("name", [NAME, GONE])
def test_a_listing_before_a_claim_is_seen_by_the_claimant(name, monkeypatch):
    async def main():
        async with scene() as it:
            if name == NAME:
                await it.topic(NAME, 1)
            await it.made(1, 2, 3)
            await it.deletion(2, name)
            await it.deletion(3, OTHER)
            claimant = await it.claimant() if name == NAME else None

            async def list_it():  # like `metadata restore`, which knows no records
                info = encode_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(1), LedgerInfo(2))))
                if claimant is None:
                    await it.store.create(managed_ledger_path(name), info, parents=True)
                else:
                    await it.store.put(managed_ledger_path(name), info, 0)

            monkeypatch.setattr(it.store, "sync", list_it)
            owners = {} if claimant is None else {name: claimant}
            assert await replay(it.bookkeeper, it.store, owners) == [3]
            assert await it.existing() == [1, 2]

    run(main())


@pytest.mark.parametrize("again", [True, False])
def test_a_repair_leaves_an_orphan_that_was_listed_since(again, monkeypatch):
    async def main():
        async with scene() as it:
            await it.made(1, 2)

            async def list_it():
                if again:
                    await it.topic(GONE, 2)

            monkeypatch.setattr(it.store, "sync", list_it)
            plan = RepairPlan(GONE, None, None, (), (), (1, 2), (1, 2), (), ())
            await repair(plan, it.store, it.bookkeeper)
            assert await it.existing() == ([2] if again else [])
            assert await read_records(it.store) == []

    run(main())


def test_topics_that_ask_during_a_round_share_the_next(monkeypatch):
    async def main():
        async with scene() as it:
            names = [f"t/n/persistent/topic-{number}" for number in range(5)]
            for number, name in enumerate(names):
                await it.topic(name)
                await it.made(number)
                await it.pending(number, name)
            rounds = []
            children_many = it.store.children_many

            async def counted(paths):
                rounds.append(paths)
                return await children_many(paths)

            monkeypatch.setattr(it.store, "children_many", counted)
            replayer = OrphanCleanup(it.bookkeeper, it.store)
            claimants = [Claimant(await TopicRecord.read(it.store, name), ()) for name in names]
            first = asyncio.ensure_future(replayer.replay(claimants[0]))
            await asyncio.sleep(0)
            await asyncio.gather(first, *map(replayer.replay, claimants[1:]))
            assert await it.existing() == []
            assert len(rounds) == 2

    run(main())


@pytest.mark.parametrize("damaged", [b"", b"t//topic", b"t/n/persistent/\xff\xfe"])
def test_a_record_without_a_managed_ledger_is_kept_and_does_not_stop_the_others(damaged):
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2, 3, 4)
            await it.store.create(deletion_path(2), damaged)
            await it.deletion(3)
            await it.pending(4, GONE)
            assert await it.replay() == [3, 4]
            assert await it.existing() == [1, 2]
            assert [(each.ledger_id, each.managed_ledger) for each in await read_records(it.store)] == [(2, "")]

    run(main())
