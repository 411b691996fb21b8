"""A bookie that starts with a new directory under its old id knows that it may have held entries and fences."""

import asyncio

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, InvalidBookieDirectory, LedgerFenced, RecoveryUndecided
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.process.garbage import GarbageCollector
from mledger.bookie.server.process.lost_ledgers import LostLedgers, find_lost
from mledger.bookie.server.storage.directories.directory import BookieDirectory, new_format
from mledger.bookie.server.storage.rows.index import Index
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import ledger_path
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import SMALL, serving
from tests.support.bookies.processes import lose_disk
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.bookies.version3 import request
from tests.support.ledgers import (
    client,
    lay_down_ledger,
    open_when_reachable,
    payloads,
    read_raw,
    store_raw,
    stored_entry,
)
from tests.support.metadata.stores import with_store
from tests.support.metadata.tree import read_tree

KEY = master_key(b"")


def test_a_bookie_that_lost_its_disk_does_not_prove_that_entries_never_were(bookies):
    """Ten entries are acknowledged by the bookies 0 and 1; bookie 2 lags."""
    bookies.start(3)

    async def main():
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:3], 3, 2)
        for number, payload in enumerate(payloads(10)):
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in bookies[:2]:
                await store_raw(bookie, stored)
        await lose_disk(bookies[0])
        bookies.restart(0)  # what it noted survives a kill
        bookies.kill(1)
        async with client(bookies.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided, match="drop-ledgers"):
                await bookkeeper.open_ledger(ledger)
            bookies.restart(1)
            reader = await open_when_reachable(bookkeeper, ledger)
            assert (reader.last_entry, await reader.read(0, 9)) == (9, payloads(10))

    run(main())


