"""Ledgers opened by another client: fenced, recovered, closed (Q4, Q5)."""

import asyncio

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, LedgerFenced, RecoveryUndecided
from mledger.metastore.records.ledger_metadata import LedgerState
from tests.support.aio import run
from tests.support.bookies.raw_bookie import RawBookieClient
from tests.support.ledgers import (
    client,
    holders,
    lay_down_ledger,
    open_when_reachable,
    payloads,
    read_raw,
    store_raw,
    stored_entry,
)


def entries_for(ledger, count, start=0, last_add_confirmed=None):
    """Stored entries of 20 bytes each, in order."""
    return [
        stored_entry(
            ledger,
            number,
            payload,
            20 * (number + 1),
            number - 1 if last_add_confirmed is None else last_add_confirmed,
        )
        for number, payload in enumerate(payloads(count, start), start)
    ]


def number_of(bookies, bookie_id):
    return next(number for number, bookie in enumerate(bookies) if bookie.bookie_id == bookie_id)


def test_a_second_client_fences_the_writer_and_reads_every_acknowledged_entry(cluster):
    async def main():
        async with client(cluster.metadata_url) as one, client(cluster.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(100))
            reader = await other.open_ledger(writer.ledger_id)
            assert (reader.metadata.state, reader.last_entry, reader.length) == (LedgerState.CLOSED, 99, 2000)
            assert await reader.read(0, 99) == payloads(100)
            late = [writer.append(payloads(10)) for _ in range(3)]
            for future in late:
                with pytest.raises(LedgerFenced, match="stop writing"):
                    await future
            with pytest.raises(LedgerFenced):
                await writer.close()
            assert writer.payloads_from(writer.last_add_confirmed + 1) == payloads(10) * 3
            assert (await other.metadata(writer.ledger_id)).last_entry == 99

    run(main())


def test_a_recovery_during_appends_keeps_every_acknowledged_entry(cluster):
    async def main():
        async with client(cluster.metadata_url) as one, client(cluster.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            acknowledged = -1

            async def write():
                nonlocal acknowledged
                start = 0
                while True:
                    futures = [writer.append(payloads(100, start + offset)) for offset in range(0, 1000, 100)]
                    for future in futures:
                        acknowledged = await future + 99
                    start += 1000

            task = asyncio.create_task(write())
            while acknowledged < 2000:
                await asyncio.sleep(0)
            reader = await other.open_ledger(writer.ledger_id)
            with pytest.raises(LedgerFenced):
                await task
            assert reader.last_entry >= acknowledged
            assert await reader.read(0, reader.last_entry) == payloads(reader.last_entry + 1)
            assert reader.length == 20 * (reader.last_entry + 1)

    run(main())


def test_two_recoveries_at_once_agree(cluster):
    async def main():
        async with (
            client(cluster.metadata_url) as one,
            client(cluster.metadata_url) as two,
            client(cluster.metadata_url) as three,
        ):
            for _ in range(5):
                writer = await one.create_ledger(3, 3, 2)
                await writer.append(payloads(10))
                pending = [writer.append(payloads(10, start)) for start in range(10, 200, 10)]
                readers = await asyncio.gather(
                    *(each.open_ledger(writer.ledger_id) for each in (two, two, three, three))
                )
                assert len({(reader.last_entry, reader.length) for reader in readers}) == 1
                for future in pending:
                    if await asyncio.wait([future]) and future.exception() is None:
                        assert future.result() + 9 <= readers[0].last_entry

    run(main())


def test_a_ledger_without_entries_is_recovered_as_empty(cluster):
    async def main():
        async with client(cluster.metadata_url) as one, client(cluster.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            reader = await other.open_ledger(writer.ledger_id)
            assert (reader.last_entry, reader.length) == (-1, 0)
            with pytest.raises(LedgerFenced):
                await writer.append([b"late"])

    run(main())


def test_a_long_unconfirmed_tail_is_recovered_whole(cluster):
    async def main():
        ledger = await lay_down_ledger(cluster.metadata_url, cluster[:3], 3, 2)
        for index in (0, 2):
            for stored in entries_for(ledger, 700, last_add_confirmed=9):
                await store_raw(cluster[index], stored)
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, reader.length) == (699, 14_000)
            assert await reader.read(0, 699) == payloads(700)
            everyone = {bookie.bookie_id for bookie in cluster[:3]}
            assert await holders(cluster, ledger, 699) == everyone
            assert await holders(cluster, ledger, 0) == everyone - {cluster[1].bookie_id}

    run(main())


def test_a_tail_on_one_bookie_of_three_is_written_back_where_it_is_seen(bookies):
    bookies.start(4)

    async def main():
        ensemble = bookies[:3]
        ledger = await lay_down_ledger(bookies.metadata_url, ensemble, 3, 2)
        for stored in entries_for(ledger, 3):
            for bookie in ensemble:
                await store_raw(bookie, stored)
        (tail,) = entries_for(ledger, 1, start=3)
        await store_raw(ensemble[1], tail)
        bookies.kill(0)
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, reader.length) == (3, 80)
            assert [segment.first_entry for segment in reader.metadata.segments] == [0, 3]
            assert bookies[0].bookie_id not in reader.metadata.ensemble
            assert await holders(bookies[1:], ledger, 3) == {bookie.bookie_id for bookie in bookies[1:]}

    run(main())


