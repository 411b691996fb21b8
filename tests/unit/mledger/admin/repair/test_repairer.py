"""A repair reads what it decides about from a metadata store that may lag."""

from dataclasses import replace

import pytest

from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.admin.repair.repair_plan import TopicFacts, plan_repair
from mledger.admin.repair.repairer import FactsReader, repair
from mledger.bookie.client.client import BookKeeper
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.pending_records import PendingRecord, ensure_folders
from mledger.ledgers.orphans.references import LedgerOrigin
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import BadVersion
from mledger.metastore.records.codec import encode_managed_cursor_info, encode_managed_ledger_info
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import (
    LEDGERS,
    cursor_path,
    deletion_path,
    ledger_path,
    managed_ledger_path,
    pending_path,
)
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from mledger.metastore.url import open_store
from tests.support.aio import run

NAME = "t/n/persistent/topic"
ENTRIES, SIZE = 10, 100
CLOSED = LedgerMetadata(1, 1, 1, (Segment(0, ("b:1",)),), state=LedgerState.CLOSED, last_entry=ENTRIES - 1, length=SIZE)


def test_a_listed_ledger_is_not_lost_because_the_server_of_the_ledgers_lags(monkeypatch):
    async def main():
        async with await open_store("memory:") as store:
            info = ManagedLedgerInfo((LedgerInfo(1, ENTRIES, SIZE, 5),))
            await store.create(managed_ledger_path(NAME), encode_managed_ledger_info(info), parents=True)
            await LedgerStore(store).create(1, CLOSED)
            get_many, sync, synced = store.get_many, store.sync, []

            async def behind(paths):
                nodes = await get_many(paths)
                return [None if path.startswith(LEDGERS) and not synced else node
                        for path, node in zip(paths, nodes, strict=True)]  # fmt: skip

            async def note():
                await sync()
                synced.append(True)

            monkeypatch.setattr(store, "get_many", behind)
            monkeypatch.setattr(store, "sync", note)
            bookkeeper = BookKeeper(store)
            (facts,) = await FactsReader(store, bookkeeper).read([NAME])
            assert facts.ledgers == {1: LedgerFacts(LedgerState.CLOSED, LedgerEnd(ENTRIES, SIZE))}
            await bookkeeper.close()

    run(main())


def test_a_ledger_that_a_lagging_server_does_not_list_is_not_deleted(monkeypatch):
    """Others have dropped it, recorded it for deletion and listed it again since the plan was made."""

    async def main():
        async with await open_store("memory:") as store:
            await ensure_folders(store)
            info = ManagedLedgerInfo((LedgerInfo(1, ENTRIES, SIZE, 5),))
            path = managed_ledger_path(NAME)
            await store.create(path, encode_managed_ledger_info(info), parents=True)
            await store.create(deletion_path(1), NAME.encode())
            await LedgerStore(store).create(1, CLOSED)
            unlisted, now = encode_managed_ledger_info(ManagedLedgerInfo(())), await store.get(path)
            get, sync, synced, lagging = store.get, store.sync, [], []

            async def behind(asked):
                node = await get(asked)
                return replace(node, data=unlisted) if asked == path and lagging and not synced else node

            async def note():
                await sync()
                synced.append(True)

            monkeypatch.setattr(store, "get", behind)
            monkeypatch.setattr(store, "sync", note)
            bookkeeper = BookKeeper(store)
            leftover = PendingRecord(deletion_path(1), 1, NAME)
            facts = TopicFacts(NAME, ManagedLedgerInfo(()), now.version, records=(leftover,))

            def on_step(step):
                if step == "records written":
                    lagging.append(True)

            await repair(plan_repair(facts, 0), store, bookkeeper, on_step)
            assert synced
            assert await store.exists(ledger_path(1))
            assert await store.exists(deletion_path(1)) is None
            await bookkeeper.close()

    run(main())


@pytest.mark.parametrize("cursor", ["sub", "__compaction"])
def test_a_frozen_owner_can_no_longer_name_an_orphan_in_the_record_of_its_cursor(cursor):
    """One of Pulsar's: it leaves no pending record, and writes a cursor's record without a look at the topic's."""

    async def main():
        async with await open_store("memory:") as store:
            await ensure_folders(store)
            await store.create(
                managed_ledger_path(NAME), encode_managed_ledger_info(ManagedLedgerInfo(())), parents=True
            )
            stored = ManagedCursorInfo(NO_CURSOR_LEDGER, Position(1, 5))
            for name in (cursor, "other"):
                await store.create(cursor_path(NAME, name), encode_managed_cursor_info(stored))
            await LedgerStore(store).create(7, CLOSED)
            pending = PendingRecord(pending_path(8), 8, NAME)  # of an owner of ours
            await store.create(pending.path, NAME.encode())
            bookkeeper = BookKeeper(store)
            orphan = LedgerOrigin(7, "managed-ledger", NAME, cursor, 0)
            (facts,) = await FactsReader(store, bookkeeper).read([NAME], {NAME: [orphan]}, [pending])
            assert await repair(plan_repair(facts, 0), store, bookkeeper) == [7]
            named = encode_managed_cursor_info(ManagedCursorInfo(7, Position(1, 5)))
            with pytest.raises(BadVersion):
                await store.put(cursor_path(NAME, cursor), named, 0)
            assert (await store.get(cursor_path(NAME, cursor))).data == encode_managed_cursor_info(stored)
            await store.put(cursor_path(NAME, "other"), named, 0)
            await bookkeeper.close()

    run(main())