def test_an_owner_whose_ledger_was_recovered_stays_fenced_by_bookies_that_lost_their_disks(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            assert (await other.open_ledger(writer.ledger_id)).last_entry == 9
            bookies.kill(2)
            for bookie in bookies[:2]:
                await lose_disk(bookie)
            with pytest.raises(LedgerFenced):
                await writer.append(payloads(1, 10))

    run(main())


def test_an_owner_goes_on_writing_an_open_ledger_of_which_a_bookie_lost_its_copies(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            await lose_disk(bookies[0])
            await writer.append(payloads(10, 10))
            reader = await open_when_reachable(other, writer.ledger_id)
            assert await reader.read(0, reader.last_entry) == payloads(20)

    run(main())


def test_a_ledger_is_recovered_after_two_bookies_lost_their_disks_while_its_owner_went_on(bookies):
    """Any two of three would be an ack quorum, but each bookie tells what it got since."""
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            for number, bookie in enumerate(bookies[:2]):
                await writer.append(payloads(10, 20 * number))
                await lose_disk(bookie)
                await writer.append(payloads(10, 20 * number + 10))
            await writer.abandon()
            reader = await open_when_reachable(other, writer.ledger_id)
            assert await reader.read(0, reader.last_entry) == payloads(40)

    run(main())


def test_a_bookie_younger_than_a_ledger_tells_its_end_though_the_owner_had_nothing_to_send_to_it(bookies):
    bookies.start(3)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(3, 3, 2)
            await writer.append(payloads(10))
            (young,) = bookies.start(1)
            bookies.kill(0)
            await writer.append(payloads(1, 10))
            while young.bookie_id not in writer.metadata.ensemble:
                await asyncio.sleep(0.01)
            while (await read_raw(young, writer.ledger_id, 10)).error:
                await asyncio.sleep(0.01)
            await writer.abandon()
            bookies.kill(1)
            reader = await other.open_ledger(writer.ledger_id)
            assert await reader.read(0, reader.last_entry) == payloads(11)

    run(main())


def test_a_ledger_whose_only_copy_is_lost_is_not_closed_without_its_entries(bookies):
    bookies.start(1)

    async def main():
        async with client(bookies.metadata_url) as one, client(bookies.metadata_url) as other:
            writer = await one.create_ledger(1, 1, 1)
            await writer.append(payloads(10))
            await lose_disk(bookies[0])
            with pytest.raises(RecoveryUndecided, match="drop-ledgers"):
                await other.open_ledger(writer.ledger_id)
            assert (await other.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY

    run(main())


def test_a_ledger_that_a_restored_backup_opens_again_is_recovered_though_a_bookie_lost_its_disk_since(bookies):
    bookies.start(2)

    async def main():
        async with await open_store(bookies.metadata_url) as store, client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            backed_up = writer.metadata
            await writer.append(payloads(10))
            await writer.close()
            await lose_disk(bookies[0])
            await LedgerStore(store).put(writer.ledger_id, backed_up, -1)
            reader = await open_when_reachable(bookkeeper, writer.ledger_id)
            assert await reader.read(0, reader.last_entry) == payloads(10)

    run(main())


LEDGERS = {
    1: LedgerMetadata(1, 1, 1, (Segment(0, ("me:1",)),)),
    2: LedgerMetadata(1, 1, 1, (Segment(0, ("me:1",)),), state=LedgerState.IN_RECOVERY),
    3: LedgerMetadata(1, 1, 1, (Segment(0, ("me:1",)),), state=LedgerState.CLOSED),
    4: LedgerMetadata(1, 1, 1, (Segment(0, ("me:10",)),)),  # its name begins with the bookie's
    5: LedgerMetadata(1, 1, 1, (Segment(0, ("other:1",)),)),
    1 << 40: LedgerMetadata(1, 1, 1, (Segment(0, ("other:1",)), Segment(9, ("me:1",)))),
}


@with_store
async def test_the_ledgers_that_name_a_bookie_are_found_in_every_store(store):
    await initialize(store)
    for ledger, metadata in LEDGERS.items():
        await LedgerStore(store).create(ledger, metadata)
    await store.create(ledger_path(6), b"BookieMetadataFormatVersion\t9\nme:1", parents=True)
    before = await read_tree(store)
    found = {ledger: (record.fenced, record.limbo) for ledger, record in await find_lost(store, "me:1")}
    assert found == {1: (False, True), 2: (True, True), 3: (True, False), 6: (True, True), 1 << 40: (False, True)}
    never_named = await find_lost(store, "never-named:1")
    assert (len(never_named), never_named.known_from) == (0, (1 << 40) + 1)
    assert await read_tree(store) == before


@pytest.mark.parametrize(
    ("flags", "behind", "last"),
    [
        (wire.Flag.RECOVERY_ADD, Code.UNKNOWN_LEDGER_STATE, Code.UNKNOWN_LEDGER_STATE),
        (0, Code.NO_ENTRY, Code.OK),
    ],
)
def test_a_bookie_in_limbo_does_not_say_what_it_had_but_gives_what_it_has(tmp_path, flags, behind, last):
    """Nor is there anything behind what the owner has begun to send; it would send that again."""
    lost = [(7, LedgerData.without_key(fenced=False, limbo=True))]

    async def main():
        async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
            assert (await raw.ask(wire.encode_add(KEY, entry(7, 5, b"new"), flags))).error == Code.OK
            requests = [
                wire.encode_read(7, 5),
                wire.encode_read(7, 4),
                wire.encode_batch_read(7, 0, 1, 10, 1 << 20),
                wire.encode_read(7, 6),
                wire.encode_read(7, wire.LAST_ENTRY),
                wire.encode_read(7, wire.LAST_ENTRY, wire.Flag.FENCE, KEY),
            ]
            unknown = Code.UNKNOWN_LEDGER_STATE
            assert [(await raw.ask(each)).error for each in requests] == [Code.OK, *[unknown] * 2, behind, *[last] * 2]

    run(main())


def test_a_bookie_in_limbo_does_not_say_what_was_confirmed_last(tmp_path):
    lost = [(7, LedgerData.without_key(fenced=False, limbo=True))]

    async def main():
        async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
            raw.send(request(pb.READ_LAC, ledgerId=7))
            (size,) = wire.LENGTH.unpack(await raw.reader.readexactly(wire.LENGTH.size))
            found = pb.Response.FromString(await raw.reader.readexactly(size))
            assert found.readLacResponse.status == pb.EUNKNOWNLEDGERSTATE

    run(main())


def test_a_directory_whose_lost_ledgers_could_not_be_noted_does_not_count_as_served(tmp_path, monkeypatch):
    """The next start looks for them again."""

    def fail(*_):
        raise OSError("the disk is gone")

    async def main():
        directory = BookieDirectory(str(tmp_path / "bookie"))
        directory.begin(new_format("bookie", "instance"))
        bookie = ServingBookie(directory, SMALL)
        with monkeypatch.context() as patched:
            patched.setattr(Index, "put_ledgers", fail)
            with pytest.raises(InvalidBookieDirectory, match="the disk is gone"):
                await bookie.note_lost(LostLedgers())
        assert directory.unserved
        await bookie.note_lost(LostLedgers())
        await bookie.close()
        assert directory.unserved
        directory.finish()
        assert not directory.unserved
        directory.unlock()

    run(main())


def test_the_limbo_of_a_closed_ledger_ends_and_that_of_an_open_one_does_not(tmp_path):
    limbo = LedgerData.without_key(fenced=True, limbo=True)
    lost = [(ledger, limbo) for ledger in (1, 2, 3)]

    async def main():
        async with await open_store("memory:") as store:
            instance = await initialize(store)
            for ledger in (1, 2, 3):
                await LedgerStore(store).create(ledger, LEDGERS[ledger])
            async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
                collector = GarbageCollector(local.bookie, instance, grace_s=0)
                assert await collector.end_limbo(store) == [3]
                answers = [(await raw.ask(wire.encode_read(ledger, 0))).error for ledger in (1, 2, 3)]
                assert answers == [Code.UNKNOWN_LEDGER_STATE, Code.UNKNOWN_LEDGER_STATE, Code.NO_ENTRY]
                fencing = [wire.encode_read(3, number, wire.Flag.FENCE, KEY) for number in (0, wire.LAST_ENTRY)]
                assert [(await raw.ask(each)).error for each in fencing] == [Code.UNKNOWN_LEDGER_STATE] * 2
                assert (await raw.ask(wire.encode_add(KEY, entry(3, 0, b"late")))).error == Code.FENCED

    run(main())


@pytest.mark.parametrize(
    ("ledger", "begun", "proven"), [(6, None, False), (6, wire.Flag.RECOVERY_ADD, False), (6, 0, True), (7, None, True)]
)
def test_a_new_bookie_proves_no_absence_in_ledgers_that_were_there_before_it(tmp_path, ledger, begun, proven):
    """They may have been moved from a former bookie of its name, and a restored backup name it again.

    What an owner writes to it from the first entry on it knows to have.
    """

    async def main():
        async with serving(tmp_path / "bookie", known_from=7):
            pass
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as raw:
            if begun is not None:
                assert (await raw.ask(wire.encode_add(KEY, entry(ledger, 0, b"new"), begun))).error == Code.OK
            fencing = wire.encode_read(ledger, 1, wire.Flag.FENCE, KEY)
            answers = [(await raw.ask(fencing)).error for _ in range(2)]
            assert answers == [Code.NO_ENTRY if proven else Code.UNKNOWN_LEDGER_STATE] * 2

    run(main())


def test_a_copy_that_a_bookie_in_limbo_lacks_is_missing_to_the_replica_check(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            lost = bookies[0].bookie_id
            await lose_disk(bookies[0])
            await writer.append(payloads(1, 10))
            await writer.close()
            found = await bookkeeper.check_ledger(writer.ledger_id)
            assert [(run.bookie_id, run.first, run.last) for run in found.bad] == [(lost, 0, 9)]
            reader = await bookkeeper.open_ledger(writer.ledger_id)
            assert await reader.read(0, 10) == payloads(11)

    run(main())
