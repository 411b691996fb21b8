"""A bookie whose journal files have numbers of more than eight digits."""

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from mledger.bookie.server.storage.journal import file_numbers, file_path
from tests.support.aio import run
from tests.support.bookies.bookie_copies import copy_as_killed
from tests.support.bookies.local_bookie import SMALL, serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY, LAST_OF_EIGHT = master_key(b""), 99_999_999


def test_what_is_in_files_of_nine_digits_is_there_after_a_kill(tmp_path):
    path = tmp_path / "bookie"

    async def main():
        async with serving(path):
            pass
        with open(file_path(str(path / "journal"), LAST_OF_EIGHT - 1), "wb") as file:
            file.truncate(SMALL.journal_file_bytes)
        async with serving(path) as local, RawBookieClient(local) as raw:
            for number in range(5):  # the last ones are in the next file, which the index on disk may not name yet
                assert (await raw.ask(wire.encode_add(KEY, entry(1, number, bytes(300 << 10))))).error == 0
            copy = copy_as_killed(path, tmp_path / "copy")
        assert max(file_numbers(str(copy / "journal"))) > LAST_OF_EIGHT
        async with serving(copy) as local, RawBookieClient(local) as raw:
            assert [(await raw.ask(wire.encode_read(1, number))).error for number in range(5)] == [Code.OK] * 5

    run(main())
