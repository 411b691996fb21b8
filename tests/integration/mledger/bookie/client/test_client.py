"""Ledgers on running bookies: written, read, listed, deleted."""

import asyncio

import pytest

from mledger.bookie.client import ClientConfig
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.errors import (
    DigestMismatch,
    EntryTooLarge,
    InvalidQuorum,
    LedgerClosed,
    LedgerConflict,
    NoSuchEntry,
    NoSuchLedger,
    NotEnoughBookies,
    Unauthorized,
)
from mledger.metastore.errors import NodeExists
from mledger.metastore.records.ledger_metadata import DigestType, LedgerState
from mledger.metastore.store import Create
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import client, holders, payloads, read_raw


def with_client(cluster, test, config=None):
    async def main():
        async with client(cluster.metadata_url, *([config] if config else [])) as bookkeeper:
            return await test(bookkeeper)

    return run(main())


def test_batches_are_acknowledged_in_order_and_read_back(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        batches = [payloads(100, start) for start in range(0, 5000, 100)]
        firsts = await asyncio.gather(*(writer.append(batch) for batch in batches))
        metadata = await writer.close()
        assert firsts == list(range(0, 5000, 100))
        assert (metadata.state, metadata.last_entry, metadata.length) == (LedgerState.CLOSED, 4999, 5000 * 20)
        reader = await bookkeeper.open_ledger(writer.ledger_id)
        assert await reader.read(0, 4999) == payloads(5000)
        assert await reader.read_last() == (4999, payloads(5000)[-1])
        assert (reader.last_entry, reader.length) == (4999, 100_000)

    with_client(cluster, main)


@pytest.mark.parametrize("digest_type", list(DigestType))
@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 3, 2), (4, 2, 2)])
def test_entries_of_all_sizes_with_every_digest(cluster, digest_type, ensemble, write, ack):
    entries = [b"", b"x", bytes(1 << 20), *payloads(40), b"y" * 5000, *payloads(3, size=70_000)]

    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(ensemble, write, ack, digest_type=digest_type, password=b"key")
        await writer.append(entries)
        await writer.append([b"single"])
        await writer.close()
        reader = await bookkeeper.open_ledger(writer.ledger_id, b"key")
        assert await reader.read(0, len(entries)) == [*entries, b"single"]

    with_client(cluster, main)


