"""Slow bookies: nobody waits long while another can be asked, and callers learn for whom they wait (Q11)."""

import asyncio
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from mledger.bookie.errors import BookieUnavailable
from tests.support.aio import HANG_S, run
from tests.support.bookies.silent_bookie import silent_bookie
from tests.support.ledgers import QUICK, client, lay_down_ledger, payloads, store_raw, stored_entry

COUNT = 30
PATIENT = replace(QUICK, speculative_read_s=0.1, read_timeout_s=HANG_S, silence_timeout_s=HANG_S)
"""A client that waits for good for a silent bookie."""


async def lay_down(bookies, silent, write_quorum=3, ack_quorum=2, **closed):
    """A ledger whose second bookie is silent."""
    ensemble = (bookies[0], SimpleNamespace(bookie_id=silent), bookies[1])
    ledger = await lay_down_ledger(bookies.metadata_url, ensemble, write_quorum, ack_quorum, **closed)
    for number, payload in enumerate(payloads(COUNT)):
        stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
        await asyncio.gather(*(store_raw(bookie, stored) for bookie in bookies[:2]))
    return ledger


@pytest.mark.parametrize("write_quorum", [3, 2])
def test_a_read_continues_with_the_next_bookie(bookies, write_quorum):
    bookies.start(2)

    async def main():
        url = bookies.metadata_url
        async with silent_bookie(url) as silent, client(url, PATIENT) as bookkeeper:
            ledger = await lay_down(bookies, silent, write_quorum, last_entry=COUNT - 1, length=20 * COUNT)
            reader = await bookkeeper.open_ledger(ledger)
            for entry in range(6):
                assert await reader.read(entry, entry) == payloads(1, entry)
            assert await reader.read(0, COUNT - 1) == payloads(COUNT)
            assert bookkeeper._pool.quarantine.failed() == {silent}

    run(main(), timeout=60.0)


def test_a_peek_needs_no_more_bookies_than_can_prove_the_end(bookies):
    bookies.start(2)

    async def main():
        url = bookies.metadata_url
        async with silent_bookie(url) as silent, client(url, PATIENT) as bookkeeper:
            peek = await bookkeeper.peek(await lay_down(bookies, silent))
            assert (peek.last_entry, peek.last_add_confirmed) == (COUNT - 1, COUNT - 2)
            assert any(silent in warning for warning in peek.warnings)

    run(main(), timeout=60.0)


def test_a_recovery_needs_no_more_bookies_than_can_prove_the_end(bookies):
    bookies.start(3)

    async def main():
        url = bookies.metadata_url
        config = replace(PATIENT, add_timeout_s=1.0)
        async with silent_bookie(url) as silent, client(url, config) as bookkeeper:
            reader = await bookkeeper.open_ledger(await lay_down(bookies, silent))
            assert reader.last_entry == COUNT - 1

    run(main(), timeout=60.0)


def test_a_silent_bookie_costs_one_time_out_and_is_not_asked_again_until_it_answers(bookies):
    bookies.start(1)

    async def main():
        url = bookies.metadata_url
        config = replace(PATIENT, silence_timeout_s=0.5)
        async with client(url, config) as bookkeeper:
            connection = await bookkeeper._pool.connection(bookies[0].bookie_id)
            bookies.freeze(0)
            try:
                with pytest.raises(BookieUnavailable, match="no answer to a read"):
                    await connection.read(7, 0)
                refused = connection.read(7, 0)
                assert refused.done()
                with pytest.raises(BookieUnavailable, match="has not been heard since"):
                    await refused
            finally:
                bookies.thaw(0)
            while bookkeeper._pool.quarantine.silent():  # it answers what it was asked before
                await asyncio.sleep(0.01)
            assert (await connection.read(7, 0))[0]

    run(main(), timeout=60.0)


def test_a_waiting_caller_learns_for_which_bookie_it_waits(bookies):
    bookies.start(1)

    async def main():
        url = bookies.metadata_url
        told = asyncio.get_running_loop().create_future()
        async with silent_bookie(url) as silent, client(url, PATIENT) as bookkeeper:
            bookkeeper.on_waiting = lambda *what: told.done() or told.set_result(what)
            connection = await bookkeeper._pool.connection(silent)
            reading = connection.read(7, 0)
            bookie_id, waited_s = await told
            assert bookie_id == silent
            assert waited_s >= 1.0
            reading.cancel()

    run(main(), timeout=60.0)
