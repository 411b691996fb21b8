"""Files are compacted if that saves space."""

import asyncio

from mledger.bookie import wire
from tests.support.bookies.collected_bookie import KEY, LEDGERS, in_cluster
from tests.support.bookies.raw_bookie import RawBookieClient, entry


def test_overhead_around_small_entries_is_not_rewritten_again_and_again(tmp_path):
    async def test(cluster):
        garbage, small = cluster.local.bookie.counters.garbage, range(10, 20_010)
        await asyncio.gather(*(cluster.create(number) for number in small))
        async with RawBookieClient(cluster.local) as client:
            client.send(b"".join(wire.encode_add(KEY, entry(number, 0, b"x")) for number in small))
            assert {(await client.response()).error for _ in small} == {0}
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        emptied = []
        for _ in range(5):
            await cluster.collector.run(cluster.store)
            emptied.append(garbage.files_emptied)
        assert emptied[1:] == emptied[1:2] * 4

    in_cluster(tmp_path, test)
