"""Bookies that accept connections and never answer: every caller stops waiting for them (Q11).

Each joins the ensemble when no other is waited for any more, so that no timer of an earlier add is running.
"""

import asyncio

import pytest
from msgspec.structs import replace

from mledger.bookie.client.connections import quarantine
from mledger.bookie.client.connections.pool import Lane
from mledger.bookie.client.ledgers.ensembles.ensemble_changes import EnsembleChanges
from mledger.bookie.errors import BookieUnavailable, NotEnoughBookies
from mledger.metastore.records.ledger_metadata import LedgerState
from tests.support.aio import run
from tests.support.bookies.silent_bookie import silent_bookie
from tests.support.ledgers import QUICK, client, holders, lay_down_ledger, payloads, store_raw, stored_entry

IMPATIENT = replace(QUICK, add_timeout_s=1.0, read_timeout_s=1.0)
STANDSTILL_S = 60.0


async def until(condition):
    """Return once `condition` holds."""
    while not condition():
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def long_changes(monkeypatch):
    """Changes of ensemble that last until the timer of adds has stopped, as with a busy metadata store.

    Returns the changes that were made, as the bookies after each.
    """
    change, made = EnsembleChanges._change, []

    async def change_later(self, found):
        await until(lambda: self._on_change.__self__._progress._timer is None)
        await change(self, found)
        made.append(self.ensemble)

    monkeypatch.setattr(EnsembleChanges, "_change", change_later)
    return made


def test_a_silent_replacement_is_replaced_in_turn(bookies):
    bookies.start(2)

    async def main():
        async with (
            client(bookies.metadata_url, IMPATIENT) as bookkeeper,
            silent_bookie(bookies.metadata_url) as silent,
        ):
            writer = await bookkeeper.create_ledger(1, 1, 1)
            while silent in writer.metadata.ensemble:
                writer = await bookkeeper.create_ledger(1, 1, 1)
            dead, spare = (0, 1) if bookies[0].bookie_id in writer.metadata.ensemble else (1, 0)
            bookies.kill(spare)
            bookies.kill(dead)
            appended = writer.append(payloads(10))
            await until(lambda: silent in writer.metadata.ensemble)
            back = bookies.restart(spare)
            assert await appended == 0
            assert writer.metadata.ensemble == (back.bookie_id,)
            assert await holders([back], writer.ledger_id, 9)

    run(main(), timeout=STANDSTILL_S)


def test_with_none_but_silent_bookies_left_appends_fail_and_the_ledger_is_closed(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url, IMPATIENT) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            async with silent_bookie(bookies.metadata_url) as silent:
                bookies.kill(0)
                appended = writer.append(payloads(10, 10))
                await until(lambda: silent in writer.metadata.ensemble)
                with pytest.raises(NotEnoughBookies, match="acknowledged nothing for 1 s"):
                    await appended
                closed = await writer.close()
            assert (closed.state, closed.last_entry) == (LedgerState.CLOSED, 9)

    run(main(), timeout=STANDSTILL_S)


def test_a_close_that_waits_for_a_silent_replacement_ends(bookies):
    bookies.start(2)

    async def main():
        async with client(bookies.metadata_url, IMPATIENT) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            await writer.append(payloads(10))
            async with silent_bookie(bookies.metadata_url):
                bookies.kill(0)
                appended = writer.append(payloads(10, 10))
                closed = await writer.close()
            assert (closed.state, closed.last_entry) == (LedgerState.CLOSED, 9)
            assert isinstance(appended.exception(), NotEnoughBookies)

    run(main(), timeout=STANDSTILL_S)


def test_two_silent_bookies_are_not_chosen_alternately(bookies):
    bookies.start(2)

    async def main():
        url = bookies.metadata_url
        config = replace(IMPATIENT, quarantine_s=0.1)
        async with client(url, config) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            async with silent_bookie(url) as one, silent_bookie(url) as other:
                bookies.kill(0)
                with pytest.raises(NotEnoughBookies):
                    await writer.append(payloads(10))
                assert {one, other} & set(writer.metadata.ensemble)
                assert len(writer.metadata.segments) == 1
                assert writer._replication._changes._count == 2

    run(main(), timeout=STANDSTILL_S)


def test_a_recovery_replaces_a_silent_replacement_in_turn(bookies, long_changes):
    bookies.start(4)

    async def main():
        url = bookies.metadata_url
        ledger = await lay_down_ledger(url, bookies[:3], 3, 3)
        await store_raw(bookies[0], stored_entry(ledger, 0, b"first", 5, -1))
        for number in (2, 3):
            bookies.kill(number)
        async with client(url, IMPATIENT) as bookkeeper, silent_bookie(url) as silent:
            opening = asyncio.ensure_future(bookkeeper.open_ledger(ledger))
            await until(lambda: opening.done() or any(silent in ensemble for ensemble in long_changes))
            back = bookies.restart(3)
            reader = await opening
            assert reader.last_entry == 0
            assert reader.metadata.ensemble == (bookies[0].bookie_id, bookies[1].bookie_id, back.bookie_id)
            assert await holders([back], ledger, 0)

    run(main(), timeout=STANDSTILL_S)


def test_a_recovery_with_only_silent_replacements_says_so(bookies):
    bookies.start(3)

    async def main():
        url = bookies.metadata_url
        ledger = await lay_down_ledger(url, bookies[:3], 3, 3)
        await store_raw(bookies[0], stored_entry(ledger, 0, b"first", 5, -1))
        bookies.kill(2)
        async with client(url, IMPATIENT) as bookkeeper, silent_bookie(url):
            with pytest.raises(NotEnoughBookies):
                await bookkeeper.open_ledger(ledger)
            assert (await bookkeeper.metadata(ledger)).state is LedgerState.IN_RECOVERY

    run(main(), timeout=STANDSTILL_S)


def test_a_frozen_replacement_is_replaced_in_turn(bookies):
    bookies.start(4)

    async def main():
        async with client(bookies.metadata_url, IMPATIENT) as bookkeeper:
            writer = await bookkeeper.create_ledger(2, 2, 2)
            members = [number for number, each in enumerate(bookies) if each.bookie_id in writer.metadata.ensemble]
            spare = [number for number in range(4) if number not in members]
            frozen, other = spare
            bookies.freeze(frozen)
            bookies.kill(other)
            try:
                bookies.kill(members[0])
                appended = writer.append(payloads(10))
                await until(lambda: bookies[frozen].bookie_id in writer.metadata.ensemble)
                bookies.restart(other)
                assert await appended == 0
            finally:
                bookies.thaw(frozen)
            assert set(writer.metadata.ensemble) == {bookies[members[1]].bookie_id, bookies[other].bookie_id}

    run(main(), timeout=STANDSTILL_S)


def test_an_accepted_connection_is_no_sign_of_life_from_a_silent_bookie(cluster_url, monkeypatch):
    monkeypatch.setattr(quarantine, "_ASK_AGAIN_S", 0.0)

    async def main():
        config = replace(IMPATIENT, silence_timeout_s=0.2)
        async with client(cluster_url, config) as bookkeeper, silent_bookie(cluster_url) as silent:
            pool = bookkeeper._pool
            connection = await pool.connection(silent)
            with pytest.raises(BookieUnavailable):
                await connection.read(1, 0)
            given_up_at = asyncio.get_running_loop().time()
            await until(lambda: asyncio.get_running_loop().time() > given_up_at)
            await pool.connection(silent, Lane.RECOVERY)
            assert pool.quarantine.silent() == {silent}

    run(main(), timeout=STANDSTILL_S)
