"""A bookie that starts with a new directory, or an older copy, while its former process still serves."""

import asyncio

import pytest

from mledger.bookie.errors import RecoveryUndecided
from mledger.metastore.cluster.cookies import delete_cookie
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieProcesses
from tests.support.ledgers import client, lay_down_ledger, open_when_reachable, payloads, store_raw, stored_entry


async def logged(bookie, event: str) -> None:
    """Return once the bookie has logged an event."""
    while event not in bookie.log():
        await asyncio.sleep(0.02)


def test_what_the_former_process_still_acknowledges_is_not_proven_absent(bookies: BookieProcesses):
    """Ten entries are acknowledged by the bookies 0 and 1; bookie 2 lags. Bookie 0 has a successor by then."""
    former = bookies.add("--bookie-id", "replaced")
    former.start()
    bookies.start(2)
    successor = bookies.add("--bookie-id", "replaced")

    async def main():
        async with await open_store(bookies.metadata_url) as store:
            await delete_cookie(store, former.bookie_id, ANY_VERSION)
        successor.launch()
        await logged(successor, "registration_waited_for")
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:3], 3, 2)
        for number, payload in enumerate(payloads(10)):
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in bookies[:2]:
                await store_raw(bookie, stored)
        former.stop()
        await asyncio.to_thread(successor.wait_serving)
        bookies.kill(1)
        async with client(bookies.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided):
                await bookkeeper.open_ledger(ledger)
            bookies.restart(1)
            reader = await open_when_reachable(bookkeeper, ledger)
            assert (reader.last_entry, await reader.read(0, 9)) == (9, payloads(10))

    run(main())
