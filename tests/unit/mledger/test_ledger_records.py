"""Records of ledgers between two owners' lists, and what a replay makes of them (R10)."""

from contextlib import asynccontextmanager

from bookie.client.client import BookKeeper
from metastore.codec import encode_managed_cursor_info, encode_managed_ledger_info
from metastore.ledger_metadata import LedgerMetadata, Segment
from metastore.ledgers import LedgerStore
from metastore.paths import cursor_path, managed_ledger_path
from metastore.records import LedgerInfo, ManagedCursorInfo, ManagedLedgerInfo
from metastore.url import open_store
from mledger.ledger_records import deletion_record, ensure_folders, owned_ledgers, pending_record, read_records, replay
from tests.support.aio import run

NAME, OTHER, GONE = "t/n/persistent/topic", "t/n/persistent/other", "t/n/persistent/gone"


class Scene:
    """A store with ledgers' metadata, topics and records."""

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
            assert await replay(it.bookkeeper, it.store, NAME) == []
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
            assert await replay(it.bookkeeper, it.store, NAME) == [2, 3]
            assert await it.existing() == [1]
            assert await read_records(it.store) == []

    run(main())


def test_ledgers_being_made_are_left_alone():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.made(1, 2)
            await it.pending(2)
            assert await replay(it.bookkeeper, it.store, NAME, creating={2}) == []
            assert [record.ledger_id for record in await read_records(it.store)] == [2]

    run(main())


def test_another_topic_s_records_are_its_owner_s_and_a_deleted_topic_s_anyone_s():
    async def main():
        async with scene() as it:
            await it.topic(NAME, 1)
            await it.topic(OTHER)
            await it.made(1, 2, 3)
            await it.pending(2, OTHER)
            await it.deletion(3, GONE)
            assert await replay(it.bookkeeper, it.store, NAME) == [3]
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
            assert await replay(it.bookkeeper, it.store, NAME) == []
            assert await it.existing() == [1, 2]
            assert len(await read_records(it.store)) == 1

    run(main())
