"""A bookie's parts, and its connections, end in order."""

import asyncio
import contextlib
import threading

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from tests.support.aio import HANG_S, run
from tests.support.bookies.collected_bookie import LEDGERS, in_cluster
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")


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


def test_a_bookie_that_ends_answers_what_it_accepted_and_ends_its_connections(tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            local = await stack.enter_async_context(serving(tmp_path / "bookie"))
            async with RawBookieClient(local) as client:
                client.send(wire.encode_add(KEY, entry(1, 0, b"payload")))
                while not local.bookie.turns.unsynced_adds:
                    await asyncio.sleep(0)
                await stack.aclose()
                return await client.closed()

    answers = run(main())
    assert wire.decode_response(answers).entry == 0


def test_a_bookie_that_is_cut_off_answers_nothing_that_it_accepted(tmp_path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            local = await stack.enter_async_context(serving(tmp_path / "bookie"))
            async with RawBookieClient(local) as client:
                client.send(wire.encode_add(KEY, entry(1, 0, b"payload")))
                while not local.bookie.turns.unsynced_adds:
                    await asyncio.sleep(0)
                local.bookie.cut_off()
                await stack.aclose()
                return await client.closed()

    assert run(main()) == b""
