"""Owner nodes: created again in the next session unless another owner has come, and removed in the end (M7, M9)."""

import asyncio
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from mledger.errors import ManagedLedgerFenced
from mledger.ledgers import ownership
from mledger.ledgers.orphans.pending_records import ensure_folders
from mledger.ledgers.ownership import OwnerNodes, Ownership
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import managed_ledger_path, owner_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.store import MetadataStore
from mledger.metastore.url import open_store
from tests.support.aio import run

NAME = "t/n/persistent/topic"
RECORD, OWNER = managed_ledger_path(NAME), owner_path(NAME)


@dataclass
class Renewed:
    """The state of an owner whose first session has ended: the next session, and what it knows of its topic."""

    before: MetadataStore
    store: MetadataStore
    ownership: Ownership
    record: TopicRecord
    data: bytes

    async def reclaim(self):
        """Create the owner's node again, in the next session."""
        await self.ownership.reclaim(self.record)

    async def shown(self):
        """The data of the owner node, or None if it does not exist."""
        try:
            return (await self.store.get(OWNER)).data
        except NodeNotFound:
            return None


@asynccontextmanager
async def renewed(*, node_left=False):
    """An owner in its next session. With `node_left` its server still shows the node of the session before."""
    url = f"memory:{uuid.uuid4().hex}"
    async with await open_store(url) as before, await open_store(url) as store:
        await ensure_folders(store)
        await store.create(RECORD, encode_managed_ledger_info(ManagedLedgerInfo(())), parents=True)
        data = (await before.get((await Ownership.claim(before, NAME, OwnerNodes())).path)).data
        if not node_left:
            await before.delete(OWNER)
        yield Renewed(before, store, Ownership(store, NAME, OWNER, data), await TopicRecord.read(store, NAME), data)


@pytest.fixture(autouse=True)
def no_delays(monkeypatch):
    monkeypatch.setattr(ownership, "RECLAIM_FIRST_S", 0.0)


def test_an_owner_retries_until_the_store_is_back(monkeypatch):
    async def main():
        async with renewed() as owner:
            multi, tries = owner.store.multi, []

            async def away(operations):
                tries.append(operations)
                if len(tries) < 3:
                    raise StoreUnavailable("no server could be reached", OWNER)
                return await multi(operations)

            monkeypatch.setattr(owner.store, "multi", away)
            await owner.reclaim()
            assert await owner.shown() == owner.data
            assert len(tries) == 3

    run(main())


def test_a_node_of_the_session_before_is_replaced():
    """It would vanish when the server ends that session."""

    async def main():
        async with renewed(node_left=True) as owner:
            await owner.reclaim()
            await owner.before.close()
            assert await owner.shown() == owner.data

    run(main())


def test_a_node_created_without_an_answer_is_not_created_again(monkeypatch):
    async def main():
        async with renewed() as owner:
            multi, tries = owner.store.multi, []

            async def unheard(operations):
                tries.append(operations)
                await multi(operations)
                if len(tries) == 1:
                    raise StoreUnavailable("the answer was lost", OWNER)

            monkeypatch.setattr(owner.store, "multi", unheard)
            await owner.reclaim()
            assert await owner.shown() == owner.data
            assert len(tries) == 1

    run(main())


def test_an_owner_stops_if_another_has_its_node():
    async def main():
        async with renewed() as owner:
            await Ownership.claim(owner.before, NAME, OwnerNodes())
            others = await owner.shown()
            with pytest.raises(ManagedLedgerFenced, match="another owner has it"):
                await owner.reclaim()
            assert await owner.shown() == others

    run(main())


def test_an_owner_stops_if_another_wrote_the_record_and_left():
    async def main():
        async with renewed() as owner:
            await owner.before.put(RECORD, (await owner.before.get(RECORD)).data, owner.record.version)
            with pytest.raises(ManagedLedgerFenced, match="another owner wrote it"):
                await owner.reclaim()
            assert await owner.shown() is None

    run(main())


