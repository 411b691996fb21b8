"""A bookie says that an entry is missing only where its ledger has none, never where the disk has changed it."""

import os

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.journal import file_path
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
ENTRIES = 10


def with_flipped_id(tmp_path, number, ask):
    """The code of a bookie's answer to `ask` once a bit of an entry's id has flipped on its disk."""

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            client.send(b"".join(wire.encode_add(KEY, entry(1, each, b"payload")) for each in range(ENTRIES)))
            for _ in range(ENTRIES):
                assert (await client.response()).error == 0
            (row,) = local.bookie.index.runs(1)
            stride = row.length // ENTRIES
            at = row.offset + number * stride + wire.ENTRY_AT + 8
            file = os.open(file_path(local.bookie.journal_path, row.file), os.O_RDWR)
            (byte,) = os.pread(file, 1, at)
            os.pwrite(file, bytes((byte ^ 1,)), at)
            os.close(file)
            return (await client.ask(ask)).error

    return run(main())


@pytest.mark.parametrize(
    ("number", "ask"),
    [
        pytest.param(5, wire.encode_read(1, 5), id="in the middle"),
        pytest.param(0, wire.encode_read(1, 0), id="the first"),
        pytest.param(9, wire.encode_read(1, wire.LAST_ENTRY), id="the last"),
        pytest.param(9, wire.encode_read(1, 9, wire.Flag.FENCE, KEY), id="by recovery"),
        pytest.param(5, wire.encode_batch_read(1, 5, 1, 3, 1000), id="by a batch read"),
    ],
)
def test_an_entry_whose_id_is_damaged_is_unreadable_not_missing(tmp_path, number, ask):
    assert with_flipped_id(tmp_path, number, ask) == Code.IO_ERROR


def test_an_entry_that_was_never_added_is_missing(tmp_path):
    assert with_flipped_id(tmp_path, 5, wire.encode_read(1, ENTRIES)) == Code.NO_ENTRY


def test_a_batch_read_ends_before_a_run_that_is_unreadable(tmp_path):
    """If it was refused, a range of which each replica has lost another entry could be read nowhere."""

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            for each in range(ENTRIES):
                assert (await client.ask(wire.encode_add(KEY, entry(1, each, b"payload")))).error == 0
            row = local.bookie.index.run_at(1, 5)
            with open(file_path(local.bookie.journal_path, row.file), "r+b") as file:
                file.seek(row.offset + wire.ENTRY_AT + 8)
                file.write(b"\1")
            answers = [await client.ask(wire.encode_batch_read(1, first, 1, ENTRIES, 1 << 20)) for first in (0, 5, 6)]
            return [(each.error, [*wire.batch_entries(each.body)]) for each in answers]

    def entries(first, last):
        return [entry(1, each, b"payload") for each in range(first, last + 1)]

    assert run(main()) == [(Code.OK, entries(0, 4)), (Code.IO_ERROR, []), (Code.OK, entries(6, 9))]
