"""Open readers while re-replication replaces lost bookies (Q6)."""

import asyncio

import pytest
from msgspec.structs import replace

from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import Segment
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.ledgers import client, lay_down_ledger, payloads, store_raw, stored_entry

COUNT = 300


async def lay_down(bookies, write_quorum, placed_on):
    """A closed ledger on the first bookies, whose entries are on all of `placed_on`."""
    entries = [stored_entry(7, number, each, 20 * (number + 1), -1) for number, each in enumerate(payloads(COUNT))]
    size = len(placed_on) // 2
    ledger = await lay_down_ledger(
        bookies.metadata_url,
        placed_on[:size],
        write_quorum,
        write_quorum,
        last_entry=COUNT - 1,
        length=20 * COUNT,
        entries_of=7,
    )
    for bookie in placed_on:
        await asyncio.gather(*(store_raw(bookie, each) for each in entries))
    return ledger


async def name_others(bookies, ledger, others):
    """Make the ledger's metadata name other bookies."""
    async with await open_store(bookies.metadata_url) as store:
        records = LedgerStore(store)
        metadata, version = await records.read(ledger)
        segment = Segment(0, tuple(bookie.bookie_id for bookie in others))
        await records.put(ledger, replace(metadata, segments=(segment,)), version)


@pytest.mark.parametrize(("ensemble", "write_quorum"), [(2, 2), (3, 2)])
def test_an_open_reader_follows_a_ledger_to_other_bookies(bookies, ensemble, write_quorum):
    bookies.start(2 * ensemble)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            ledger = await lay_down(bookies, write_quorum, bookies[:])
            reader = await bookkeeper.open_ledger(ledger)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            await name_others(bookies, ledger, bookies[ensemble:])
            for number in range(ensemble):
                bookies.kill(number)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            assert await reader.read(5, 5) == payloads(1, 5)
            assert set(reader.metadata.ensemble) == {bookie.bookie_id for bookie in bookies[ensemble:]}
            assert not bookkeeper.bad_replicas

    run(main(), timeout=120.0)


def test_a_ledger_that_nobody_replicated_fails_with_its_bookies_error(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            ledger = await lay_down(bookies, 1, bookies[:])
            await name_others(bookies, ledger, bookies[:1])
            reader = await bookkeeper.open_ledger(ledger)
            bookies.kill(0)
            with pytest.raises(BookieUnavailable, match="cannot be reached"):
                await reader.read(0, COUNT - 1)

    run(main(), timeout=120.0)


def test_a_writers_reader_follows_its_earlier_segments(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, await open_store(bookies.metadata_url) as store:
            writer = await bookkeeper.create_ledger(1, 1, 1)
            await writer.append(payloads(10))
            number = next(at for at, each in enumerate(bookies) if each.bookie_id == writer.metadata.ensemble[0])
            bookies.kill(number)
            await writer.append(payloads(10, 10))
            taken = {bookies[number].bookie_id, writer.metadata.ensemble[0]}
            other = next(each for each in bookies if each.bookie_id not in taken)
            for at, payload in enumerate(payloads(10)):
                await store_raw(other, stored_entry(writer.ledger_id, at, payload, 20 * (at + 1), -1))
            records = LedgerStore(store)
            metadata, version = await records.read(writer.ledger_id)
            moved = (Segment(0, (other.bookie_id,)), *metadata.segments[1:])
            await records.put(writer.ledger_id, replace(metadata, segments=moved), version)
            reader = writer.reader()
            assert await reader.read(0, 19) == payloads(20)
            await writer.append(payloads(5, 20))
            assert await reader.read(0, 24) == payloads(25)
            assert (await writer.close()).segments == moved

    run(main(), timeout=120.0)
