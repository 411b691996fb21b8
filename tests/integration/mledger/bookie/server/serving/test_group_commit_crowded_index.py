"""Turns wait for an index that has no room for their rows; everything else goes on meanwhile."""

import asyncio

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.storage.rows.index import Index
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")


def add(ledger, number):
    return wire.encode_add(KEY, entry(ledger, number, b"x"))


def test_an_add_waits_for_room_in_the_index_while_reads_are_answered(tmp_path, monkeypatch):
    async def main():
        crowded, flushed = [False], asyncio.Event()
        loop, flush = asyncio.get_running_loop(), Index.flush

        def flush_noted(index):
            loop.call_soon_threadsafe(flushed.set)
            flush(index)

        local = serving(tmp_path / "bookie")
        async with local as bookie, RawBookieClient(bookie) as writer, RawBookieClient(bookie) as reader:
            assert (await writer.ask(add(1, 0))).error == 0
            monkeypatch.setattr(Index, "crowded", property(lambda _: crowded[0]))
            monkeypatch.setattr(Index, "flush", flush_noted)
            crowded[0] = True
            answer = asyncio.ensure_future(writer.ask(add(1, 1)))
            await flushed.wait()
            pending = await reader.ask(wire.encode_read(1, 1)), await reader.ask(wire.encode_read(1, 0))
            assert [each.error for each in pending] == [0, 0]
            assert not answer.done()
            crowded[0] = False
            assert (await answer).error == 0
            assert (await reader.ask(wire.encode_read(1, 1))).body == entry(1, 1, b"x")

    run(main())


def test_no_ledger_is_deleted_from_an_index_without_room(tmp_path, monkeypatch):
    async def main():
        async with serving(tmp_path / "bookie") as bookie, RawBookieClient(bookie) as client:
            assert (await client.ask(add(1, 0))).error == 0
            turns, index = bookie.bookie.turns, bookie.bookie.index
            state = turns.ledgers.get(1)
            with monkeypatch.context() as patch:
                patch.setattr(Index, "crowded", property(lambda _: True))
                assert not turns.delete(1, (state, state.commit), index.needed_bytes(1))
            assert (await client.ask(wire.encode_read(1, 0))).error == 0
            assert turns.delete(1, (state, state.commit), index.needed_bytes(1))

    run(main())
