"""A collection where the index is damaged."""

from mledger.bookie import wire
from mledger.bookie.server.storage.journal import file_numbers
from tests.support.bookies.collected_bookie import FILE, KEY, LEDGERS, in_cluster
from tests.support.bookies.raw_bookie import RawBookieClient, entry


def test_a_ledger_whose_rows_are_damaged_keeps_no_other_from_being_deleted(tmp_path, monkeypatch):
    async def test(cluster):
        needed_bytes = cluster.local.bookie.index.needed_bytes

        def damaged(ledger):
            if ledger == 1:
                raise Exception("Corruption: block checksum mismatch")
            return needed_bytes(ledger)

        monkeypatch.setattr(cluster.local.bookie.index, "needed_bytes", damaged)
        for ledger in (1, 2):
            await cluster.ledgers.delete(ledger)
        assert await cluster.collector.collect(cluster.store) == [2]
        assert cluster.local.bookie.counters.garbage.failures == 1
        monkeypatch.undo()
        assert await cluster.collector.collect(cluster.store) == [1]

    in_cluster(tmp_path, test)


def test_a_ledger_whose_rows_are_damaged_keeps_no_journal_file_that_lacks_it(tmp_path, monkeypatch):
    async def test(cluster):
        bookie = cluster.local.bookie
        runs = bookie.index.runs

        def damaged(ledger, first=0):
            if ledger == 9:
                raise Exception("Corruption: block checksum mismatch")
            return runs(ledger, first)

        await cluster.create(9)
        async with RawBookieClient(cluster.local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(9, 0, b"x")))).error == 0
        await cluster.fill()
        monkeypatch.setattr(bookie.index, "runs", damaged)
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        files = len(file_numbers(bookie.journal_path))
        await cluster.collector.run(cluster.store)
        found = bookie.counters.garbage
        assert (found.failures, found.damaged_files) == (0, 1)
        assert found.bytes_reclaimed == (files - 2) * FILE  # all but the damaged ledger's and the one being written

    in_cluster(tmp_path, test)
