"""A block of the index that is damaged ends a bookie once, when RocksDB compacts it, and not at each start."""

import shutil

import pytest

from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.index_damage import NAME, note_damage
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving

ROWS = 20_000


def put(index, ledger, sequence):
    """Put and commit a row of a ledger."""
    index.put_run(Row(ledger, 0, 9, 1, 16, 100))
    index.commit(sequence, 1)


@pytest.fixture
def damaged(tmp_path):
    """The directory of an index with an inverted byte in the middle of its rows."""
    index = Index(str(tmp_path / "store"))
    for number in range(ROWS):
        index.put_run(Row(1, number, number, 1, number, 100))
    index.commit(2, 1)
    index.flush()
    index.close()
    largest = max((tmp_path / "store").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 3] ^= 0xFF
    largest.write_bytes(data)
    return tmp_path / "store"


def test_damage_that_a_compaction_meets_is_noted_and_the_index_takes_rows_after_the_next_start(damaged, tmp_path):
    index = Index(str(damaged))
    assert not index.damaged
    index.compact()
    with pytest.raises(Exception, match="Corruption"):
        put(index, 2, 3)
    shutil.copytree(damaged, tmp_path / "killed")
    index = Index(str(tmp_path / "killed"))
    assert index.damaged
    put(index, 2, 3)
    index.flush()
    assert index.last_run(2).last == 9
    index.close()


def test_a_bookie_does_not_compact_an_index_that_is_damaged(tmp_path):
    async def compacts():
        async with serving(tmp_path / "bookie") as local:
            return local.bookie.index.compacted, local.bookie.may_compact(0)

    assert run(compacts()) == (True, True)
    note_damage(str(tmp_path / "bookie" / "store"), Exception("Corruption: block checksum mismatch"))
    assert run(compacts()) == (False, False)


@pytest.mark.parametrize(
    ("said", "noted"),
    [
        ("Corruption: block checksum mismatch in /b/store/000039.sst", True),
        ("IO error: While pread offset 4096 len 4044: /b/store/000039.sst: Input/output error", True),
        ("IO error: While appending to file: /b/store/000039.sst: No space left on device", False),
    ],
)
def test_what_a_disk_does_not_take_is_no_damage(tmp_path, said, noted):
    note_damage(str(tmp_path), Exception(said))
    assert (tmp_path / NAME).exists() is noted