def test_recovery_with_too_few_bookies_is_undecided_until_they_are_back(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            for number in (0, 1):
                bookies.kill(number)
            with pytest.raises(RecoveryUndecided, match="too few bookies"):
                await other.open_ledger(writer.ledger_id)
            assert (await other.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY
            bookies.restart(0)
            reader = await open_when_reachable(other, writer.ledger_id)
            assert await reader.read(0, 9) == payloads(10)

    run(main())


def test_an_entry_that_an_unreachable_bookie_may_hold_is_not_taken_for_the_end(bookies):
    bookies.start(3)

    async def main():
        ensemble = bookies[:3]
        ledger = await lay_down_ledger(bookies.metadata_url, ensemble, 2, 1)
        first, second = entries_for(ledger, 2, last_add_confirmed=-1)
        for number in (0, 1):
            await store_raw(ensemble[number], first)
        await store_raw(ensemble[2], second)  # acknowledged by one bookie, since Aq is 1
        async with client(bookies.metadata_url) as bookkeeper:
            bookies.kill(2)
            with pytest.raises(RecoveryUndecided):
                await bookkeeper.open_ledger(ledger)
            bookies.restart(2)
            assert (await open_when_reachable(bookkeeper, ledger)).last_entry == 1

    run(main())


def test_recovery_begins_at_the_last_ensemble(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            bookies.kill(number_of(bookies, writer.metadata.ensemble[0]))
            pending = writer.append(payloads(10, 10))
            await pending
            assert [segment.first_entry for segment in writer.metadata.segments] == [0, 10]
            reader = await other.open_ledger(writer.ledger_id)
            assert reader.last_entry == 19
            assert [segment.first_entry for segment in reader.metadata.segments] == [0, 10]
            assert await reader.read(0, 19) == payloads(20)

    run(main())


def test_a_ledger_is_recovered_though_an_earlier_ensemble_is_re_replicated_meanwhile(bookies, monkeypatch):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 3)
            await writer.append(payloads(10))
            lost = number_of(bookies, writer.metadata.ensemble[0])
            bookies.kill(lost)
            await writer.append(payloads(10, 10))
            first, last = writer.metadata.segments
            bookies.restart(lost)
            replicated = first._replace(bookies=last.bookies)
            put = other._updates.put

            async def replicate_before_closing(ledger, metadata, version):
                if metadata.state is LedgerState.CLOSED and version == 2:  # IN_RECOVERY was the third write
                    found = replace((await other.metadata(ledger)), segments=(replicated, last))
                    await put(ledger, found, version)
                return await put(ledger, metadata, version)

            monkeypatch.setattr(other._updates, "put", replicate_before_closing)
            reader = await other.open_ledger(writer.ledger_id)
            assert reader.metadata.state is LedgerState.CLOSED
            assert reader.metadata.segments == (replicated, last)
            assert await reader.read(10, 19) == payloads(10, 10)

    run(main())


def test_a_damaged_last_entry_on_one_bookie_does_not_mislead_recovery(cluster):
    async def main():
        ensemble = cluster[:3]
        ledger = await lay_down_ledger(cluster.metadata_url, ensemble, 3, 2)
        for stored in entries_for(ledger, 5):
            for bookie in ensemble:
                await store_raw(bookie, stored)
        await store_raw(ensemble[0], stored_entry(ledger, 5, b"wrong", 105, 4, digest=bytes(4)))
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, reader.length) == (4, 100)

    run(main())


def test_a_damaged_copy_of_the_last_entry_blocks_no_recovery_with_an_ack_quorum_of_one(cluster):
    """The bookie with the damaged copy is fenced, and the other one has the entry."""

    async def main():
        ensemble = cluster[:2]
        ledger = await lay_down_ledger(cluster.metadata_url, ensemble, 2, 1)
        *others, last = entries_for(ledger, 5)
        for bookie in ensemble:
            for stored in others:
                await store_raw(bookie, stored)
        await store_raw(ensemble[0], stored_entry(ledger, 4, payloads(5)[4], 100, 3, digest=bytes(4)))
        await store_raw(ensemble[1], last)
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, reader.length) == (4, 100)
            assert await reader.read(0, 4) == payloads(5)
            assert await holders(cluster, ledger, 4) == {bookie.bookie_id for bookie in ensemble}

    run(main())


