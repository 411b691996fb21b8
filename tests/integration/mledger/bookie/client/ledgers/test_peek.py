"""Inspecting ledgers changes nothing (Q3, M9)."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mledger.bookie.client import BookKeeperReader
from mledger.bookie.errors import BookieUnavailable, NoSuchLedger
from mledger.metastore.cluster.bookies import register
from mledger.metastore.url import open_reader, open_store
from tests.faults.soak.proxy import LinkState, Proxies
from tests.support.aio import HANG_S, run
from tests.support.ledgers import QUICK, client, lay_down_ledger, payloads, store_raw, stored_entry


async def tree(store, path="/"):
    """The version of every node."""
    found = {}
    for name in await store.children(path):
        child = f"{path.rstrip('/')}/{name}"
        found[child] = (await store.get(child)).version
        found |= await tree(store, child)
    return found


def test_a_live_ledger_is_seen_with_its_tail_and_its_writer_continues(cluster):
    async def main():
        async with client(cluster.metadata_url) as bookkeeper, await open_store(cluster.metadata_url) as store:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            before = await tree(store, "/ledgers")
            async with await open_reader(cluster.metadata_url) as reader:
                looking = BookKeeperReader(reader)
                peek = await looking.peek(writer.ledger_id)
                opened = await looking.open_ledger_no_recovery(writer.ledger_id)
                assert await peek.read(9) == payloads(1, 9)[0]
                await looking.close()
            assert (peek.last_entry, peek.last_add_confirmed, peek.length) == (9, -1, 200)
            assert (peek.closed, peek.unconfirmed, peek.warnings) == (False, True, ())
            assert opened.last_entry == -1
            assert await tree(store, "/ledgers") == before
            assert await writer.append(payloads(10, 10)) == 10
            assert (await bookkeeper.peek(writer.ledger_id)).last_add_confirmed == 9
            assert (await writer.close()).last_entry == 19

    run(main())


def test_a_closed_ledger_ends_where_its_metadata_says(cluster):
    async def main():
        async with client(cluster.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            await writer.close()
            peek = await bookkeeper.peek(writer.ledger_id)
            assert (peek.last_entry, peek.length, peek.closed, peek.unconfirmed) == (9, 200, True, False)
            assert await peek.read(0) == payloads(1)[0]

    run(main())


def test_an_empty_ledger_and_a_missing_one(cluster):
    async def main():
        async with client(cluster.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            peek = await bookkeeper.peek(writer.ledger_id)
            assert (peek.last_entry, peek.length, peek.unconfirmed, peek.warnings) == (-1, 0, False, ())
            with pytest.raises(NoSuchLedger):
                await bookkeeper.peek(1 << 40)

    run(main())


def test_an_undecidable_end_is_a_warning_and_without_bookies_an_error(bookies):
    bookies.start(3)

    async def main():
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:3], 3, 2)
        for number, payload in enumerate(payloads(3)):
            for bookie in bookies:
                await store_raw(bookie, stored_entry(ledger, number, payload, 20 * (number + 1), number - 1))
        async with client(bookies.metadata_url) as bookkeeper:
            bookies.kill(0)
            one_away = await bookkeeper.peek(ledger)
            assert (one_away.last_entry, one_away.last_add_confirmed, one_away.length) == (2, 1, 60)
            bookies.kill(1)
            two_away = await bookkeeper.peek(ledger)
            assert (two_away.last_entry, two_away.unconfirmed) == (2, True)
            assert any("entry 3 cannot be decided" in warning for warning in two_away.warnings)
            bookies.kill(2)
            with pytest.raises(BookieUnavailable, match="no bookie of"):
                await bookkeeper.peek(ledger)
            with pytest.raises(BookieUnavailable):
                await bookkeeper.open_ledger_no_recovery(ledger)

    run(main())


def test_a_writer_that_never_pauses_is_not_followed_for_ever(cluster):
    async def main():
        async with client(cluster.metadata_url) as bookkeeper, client(cluster.metadata_url) as looking:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(10))

            async def write_on():
                while True:
                    await writer.append(payloads(20))

            writing = asyncio.create_task(write_on())
            peek = await looking.peek(writer.ledger_id)
            assert not writing.done()
            writing.cancel()
            assert 9 <= peek.last_entry <= writer.last_add_confirmed + 20

    run(main())


def test_nor_is_one_followed_while_a_bookie_is_away_so_that_the_end_cannot_be_decided(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper, client(bookies.metadata_url) as looking:
            writer = await bookkeeper.create_ledger(2, 2, 1)
            await writer.append(payloads(10))
            bookies.kill(1)

            async def write_on():
                while True:
                    await writer.append(payloads(20))

            writing = asyncio.create_task(write_on())
            peek = await looking.peek(writer.ledger_id)
            assert not writing.done()
            writing.cancel()
            assert 9 <= peek.last_entry <= writer.last_add_confirmed + 20
            assert "cannot be decided" in peek.undecided

    run(main())


@pytest.fixture
def proxies():
    """Proxies that end with the test."""
    found = Proxies()
    yield found
    found.close()


async def held_back(cluster, proxies, store):
    """A second id of a bookie, whose answers pass through a proxy, and that proxy."""
    proxy = proxies.before(cluster[0].address)
    host, port = proxy.address
    await register(store, f"{host}:{port}", host, port)
    return SimpleNamespace(bookie_id=f"{host}:{port}", address=cluster[0].address), proxy


def test_a_late_answer_is_not_taken_for_the_next_one(cluster, proxies):
    async def main():
        config = replace(QUICK, read_timeout_s=0.5, silence_timeout_s=HANG_S)
        async with client(cluster.metadata_url, config) as looking, await open_store(cluster.metadata_url) as store:
            bookie, proxy = await held_back(cluster, proxies, store)
            ledger = await lay_down_ledger(cluster.metadata_url, [bookie], 1, 1)
            entries = [
                stored_entry(ledger, number, payloads(1, number)[0], 20 * (number + 1), -1) for number in range(20)
            ]
            for stored in entries[:10]:
                await store_raw(bookie, stored)
            proxy.set(LinkState.DEAF)
            with pytest.raises(BookieUnavailable):
                await looking.peek(ledger)
            for stored in entries[10:]:
                await store_raw(bookie, stored)
            peek = asyncio.ensure_future(looking.peek(ledger))
            while not any(connection._waiting for connection in looking._pool._open.values()):
                await asyncio.sleep(0.01)
            proxy.set(LinkState.GOOD)
            assert (await peek).last_entry == 19
            assert all(each.closed for each in looking._pool._retired)

    run(main())
