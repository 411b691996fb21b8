"""A bookie on an older copy of its directory knows that it lacks entries and fences, once FORMAT says so."""

import shutil

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, RecoveryUndecided
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.ledgers import client, lay_down_ledger, open_when_reachable, payloads, store_raw, stored_entry
from tests.support.zookeeper.server import SHORT_SESSION_S

KEY, OTHER = master_key(b""), master_key(b"other")


def put_back(bookie, copy):
    """Replace a killed bookie's directory with an older copy, as the documentation says."""
    shutil.rmtree(bookie.directory)
    shutil.copytree(copy, bookie.directory)
    text = (bookie.directory / "FORMAT").read_text()
    assert text.endswith("complete yes\n")
    (bookie.directory / "FORMAT").write_text(text.replace("complete yes", "complete no"))


def test_an_older_copy_does_not_prove_that_later_entries_never_were(bookies, tmp_path):
    """Five entries are in the copy; ten are acknowledged by the bookies 0 and 1; bookie 2 lags."""
    bookies.start(3, "--session-timeout", str(SHORT_SESSION_S))  # a killed bookie's registration is waited for

    async def main():
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:3], 3, 2)
        for number, payload in enumerate(payloads(10)):
            if number == 5:
                bookies.kill(0)
                shutil.copytree(bookies[0].directory, tmp_path / "copy")
                bookies[0].start()
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in bookies[:2]:
                await store_raw(bookie, stored)
        bookies.kill(0)
        put_back(bookies[0], tmp_path / "copy")
        bookies[0].start()
        bookies.restart(0)  # what it noted survives a kill
        bookies.kill(1)
        async with client(bookies.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided):
                await bookkeeper.open_ledger(ledger)
            bookies.restart(1)
            reader = await open_when_reachable(bookkeeper, ledger)
            assert (reader.last_entry, await reader.read(0, 9)) == (9, payloads(10))

    run(main())


def test_fences_and_keys_of_an_older_copy_stay(tmp_path):
    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as raw:
            assert (await raw.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == 0
            assert (await raw.ask(wire.encode_read(1, 0, wire.Flag.FENCE, KEY))).error == 0
        lost = [(1, LedgerData.without_key(fenced=False, limbo=True))]
        async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
            asked = (
                wire.encode_add(OTHER, entry(1, 1, b"x")),
                wire.encode_add(KEY, entry(1, 1, b"x")),
                wire.encode_read(1, 0),
                wire.encode_read(1, 1),
            )
            return [(await raw.ask(each)).error for each in asked]

    assert run(main()) == [Code.UNAUTHORIZED, Code.FENCED, Code.OK, Code.UNKNOWN_LEDGER_STATE]


def test_what_an_owner_sent_before_an_older_copy_was_put_back_proves_nothing_any_more(tmp_path):
    lost = [(1, LedgerData.without_key(fenced=False, limbo=True))]

    async def main():
        async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
            assert (await raw.ask(wire.encode_add(KEY, entry(1, 5, b"x")))).error == Code.OK
            assert (await raw.ask(wire.encode_read(1, 6))).error == Code.NO_ENTRY
        async with serving(tmp_path / "bookie", lost=lost) as local, RawBookieClient(local) as raw:
            assert (await raw.ask(wire.encode_read(1, 6))).error == Code.UNKNOWN_LEDGER_STATE

    run(main())