def test_a_last_entry_that_its_bookie_cannot_read_blocks_no_recovery_with_an_ack_quorum_of_one(bookies):
    bookies.start(2)

    async def main():
        ledger = await lay_down_ledger(bookies.metadata_url, bookies, 2, 1)
        for stored in entries_for(ledger, 5):
            for bookie in bookies:
                await store_raw(bookie, stored)
        spoil_frame(bookies[0], stored)
        assert (await read_raw(bookies[0], ledger, -1)).error == Code.IO_ERROR
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert (reader.last_entry, await reader.read(0, 4)) == (4, payloads(5))
        (late,) = entries_for(ledger, 1, start=5)
        async with RawBookieClient(bookies[0]) as raw:
            assert (await raw.ask(wire.encode_add(master_key(b""), late))).error == Code.FENCED

    run(main())


def spoil_frame(bookie, stored):
    """Change the bytes before an entry in the bookie's journal, so that it finds no frame there."""
    for path in (bookie.directory / "journal").glob("0*.journal"):
        at = path.read_bytes().find(stored)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at - wire.ENTRY_AT)
                file.write(bytes(wire.LENGTH.size))
            return
    raise AssertionError("the journal has no such entry")


def test_an_entry_of_which_the_only_copy_is_damaged_is_not_taken_for_the_end(cluster):
    async def main():
        ensemble = cluster[:2]
        ledger = await lay_down_ledger(cluster.metadata_url, ensemble, 2, 1)
        await store_raw(ensemble[0], stored_entry(ledger, 0, b"wrong", 5, -1, digest=bytes(4)))
        async with client(cluster.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided, match="whether it has entry 0 cannot be decided"):
                await bookkeeper.open_ledger(ledger)

    run(main())


def test_opening_a_closed_ledger_fences_nothing(cluster):
    async def main():
        async with client(cluster.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(3, 3, 2)
            await writer.append(payloads(3))
            await writer.close()
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            bookie = cluster[number_of(cluster, reader.metadata.ensemble[0])]
            (more,) = entries_for(writer.ledger_id, 1, start=3)
            await store_raw(bookie, more)

    run(main())
