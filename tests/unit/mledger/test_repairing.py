"""What a repair decides over is looked at in a metadata store that may lag."""

from bookie.client.client import BookKeeper
from metastore.codec import encode_managed_ledger_info
from metastore.ledger_metadata import LedgerMetadata, LedgerState, Segment
from metastore.ledgers import LedgerStore
from metastore.paths import LEDGERS, managed_ledger_path
from metastore.records import LedgerInfo, ManagedLedgerInfo
from metastore.url import open_store
from mledger.ledger_list import LedgerEnd
from mledger.repair import LedgerFacts
from mledger.repairing import FactsReader
from tests.support.aio import run

NAME = "t/n/persistent/topic"
ENTRIES, SIZE = 10, 100


def test_a_listed_ledger_is_not_lost_because_the_server_of_the_ledgers_lags(monkeypatch):
    async def main():
        async with await open_store("memory:") as store:
            info = ManagedLedgerInfo((LedgerInfo(1, ENTRIES, SIZE, 5),))
            await store.create(managed_ledger_path(NAME), encode_managed_ledger_info(info), parents=True)
            metadata = LedgerMetadata(
                1, 1, 1, (Segment(0, ("b:1",)),), state=LedgerState.CLOSED, last_entry=ENTRIES - 1, length=SIZE
            )
            await LedgerStore(store).create(1, metadata)
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
