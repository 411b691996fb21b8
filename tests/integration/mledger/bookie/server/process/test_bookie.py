"""A bookie's parts end in order."""

import asyncio
import threading

from tests.support.aio import HANG_S
from tests.support.bookies.collected_bookie import LEDGERS, in_cluster


def test_a_stop_waits_for_what_a_cancelled_collection_still_does_with_the_index(tmp_path, monkeypatch):
    began, go_on, did = threading.Event(), threading.Event(), []

    async def test(cluster):
        index, loop = cluster.local.bookie.index, asyncio.get_running_loop()
        compact = index.compact

        def compact_late():
            began.set()
            go_on.wait(HANG_S)
            compact()
            did.append("compacted")

        monkeypatch.setattr(index, "compact", compact_late)
        for ledger in LEDGERS:
            await cluster.ledgers.delete(ledger)
        collecting = asyncio.ensure_future(cluster.collector.run(cluster.store))
        await asyncio.to_thread(began.wait, HANG_S)
        collecting.cancel()
        close = index.close

        def closed():
            did.append("closed")
            close()
            go_on.set()

        monkeypatch.setattr(index, "close", closed)
        loop.call_later(2.0, go_on.set)  # without waiting, the index would be closed by then

    in_cluster(tmp_path, test)
    assert did == ["compacted", "closed"]
