"""Of damaged, missing and unreachable copies another replica is read, and the bad one is reported (Q1)."""

import pytest
from msgspec.structs import replace

from mledger.bookie.client import BadReplica
from mledger.bookie.errors import BookieUnavailable, DigestMismatch, NoSuchEntry
from tests.support.aio import run
from tests.support.ledgers import QUICK, client, lay_down_ledger, payloads, store_raw, stored_entry

COUNT = 30


async def closed_ledger(bookies, write_quorum, damaged=(), missing=()):
    """A closed ledger on three bookies; `damaged` and `missing` are (ensemble index, entry)."""
    ensemble = bookies[:3]
    ledger = await lay_down_ledger(
        bookies.metadata_url, ensemble, write_quorum, write_quorum, last_entry=COUNT - 1, length=20 * COUNT
    )
    for number, payload in enumerate(payloads(COUNT)):
        for i in range(write_quorum):
            index = (number + i) % 3
            if (index, number) not in missing:
                digest = bytes(4) if (index, number) in damaged else None
                stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1, digest)
                await store_raw(ensemble[index], stored)
    return ledger


@pytest.mark.parametrize("write_quorum", [3, 2])
def test_a_damaged_copy_is_skipped_and_reported(cluster, write_quorum):
    async def main():
        ledger = await closed_ledger(cluster, write_quorum, damaged={(index, 9 + index) for index in range(3)})
        async with client(cluster.metadata_url) as bookkeeper:
            heard = []
            bookkeeper.on_bad_replica = heard.append
            reader = await bookkeeper.open_ledger(ledger)
            for _ in range(3):
                assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            for entry in (9, 10, 11):
                assert await reader.read(entry, entry) == payloads(1, entry)
            expected = {
                BadReplica(ledger, 9 + index, cluster[index].bookie_id, "it fails its digest") for index in range(3)
            }
            assert set(heard) == expected
            assert bookkeeper.bad_replicas == heard

    run(main())


def test_a_missing_copy_is_read_elsewhere_and_reported(cluster):
    async def main():
        ledger = await closed_ledger(cluster, 3, missing={(0, 12)})
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert await reader.read(12, 12) == payloads(1, 12)
            for _ in range(3):
                assert await reader.read(5, COUNT - 1) == payloads(COUNT - 5, 5)
            assert set(bookkeeper.bad_replicas) == {BadReplica(ledger, 12, cluster[0].bookie_id, "it is not there")}

    run(main())


def test_an_entry_damaged_everywhere_is_an_error(cluster):
    async def main():
        ledger = await closed_ledger(cluster, 3, damaged={(index, 4) for index in range(3)})
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert await reader.read(0, 3) == payloads(4)
            for first, last in [(4, 4), (0, COUNT - 1)]:
                with pytest.raises(DigestMismatch, match="entry 4: no whole copy"):
                    await reader.read(first, last)

    run(main())


def test_an_entry_that_no_bookie_has_is_an_error_of_its_own(cluster):
    async def main():
        ledger = await closed_ledger(cluster, 3, missing={(index, 4) for index in range(3)})
        async with client(cluster.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            for first, last in [(4, 4), (0, COUNT - 1)]:
                with pytest.raises(NoSuchEntry, match="entry 4"):
                    await reader.read(first, last)

    run(main())


@pytest.mark.parametrize("write_quorum", [3, 2])
def test_unreachable_bookies_are_skipped_until_none_is_left(bookies, write_quorum):
    bookies.start(3)

    async def main():
        ledger = await closed_ledger(bookies, write_quorum)
        async with client(bookies.metadata_url) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            bookies.kill(1)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            assert await reader.read(1, 1) == payloads(1, 1)
            bookies.kill(0)
            bookies.kill(2)
            for first, last in [(0, COUNT - 1), (3, 3)]:
                with pytest.raises(BookieUnavailable):
                    await reader.read(first, last)

    run(main())


@pytest.mark.parametrize("write_quorum", [3, 2])
def test_a_bookie_that_does_not_answer_is_skipped_and_asked_last_from_then_on(bookies, write_quorum):
    bookies.start(3)

    async def main():
        ledger = await closed_ledger(bookies, write_quorum)
        async with client(bookies.metadata_url, replace(QUICK, read_timeout_s=4.0)) as bookkeeper:
            reader = await bookkeeper.open_ledger(ledger)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            bookies.freeze(1)
            try:
                for _ in range(3):  # every bookie is asked first once
                    assert await reader.read(0, COUNT - 1) == payloads(COUNT)
                assert bookkeeper._pool.quarantine.healthy_first([bookies[1].bookie_id, "other"])[0] == "other"
            finally:
                bookies.thaw(1)

    run(main())