def test_an_owner_stops_if_another_writes_the_record_just_before_the_node_is_created(monkeypatch):
    async def main():
        async with renewed() as owner:
            multi = owner.store.multi

            async def late(operations):
                monkeypatch.setattr(owner.store, "multi", multi)
                await owner.before.put(RECORD, (await owner.before.get(RECORD)).data, owner.record.version)
                return await multi(operations)

            monkeypatch.setattr(owner.store, "multi", late)
            with pytest.raises(ManagedLedgerFenced, match="another owner wrote it"):
                await owner.reclaim()
            assert await owner.shown() is None

    run(main())


@asynccontextmanager
async def store_away(monkeypatch):
    """A store, and a list: while it is not empty, the store does not answer who asks for a node."""
    async with await open_store(f"memory:{uuid.uuid4().hex}") as store:
        await ensure_folders(store)
        get, away = store.get, []

        async def get_unless_away(path):
            if away:
                raise StoreUnavailable("no server could be reached", path)
            return await get(path)

        monkeypatch.setattr(store, "get", get_unless_away)
        yield store, away


async def removed(store):
    """Return when the owner node is gone."""
    async with store.watch(OWNER) as changes:
        while await store.exists(OWNER) is not None:
            await anext(changes)


def test_the_node_of_a_topic_closed_while_the_store_was_away_is_removed_when_it_is_back(monkeypatch):
    async def main():
        async with store_away(monkeypatch) as (store, away):
            nodes = OwnerNodes()
            claimed = await Ownership.claim(store, NAME, nodes)
            away.append(True)
            await nodes.release(claimed)
            assert await store.exists(OWNER) is not None
            away.clear()
            await removed(store)

    run(main())


def test_a_node_created_by_a_claim_that_was_not_answered_is_removed_when_the_store_is_back(monkeypatch):
    async def main():
        async with store_away(monkeypatch) as (store, away):
            multi = store.multi

            async def unheard(operations):
                await multi(operations)
                away.append(True)
                raise StoreUnavailable("the answer was lost", OWNER)

            monkeypatch.setattr(store, "multi", unheard)
            with pytest.raises(StoreUnavailable):
                await Ownership.claim(store, NAME, OwnerNodes())
            assert await store.exists(OWNER) is not None
            away.clear()
            await removed(store)

    run(main())


def test_a_node_that_a_lagging_server_does_not_know_yet_is_removed(monkeypatch):
    async def main():
        async with await open_store(f"memory:{uuid.uuid4().hex}") as store:
            await ensure_folders(store)
            get, multi, sync, lags = store.get, store.multi, store.sync, [True]

            async def unheard(operations):
                await multi(operations)
                raise StoreUnavailable("the answer was lost", OWNER)

            async def get_unless_new(path):
                if lags:
                    raise NodeNotFound(f"{path} does not exist", path)
                return await get(path)

            async def follow():
                lags.clear()
                await sync()

            monkeypatch.setattr(store, "multi", unheard)
            monkeypatch.setattr(store, "get", get_unless_new)
            monkeypatch.setattr(store, "sync", follow)
            with pytest.raises(StoreUnavailable):
                await Ownership.claim(store, NAME, OwnerNodes())
            assert await store.exists(OWNER) is None

    run(main())


def test_the_node_of_the_next_owner_stays_although_an_earlier_one_is_still_to_be_released(monkeypatch):
    async def main():
        async with store_away(monkeypatch) as (store, away):
            nodes = OwnerNodes()
            first = await Ownership.claim(store, NAME, nodes)
            second = await Ownership.claim(store, NAME, nodes)
            away.append(True)
            await nodes.release(first)
            away.clear()
            while nodes.retrying:
                await asyncio.sleep(0)
            assert await second.lost_to() is None
            assert await store.exists(OWNER) is not None

    run(main())
