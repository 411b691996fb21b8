"""Which rows of a journal file may be written again: those that lie in records whose checksum is right."""

from mledger.bookie import wire
from mledger.bookie.server.storage.journal import file_path
from mledger.bookie.server.storage.records.file_contents import read_contents
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = b"k" * 20


def invert(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        value = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([value ^ 0xFF]))


def test_a_repeated_entry_behind_damage_is_not_among_the_rows_to_move(tmp_path):
    """Moved, it would get a checksum that says that its damaged bytes are right."""

    async def main():
        async with serving(tmp_path) as local, RawBookieClient(local) as client:
            adds = [entry(1, number, b"first") for number in range(4)]
            for each in (*adds, entry(1, 2, b"again", last_add_confirmed=3), entry(1, 4, b"last")):
                assert (await client.ask(wire.encode_add(KEY, each))).error == 0
            bookie = local.bookie

            def rows():
                return read_contents(bookie.index, bookie.journal_path, 1, bookie.salt).rows

            before = rows()
            (again,) = (row for repeated, row in before if repeated)
            invert(file_path(bookie.journal_path, 1), again.offset + again.length - 1)
            return before, again, rows()

    before, again, after = run(main())
    assert (True, again) in before
    assert after == [(repeated, row) for repeated, row in before if row.offset < again.offset]
