"""A collection where the index is damaged."""

from tests.support.bookies.collected_bookie import in_cluster


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
