"""A bookie that lacks its journal, its index or one of their files does not start, and forgets nothing."""

import shutil

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.errors import Code
from tests.support.aio import run
from tests.support.bookies.processes import BookieFailed
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")


@pytest.fixture
def killed(bookies, tmp_path):
    """A killed bookie with a journal of its own that holds an entry and a fence."""
    bookie = bookies.add("--journal-dir", str(tmp_path / "journal")).start()

    async def main():
        async with RawBookieClient(bookie) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, 0, b"kept")))).error == 0
            await client.ask(wire.encode_read(2, -1, wire.Flag.FENCE, KEY))

    run(main())
    bookie.kill()
    return bookie


def refused(bookie):
    """Start a bookie that must not start, and return its error."""
    with pytest.raises(BookieFailed) as failure:
        bookie.start()
    assert failure.value.returncode == 1
    return failure.value.log.splitlines()[-1]


def still_there(bookie):
    """The error codes of a read of the entry, and of an add to the fenced ledger."""

    async def main():
        async with RawBookieClient(bookie) as client:
            read = await client.ask(wire.encode_read(1, 0))
            return read.error, (await client.ask(wire.encode_add(KEY, entry(2, 0, b"late")))).error

    return run(main())


@pytest.mark.parametrize("missing", ["empty", "not there"])
def test_an_unmounted_journal_is_reported_and_its_contents_are_there_once_it_is_mounted(killed, tmp_path, missing):
    (tmp_path / "journal").rename(tmp_path / "unmounted")
    if missing == "empty":
        (tmp_path / "journal").mkdir()
    said = refused(killed)
    assert f"{tmp_path / 'journal'}" in said
    assert "mount its disk" in said
    if missing == "empty":
        assert list((tmp_path / "journal").iterdir()) == []
        (tmp_path / "journal").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "journal")
    killed.start()
    assert still_there(killed) == (Code.OK, Code.FENCED)


@pytest.mark.parametrize("missing", ["empty", "not there"])
def test_a_missing_index_is_reported_and_no_other_is_created(killed, missing):
    store = killed.directory / "store"
    store.rename(killed.directory.with_suffix(".store"))
    if missing == "empty":
        store.mkdir()
    assert f"{store} is not the index of bookie {killed.bookie_id}" in refused(killed)
    assert not store.exists() or list(store.iterdir()) == []


def test_another_bookies_journal_is_refused(killed, bookies, tmp_path):
    other = bookies.add("--journal-dir", str(tmp_path / "other-journal")).start()
    other.stop()
    shutil.rmtree(tmp_path / "journal")
    (tmp_path / "other-journal").rename(tmp_path / "journal")
    assert f"but of bookie {other.bookie_id}: mount the right disk" in refused(killed)


def test_the_error_names_a_journal_file_that_the_index_needs(killed, tmp_path):
    killed.start()
    killed.stop()
    first = min((tmp_path / "journal").glob("0*.journal"))
    first.rename(tmp_path / "aside")
    said = refused(killed)
    assert f"1 journal files are missing that {killed.directory} needs: {first.name}" in said
    (tmp_path / "aside").rename(first)
    killed.start()
    assert still_there(killed) == (Code.OK, Code.FENCED)


def test_a_directory_of_version_2_with_an_empty_journal_is_refused_too(killed, tmp_path):
    path = killed.directory / "FORMAT"
    lines = path.read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("complete"))
    path.write_text(kept.replace("version 3", "version 2"))
    for part in (tmp_path / "journal", killed.directory / "store"):
        (part / "BOOKIE").unlink()
    (tmp_path / "journal").rename(tmp_path / "unmounted")
    (tmp_path / "journal").mkdir()
    assert "00000001.journal" in refused(killed)
    (tmp_path / "journal").rmdir()
    (tmp_path / "unmounted").rename(tmp_path / "journal")
    killed.start()
    assert still_there(killed) == (Code.OK, Code.FENCED)
