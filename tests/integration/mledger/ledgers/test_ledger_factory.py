"""A topic's ledgers are deleted under records that decide who may delete them (R10)."""

from mledger.bookie.client import BookKeeper
from mledger.config import ManagedLedgerConfig
from mledger.ledgers.ledger_factory import LedgerFactory
from mledger.ledgers.orphans.pending_records import deletion_record, ensure_folders, listed_again
from mledger.metastore.cluster.bookies import register
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.memory.store import MemoryStore
from mledger.metastore.records.paths import deletion_path, ledger_path
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving

NAME = "tests/ns/persistent/topic"
CONFIG = ManagedLedgerConfig(ensemble_size=1, write_quorum_size=1, ack_quorum_size=1)


class LosingStore(MemoryStore):
    """A store that can lose one multi before it is carried out, and have something happen after the next look."""

    lose = False
    after_look = None

    async def multi(self, operations):
        if self.lose:
            self.lose = False
            raise StoreUnavailable("the connection broke")
        return await super().multi(operations)

    async def get_many(self, paths):
        found = await super().get_many(paths)
        if self.after_look is not None:
            then, self.after_look = self.after_look, None
            await then()
        return found


def test_a_ledger_listed_again_while_its_former_owner_discards_it_is_kept(tmp_path):
    async def main():
        async with LosingStore() as store, serving(tmp_path / "bookie") as local:
            await initialize(store)
            await ensure_folders(store)
            await register(store, "bookie", *local.address)
            bookkeeper = BookKeeper(store)
            factory = LedgerFactory(bookkeeper, store, NAME, CONFIG)
            writer = await factory.create_data_ledger(None)
            ledger = writer.ledger_id
            await store.multi([factory.listed(ledger)])  # its answer is lost
            await store.multi([deletion_record(ledger, NAME)])  # the next owner unlists the ledger

            async def undo():
                await store.multi([listed_again(ledger)])

            store.lose, store.after_look = True, undo
            await factory.discard(writer)
            await bookkeeper.close()
            return await store.exists(ledger_path(ledger)), await store.exists(deletion_path(ledger))

    metadata, deletion = run(main())
    assert metadata is not None
    assert deletion is None


def test_a_compacted_ledger_whose_metadata_does_not_parse_is_left_and_logged(caplog):
    async def main():
        async with MemoryStore() as store:
            await store.create(ledger_path(7), b"\xff\xff", parents=True)
            bookkeeper = BookKeeper(store)
            factory = LedgerFactory(bookkeeper, store, NAME, CONFIG)
            assert await factory.own_compacted([7, 8]) == []
            await bookkeeper.close()

    run(main())
    (logged,) = [each for each in caplog.messages if "event=compacted_ledger_left" in each]
    assert "ledger=7" in logged
