"""Verifies the digest of every copy of every entry, and reports missing, damaged and unreachable copies by bookie."""

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.client import BookKeeperReader
from mledger.bookie.client.plans.replicas import CopyRun, ReplicaRun
from mledger.bookie.digest import make_digest
from mledger.bookie.errors import NoSuchLedger
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import DigestType, LedgerState, Segment
from mledger.metastore.url import open_reader, open_store
from tests.support.aio import run
from tests.support.ledgers import client, lay_down_ledger, payloads, store_raw, stored_entry

COUNT = 400
DAMAGED, MISSING = "it fails its digest", "it is not there"


async def check(cluster, ledger):
    """The check, with a read-only client."""
    async with await open_reader(cluster.metadata_url) as reader:
        bookkeeper = BookKeeperReader(reader)
        try:
            return await bookkeeper.check_ledger(ledger)
        finally:
            await bookkeeper.close()


async def written(cluster, ensemble_size, write_quorum, count=COUNT, *, close=True):
    """Write a ledger with the client; its id and its ensemble."""
    async with client(cluster.metadata_url) as bookkeeper:
        writer = await bookkeeper.create_ledger(ensemble_size, write_quorum, write_quorum)
        await writer.append(payloads(count))
        ensemble = writer.metadata.ensemble
        await (writer.close() if close else writer.abandon())
        return writer.ledger_id, ensemble


async def laid_down(cluster, write_quorum, *, damaged=(), missing=(), count=30, last_entry=29):
    """A ledger stored copy by copy on three bookies; `damaged` and `missing` are (ensemble index, entry)."""
    ensemble = cluster[:3]
    ledger = await lay_down_ledger(
        cluster.metadata_url, ensemble, write_quorum, write_quorum, last_entry=last_entry, length=20 * count
    )
    for number, payload in enumerate(payloads(count)):
        for index in ((number + i) % 3 for i in range(write_quorum)):
            if (index, number) not in missing:
                digest = bytes(4) if (index, number) in damaged else None
                await store_raw(ensemble[index], stored_entry(ledger, number, payload, 0, number - 1, digest))
    return ledger, [bookie.bookie_id for bookie in ensemble]


@pytest.mark.parametrize(("ensemble_size", "write_quorum"), [(3, 3), (3, 2), (1, 1)])
def test_a_ledger_with_all_its_copies_has_no_bad_ones(cluster, ensemble_size, write_quorum):
    async def main():
        ledger, _ = await written(cluster, ensemble_size, write_quorum)
        found = await check(cluster, ledger)
        assert (found.entries, found.whole, found.size) == (COUNT, write_quorum * COUNT, write_quorum * COUNT * 20)
        assert (found.bad, found.away, found.behind, found.lost, found.unreachable) == ((), (), (), (), ())

    run(main())


@pytest.mark.parametrize("write_quorum", [3, 2])
def test_bad_copies_are_reported_by_bookie_and_run(cluster, write_quorum):
    async def main():
        missing = {(0, 3), (0, 6), (0, 9)}
        ledger, ids = await laid_down(cluster, write_quorum, damaged={(1, 15), (1, 16)}, missing=missing)
        found = await check(cluster, ledger)
        expected = [
            *([CopyRun(ids[0], entry, entry, 1, MISSING) for entry in (3, 6, 9)]),
            CopyRun(ids[1], 15, 16, 2, DAMAGED),
        ]
        assert sorted(found.bad, key=lambda each: each.first) == expected
        assert found.whole == 30 * write_quorum - 5
        assert found.lost == ()

    run(main())


def test_an_entry_without_a_sound_copy_is_lost(cluster):
    async def main():
        ledger, _ = await laid_down(cluster, 3, damaged={(0, 7), (1, 7)}, missing={(2, 7), (2, 8)})
        assert (await check(cluster, ledger)).lost == (ReplicaRun(7, 7),)

    run(main())


def test_copies_on_an_unreachable_bookie_are_listed_separately(cluster):
    async def main():
        ledger, ids = await laid_down(cluster, 2)
        async with await open_store(cluster.metadata_url) as store:
            records = LedgerStore(store)
            metadata, version = await records.read(ledger)
            away = (ids[0], ids[1], "127.0.0.1:1")
            await records.put(ledger, replace(metadata, segments=(Segment(0, away),)), version)
        found = await check(cluster, ledger)
        assert found.bad == ()
        assert [(each.bookie_id, each.first, each.last, each.count) for each in found.away] == [(away[2], 1, 29, 20)]
        assert (found.lost, found.unreachable) == ((), ())

    run(main())


def test_an_open_ledger_is_read_to_its_last_add_confirmed(cluster):
    async def main():
        ledger, _ = await written(cluster, 3, 3, close=False)
        found = await check(cluster, ledger)
        assert found.state is LedgerState.OPEN
        assert found.entries < COUNT
        assert found.bad == ()
        async with await open_store(cluster.metadata_url) as store:
            assert (await LedgerStore(store).read(ledger))[0].state is LedgerState.OPEN

    run(main())


def test_a_bookie_that_lacks_the_end_of_an_open_ledger_is_behind_and_not_bad(cluster):
    async def main():
        ensemble = cluster[:3]
        ledger = await lay_down_ledger(cluster.metadata_url, ensemble, 3, 2)
        for number, payload in enumerate(payloads(10)):
            for index in range(3):
                if not (index == 2 and number >= 6) and not (index == 0 and number == 4):
                    await store_raw(ensemble[index], stored_entry(ledger, number, payload, 0, number - 1))
        found = await check(cluster, ledger)
        assert found.behind == (CopyRun(ensemble[2].bookie_id, 6, 8, 3, MISSING),)
        assert found.bad == (CopyRun(ensemble[0].bookie_id, 4, 4, 1, MISSING),)

    run(main())


def test_a_ledger_whose_old_record_names_no_digest_is_read_with_the_one_that_fits(cluster):
    async def main():
        ensemble = cluster[:2]
        ledger = await lay_down_ledger(cluster.metadata_url, ensemble, 2, 2, last_entry=4, length=100)
        crc32 = make_digest(DigestType.CRC32, b"")
        for number, payload in enumerate(payloads(5)):
            head = wire.ENTRY_HEAD.pack(ledger, number, number - 1, 0)
            digest = crc32.value(head, payload)
            for bookie in ensemble:
                await store_raw(bookie, stored_entry(ledger, number, payload, 0, number - 1, digest))
        async with await open_store(cluster.metadata_url) as store:
            records = LedgerStore(store)
            metadata, version = await records.read(ledger)
            old = replace(metadata, format_version=1, digest_type=None, password=None, c_token=0)
            await records.put(ledger, old, version)
        found = await check(cluster, ledger)
        assert (found.whole, found.bad) == (10, ())

    run(main())


def test_a_missing_ledger_is_an_error(cluster):
    with pytest.raises(NoSuchLedger):
        run(check(cluster, 999_999))
