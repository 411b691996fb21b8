"""Whoever waits for adds is told for which bookie."""

import asyncio

from mledger.bookie.client.config import ClientConfig
from tests.support.aio import run
from tests.support.ledgers import client, payloads


def test_who_waits_for_adds_is_told_for_which_bookie(bookies):
    frozen, _ = bookies.start(2)

    async def main():
        async with client(bookies.metadata_url, ClientConfig()) as bookkeeper:
            told = asyncio.get_running_loop().create_future()
            bookkeeper.on_waiting = lambda bookie_id, waited_s: told.done() or told.set_result(bookie_id)
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(1))
            frozen.freeze()
            try:
                appended = writer.append(payloads(1))
                assert await told == frozen.bookie_id
                assert not appended.done()
            finally:
                frozen.thaw()
            assert await appended == 1

    run(main())
