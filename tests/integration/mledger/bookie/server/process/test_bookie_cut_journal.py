"""A bookie whose journal was cut off does not prove that what it acknowledged never was (Q9)."""

import os
import shutil

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, InvalidBookieDirectory, RecoveryUndecided
from mledger.bookie.server.storage.journal import BLOCK
from tests.support.aio import run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.processes import BookieFailed
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.ledgers import client, lay_down_ledger, open_when_reachable, payloads, store_raw, stored_entry
from tests.support.zookeeper.server import SHORT_SESSION_S

KEY = master_key(b"")
SIZE = 300 << 10


def newest(journal):
    """The journal file that was written last."""
    return max(journal.glob("0*.journal"))


def test_entries_behind_the_cut_are_sought_at_the_other_bookies(bookies, tmp_path):
    """Each entry is on the bookies 0 and 1; recovery may replace one by bookie 2."""
    bookies.start(3, "--session-timeout", str(SHORT_SESSION_S))  # a killed bookie's registration is waited for

    async def main():
        ledger = await lay_down_ledger(bookies.metadata_url, bookies[:2], 2, 2)
        for number, payload in enumerate(payloads(10)):
            stored = stored_entry(ledger, number, payload, 20 * (number + 1), number - 1)
            for bookie in bookies[:2]:
                await store_raw(bookie, stored)
        for number in (0, 1):
            bookies.kill(number)
        file = newest(bookies[0].directory / "journal")
        os.truncate(file, 5 * BLOCK)
        with pytest.raises(BookieFailed, match=f"{file.name}: cut off"):
            bookies[0].start()
        text = (bookies[0].directory / "FORMAT").read_text()
        (bookies[0].directory / "FORMAT").write_text(text.replace("complete yes", "complete no"))
        bookies[0].start()
        async with client(bookies.metadata_url) as bookkeeper:
            with pytest.raises(RecoveryUndecided):
                await bookkeeper.open_ledger(ledger)
            bookies[1].start()
            reader = await open_when_reachable(bookkeeper, ledger)
            assert (reader.last_entry, await reader.read(0, 9)) == (9, payloads(10))

    run(main())


def test_a_file_that_began_while_the_bookie_ran_is_known_too(tmp_path):
    path = tmp_path / "bookie"

    async def add(raw, number):
        assert (await raw.ask(wire.encode_add(KEY, entry(1, number, bytes(SIZE))))).error == 0

    async def main():
        async with serving(path) as local:
            async with RawBookieClient(local) as raw:
                for number in range(6):
                    await add(raw, number)
                await local.bookie.turns.flushes.done()
                await add(raw, 6)
            whole = copy_as_killed(path, tmp_path / "whole")
        cut = shutil.copytree(whole, tmp_path / "cut")
        file = newest(cut / "journal")
        assert file.name > "00000001.journal"
        os.truncate(file, SIZE)
        with pytest.raises(InvalidBookieDirectory, match=f"{file.name}: cut off"):
            async with serving(cut):
                pass
        async with serving(whole) as local, RawBookieClient(local) as raw:
            assert [(await raw.ask(wire.encode_read(1, number))).error for number in range(7)] == [Code.OK] * 7

    run(main())


def test_a_journal_that_was_put_back_from_an_older_copy_beside_its_index_is_refused(tmp_path):
    path = tmp_path / "bookie"

    async def main():
        async with serving(path) as local:
            async with RawBookieClient(local) as raw:
                assert (await raw.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == 0
                older = copy_as_killed(path, tmp_path / "older")
                assert (await raw.ask(wire.encode_add(KEY, entry(1, 1, b"x")))).error == 0
                local.bookie.index.flush()
                assert (await raw.ask(wire.encode_add(KEY, entry(1, 2, b"x")))).error == 0
            copy = copy_as_killed(path, tmp_path / "copy")
        for file in (older / "journal").glob("0*.journal"):
            shutil.copyfile(file, copy / "journal" / file.name)
        with pytest.raises(InvalidBookieDirectory, match="older copy"):
            async with serving(copy):
                pass

    run(main())