def test_reads_are_bounded_by_bytes_and_return_at_least_one_entry(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        await writer.append(payloads(100, size=1000))
        reader = writer.reader()
        assert await reader.read(10, 99, max_bytes=2500) == payloads(2, 10, 1000)
        assert await reader.read(10, 99, max_bytes=3000) == payloads(3, 10, 1000)
        assert await reader.read(10, 99, max_bytes=1) == payloads(1, 10, 1000)
        assert await reader.read(10, 20, max_bytes=1 << 20) == payloads(11, 10, 1000)

    with_client(cluster, main)


@pytest.mark.parametrize(("size", "max_bytes"), [(100, 20_000), (100, 20_099), (20, 700)])
def test_a_read_of_so_many_bytes_waits_for_bookies_once(cluster, monkeypatch, size, max_bytes):
    asked = []
    read_batch = BookieConnection.read_batch

    def counted(connection, ledger_id, first, count, most):
        asked.append(count)
        return read_batch(connection, ledger_id, first, count, most)

    monkeypatch.setattr(BookieConnection, "read_batch", counted)

    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        await writer.append(payloads(1000, size=size))
        count = max_bytes // size
        assert await writer.reader().read(10, 999, max_bytes=max_bytes) == payloads(count, 10, size)
        assert asked == [count]

    with_client(cluster, main)


def test_reads_outside_the_ledger_are_refused(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        with pytest.raises(NoSuchEntry, match="is empty"):
            await writer.reader().read_last()
        await writer.append(payloads(3))
        reader = writer.reader()
        for first, last in [(0, 3), (-1, 0), (2, 1)]:
            with pytest.raises(NoSuchEntry, match="has entries 0 to 2"):
                await reader.read(first, last)

    with_client(cluster, main)


def test_the_writers_reader_follows_the_last_add_confirmed(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        reader = writer.reader()
        assert (reader.last_entry, reader.length) == (-1, 0)
        await writer.append(payloads(10))
        assert (reader.last_entry, reader.length) == (9, 200)
        assert await reader.read(0, 9) == payloads(10)

    with_client(cluster, main)


def test_a_reader_of_an_open_ledger_reads_to_the_last_add_confirmed_it_was_given(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        await writer.append(payloads(10))
        await writer.append(payloads(5, 10))
        reader = await bookkeeper.open_ledger_no_recovery(writer.ledger_id)
        assert (reader.last_entry, reader.length) == (9, 200)
        assert await reader.read(0, 9) == payloads(10)
        await writer.append(payloads(1))

    with_client(cluster, main)


def test_striped_entries_are_on_their_write_sets_only(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 2, 2)
        await asyncio.gather(*(writer.append(payloads(10, start)) for start in range(0, 100, 10)))
        ensemble = (await writer.close()).ensemble
        for entry in (0, 1, 2, 50, 99):
            members = {ensemble[entry % 3], ensemble[(entry + 1) % 3]}
            assert await holders(cluster, writer.ledger_id, entry) == members
        reader = await bookkeeper.open_ledger(writer.ledger_id)
        assert await reader.read(0, 99) == payloads(100)

    with_client(cluster, main)


def test_entries_carry_the_last_add_confirmed_and_the_length(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 3)
        await writer.append(payloads(10))
        await writer.append(payloads(10))
        (bookie, *_) = [each for each in cluster if each.bookie_id in writer.metadata.ensemble]
        stored = (await read_raw(bookie, writer.ledger_id, 15)).body
        assert int.from_bytes(stored[16:24], "big") == 9
        assert int.from_bytes(stored[24:32], "big") == 16 * 20

    with_client(cluster, main)


def test_a_batch_with_an_entry_over_the_frame_limit_is_refused_whole(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        limit = ClientConfig().max_frame - 60
        with pytest.raises(EntryTooLarge, match=f"limit of {limit}"):
            writer.append([b"small", bytes(limit + 1)])
        assert writer.length == 0
        assert await writer.append([b"small", bytes(limit)]) == 0

    with_client(cluster, main)


def test_an_empty_append_is_refused(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        with pytest.raises(ValueError, match="no entry id"):
            writer.append([])

    with_client(cluster, main)


def test_a_closed_writer_refuses_entries_and_closes_again_at_the_same_end(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        pending = writer.append(payloads(10))
        closed = await writer.close()
        assert pending.result() == 0
        assert writer.closed
        with pytest.raises(LedgerClosed):
            await writer.append([b"late"])
        assert await writer.close() == closed

    with_client(cluster, main)


def test_an_abandoned_ledger_stays_unchanged(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        await writer.append(payloads(10))
        await writer.abandon()
        with pytest.raises(LedgerClosed, match="abandoned"):
            await writer.append([b"late"])
        with pytest.raises(LedgerClosed, match="abandoned"):
            await writer.close()
        assert (await bookkeeper.metadata(writer.ledger_id)).state is LedgerState.OPEN
        assert (await bookkeeper.open_ledger(writer.ledger_id)).last_entry == 9

    with_client(cluster, main)


def test_an_empty_ledger_is_closed_without_entries(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        metadata = await writer.close()
        assert (metadata.last_entry, metadata.length) == (-1, 0)
        assert (await bookkeeper.open_ledger(writer.ledger_id)).last_entry == -1

    with_client(cluster, main)


def test_more_bookies_than_exist_are_refused(cluster):
    async def main(bookkeeper):
        before = [page async for page in bookkeeper.list_ledgers()]
        with pytest.raises(NotEnoughBookies, match="5 bookies is asked for and 4 are registered"):
            await bookkeeper.create_ledger(5, 3, 2)
        with pytest.raises(InvalidQuorum):
            await bookkeeper.create_ledger(2, 3, 2)
        assert [page async for page in bookkeeper.list_ledgers()] == before

    with_client(cluster, main)


def test_the_wrong_password_opens_nothing_and_changes_nothing(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2, password=b"right")
        await writer.append(payloads(3))
        for attempt in (bookkeeper.open_ledger, bookkeeper.open_ledger_no_recovery, bookkeeper.peek):
            with pytest.raises(Unauthorized):
                await attempt(writer.ledger_id, b"wrong")
        with pytest.raises(DigestMismatch, match="has the digest type CRC32C"):
            await bookkeeper.open_ledger(writer.ledger_id, b"right", DigestType.HMAC)
        assert await writer.append([b"goes on"]) == 3
        assert (await bookkeeper.open_ledger(writer.ledger_id, b"right")).last_entry == 3

    with_client(cluster, main)


def test_other_operations_join_the_creation(cluster):
    async def main(bookkeeper):
        async with await open_store(cluster.metadata_url) as store:
            writer = await bookkeeper.create_ledger(
                3, 3, 2, also=lambda ledger: [Create(f"/mledger/pending/{ledger}", b"topic")]
            )
            assert (await store.get(f"/mledger/pending/{writer.ledger_id}")).data == b"topic"
            before = [page async for page in bookkeeper.list_ledgers()]
            path = f"/mledger/pending/{writer.ledger_id}"
            with pytest.raises(NodeExists):
                await bookkeeper.create_ledger(3, 3, 2, also=lambda _: [Create(path, b"again")])
            assert [page async for page in bookkeeper.list_ledgers()] == before

    with_client(cluster, main)


def test_ids_not_above_the_last_are_skipped(cluster):
    async def main(bookkeeper):
        first = await bookkeeper.create_ledger(3, 3, 2)
        second = await bookkeeper.create_ledger(3, 3, 2, above=first.ledger_id + 5)
        assert second.ledger_id == first.ledger_id + 6
        with pytest.raises(LedgerConflict, match="id counter is behind"):
            await bookkeeper.create_ledger(3, 3, 2, above=1 << 40)

    with_client(cluster, main)


def test_ledgers_are_listed_and_deleted(cluster):
    async def main(bookkeeper):
        ids = [(await bookkeeper.create_ledger(3, 3, 2)).ledger_id for _ in range(3)]
        await bookkeeper.delete_ledger(ids[1])
        listed = [ledger async for page in bookkeeper.list_ledgers() for ledger in page]
        assert [ledger for ledger in listed if ledger in ids] == [ids[0], ids[2]]
        for attempt in (bookkeeper.delete_ledger, bookkeeper.metadata, bookkeeper.open_ledger, bookkeeper.peek):
            with pytest.raises(NoSuchLedger):
                await attempt(ids[1])

    with_client(cluster, main)


def test_closing_a_deleted_ledger_is_an_error_that_says_so(cluster):
    async def main(bookkeeper):
        writer = await bookkeeper.create_ledger(3, 3, 2)
        await bookkeeper.delete_ledger(writer.ledger_id)
        with pytest.raises(NoSuchLedger, match="was deleted"):
            await writer.close()

    with_client(cluster, main)


def test_the_registered_bookies_are_listed(cluster):
    async def main(bookkeeper):
        assert {found.bookie_id for found in await bookkeeper.bookies()} == {each.bookie_id for each in cluster}

    with_client(cluster, main)
