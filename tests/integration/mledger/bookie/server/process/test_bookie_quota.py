"""A bookie whose quota is used up starts all the same: the disk says that it has room, and refuses it."""

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code, DiskFull
from mledger.bookie.server.process import bookie as bookie_module
from mledger.bookie.server.storage.directories.directory import BookieDirectory
from mledger.bookie.server.storage.directories.disk import LITTLE_BYTES, Reserve
from mledger.bookie.server.storage.rows.index import Index
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
REFUSED = "IO error: While appending to file: /store/000012.sst: Disk quota exceeded"


@pytest.fixture
def directory(tmp_path):
    """A bookie's directory with an entry, and with the space that is reserved for its index."""

    async def main():
        async with serving(tmp_path / "bookie") as local, RawBookieClient(local) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, 0, b"payload")))).error == Code.OK

    run(main())
    assert (tmp_path / "bookie" / "reserve").exists()
    return tmp_path / "bookie"


async def read(directory):
    """The code of a read of the entry, from a bookie that is started for it."""
    async with serving(directory) as local, RawBookieClient(local) as client:
        return (await client.ask(wire.encode_read(1, 0))).error


def test_an_index_that_cannot_be_opened_under_a_quota_gets_the_space_reserved_for_it(directory, monkeypatch):
    def refuse(*arguments, **options):
        if (directory / "reserve").exists():
            raise Exception(REFUSED)
        return Index(*arguments, **options)

    monkeypatch.setattr(bookie_module, "Index", refuse)
    assert run(read(directory)) == Code.OK


def test_a_start_that_cannot_flush_under_a_quota_leaves_the_next_one_the_space_reserved_for_that(
    directory, monkeypatch
):
    flush, close = Index.flush, Index.close

    def close_refused(index):  # RocksDB flushes first
        close(index)
        raise Exception(REFUSED)

    def refuse(index):
        if (directory / "reserve").exists():
            raise OSError(f"the index cannot be written out: {REFUSED}")
        flush(index)

    monkeypatch.setattr(Index, "flush", refuse)
    locked = BookieDirectory(str(directory))
    monkeypatch.setattr(Index, "close", close_refused)
    with pytest.raises(DiskFull, match=f"the index cannot be written out: {REFUSED}"):
        bookie_module.ServingBookie(locked)
    monkeypatch.setattr(Index, "close", close)
    locked.unlock()
    assert not (directory / "reserve").exists()
    monkeypatch.setattr(bookie_module.ServingBookie, "tend_reserves", lambda _: None)  # while it serves it tries again
    assert run(read(directory)) == Code.OK


def test_an_index_gets_half_of_what_the_journal_reserves_where_its_own_space_is_gone(directory, monkeypatch):
    reserve = directory / "journal" / "reserve.journal"
    whole = reserve.stat().st_size

    def refuse(*arguments, **options):
        if reserve.stat().st_size == whole:
            raise Exception(REFUSED)
        return Index(*arguments, **options)

    (directory / "reserve").unlink()
    monkeypatch.setattr(bookie_module, "Index", refuse)
    monkeypatch.setattr(bookie_module.ServingBookie, "tend_reserves", lambda _: None)  # while it serves it tries again
    assert run(read(directory)) == Code.OK
    assert reserve.stat().st_size == whole // 2


def test_a_journal_on_another_disk_gives_its_index_nothing(directory, monkeypatch):
    def refuse(*arguments, **options):
        raise Exception(REFUSED)

    (directory / "reserve").unlink()
    monkeypatch.setattr(bookie_module, "Index", refuse)
    monkeypatch.setattr(Reserve, "is_on_disk_of", lambda *_: False)
    whole = (directory / "journal" / "reserve.journal").stat().st_size
    with pytest.raises(DiskFull, match="the bookie cannot start"):
        run(read(directory))
    assert (directory / "journal" / "reserve.journal").stat().st_size == whole


def test_where_little_is_free_a_start_writes_no_log_into_the_index_s_directory(directory, monkeypatch):
    monkeypatch.setattr(bookie_module, "free_bytes", lambda _: LITTLE_BYTES - 1)
    assert run(read(directory)) == Code.OK
    assert not list((directory / "store").glob("LOG*"))
    monkeypatch.setattr(bookie_module, "free_bytes", lambda _: LITTLE_BYTES)
    assert run(read(directory)) == Code.OK
    assert list((directory / "store").glob("LOG*"))


def test_a_start_that_a_quota_refuses_writes_no_log_into_the_index_s_directory(directory, monkeypatch):
    def refuse(path, config, **options):
        if not config.logs:
            raise Exception(REFUSED)
        return Index(path, config, **options)

    monkeypatch.setattr(bookie_module, "Index", refuse)
    assert run(read(directory)) == Code.OK
    assert not list((directory / "store").glob("LOG*"))
