"""After a power loss everything that a bookie served exists, even what it had only found in the page cache (Q10)."""

import os

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.server.process.bookie import BookieConfig
from mledger.bookie.server.serving.group_commit import JournalTurn
from mledger.bookie.server.storage import journal as journal_module
from mledger.bookie.server.storage.directories import directory as directory_module
from mledger.bookie.server.storage.journal import BLOCK, RECORD, checksum, file_path
from mledger.bookie.server.storage.records.journal_changes import ChangeKind
from tests.support.aio import run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.power_loss import ListedAtSync, RememberedSyncs
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
CONFIG = BookieConfig(journal_file_bytes=1 << 20)


def write_unsynced(path, salt, place, sequence, numbers):
    """Write adds of ledger 1 as a record after all others, like a process that is killed before its sync."""
    turn = JournalTurn()
    frames = b"".join(wire.encode_add(KEY, entry(1, number, b"x")) for number in numbers)
    turn.keep(ChangeKind.RUN, 1, numbers[0], numbers[-1], frames)
    turn.seal()
    word = turn.kind << 30 | turn.size
    head = RECORD.pack(sequence, word, checksum(salt, sequence, word, turn.chunks))
    file = os.open(path, os.O_RDWR)
    os.pwrite(file, b"".join((head, *turn.chunks)), place)
    os.close(file)


async def add(local, numbers):
    """Add entries to ledger 1, one request each."""
    async with RawBookieClient(local) as client:
        for number in numbers:
            assert (await client.ask(wire.encode_add(KEY, entry(1, number, b"x")))).error == 0


async def errors(local, numbers):
    """The answers to reads of entries of ledger 1."""
    async with RawBookieClient(local) as client:
        return [(await client.ask(wire.encode_read(1, number))).error for number in numbers]


def test_everything_served_after_a_restart_survives_a_power_loss(tmp_path, monkeypatch):
    directory, journal = tmp_path / "bookie", tmp_path / "bookie" / "journal"

    async def before():
        async with serving(directory, config=CONFIG) as local:
            await add(local, range(20))
            return local.bookie.salt, local.bookie.turns.file

    salt, file = run(before())
    syncs = RememberedSyncs(journal)
    write_unsynced(file_path(str(journal), file), salt, 20 * BLOCK, 21, range(20, 40))

    async def between():
        monkeypatch.setattr(journal_module, "os", syncs)
        async with serving(directory, config=CONFIG) as local:
            assert await errors(local, range(40)) == [0] * 40
            await add(local, range(40, 60))
            copy_as_killed(directory, tmp_path / "copy")
            syncs.lose(journal, tmp_path / "copy" / "journal")
        monkeypatch.undo()

    run(between())

    async def after():
        async with serving(tmp_path / "copy", config=CONFIG) as local:
            return await errors(local, range(60))

    assert run(after()) == [0] * 60


class Interrupted(Exception):
    """The first start ends here."""


def test_the_index_of_a_first_start_is_durable_before_the_journal_has_a_file(tmp_path, monkeypatch):
    syncs = ListedAtSync(tmp_path / "bookie")
    monkeypatch.setattr(directory_module, "os", syncs)

    def interrupt(*_):
        raise Interrupted

    monkeypatch.setattr(journal_module.Journal, "open", interrupt)

    async def start():
        async with serving(tmp_path / "bookie", config=CONFIG):
            pass

    with pytest.raises(Interrupted):
        run(start())
    assert {"journal", "store"} <= set(syncs.durable)
