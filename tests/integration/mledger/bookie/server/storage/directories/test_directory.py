"""To whom a directory belongs: a bookie refuses another's directory and changes nothing in it."""

import hashlib

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.metastore.cluster.cookies import read_cookie
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.processes import BookieFailed, BookieProcesses, initialize_cluster
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")


def contents(directory):
    """Every file below a directory, with its contents."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def refused(bookie):
    """Start a bookie that must not start, and return its error. Its directory does not change."""
    before = contents(bookie.directory)
    with pytest.raises(BookieFailed) as failure:
        bookie.start()
    assert contents(bookie.directory) == before
    assert failure.value.returncode == 1
    return failure.value.log.splitlines()[-1]


@pytest.fixture
def stopped(bookies):
    """A bookie that has served and was stopped."""
    (bookie,) = bookies.start(1)

    async def main():
        async with RawBookieClient(bookie) as client:
            await client.ask(wire.encode_add(KEY, entry(1, 0, b"kept")))

    run(main())
    bookie.stop()
    return bookie


def test_a_bookie_restarts_under_its_id_and_port(stopped):
    before = stopped.bookie_id, stopped.port
    stopped.start()
    assert (stopped.bookie_id, stopped.port) == before


def test_its_cookie_is_in_the_metadata_store(stopped, cluster_url):
    async def main():
        async with await open_store(cluster_url) as store:
            return (await read_cookie(store, stopped.bookie_id))[0]

    cookie = run(main())
    assert cookie.bookie_id == stopped.bookie_id
    assert cookie.ledger_dirs == (str(stopped.directory),)


def test_another_bookies_directory_is_refused(stopped):
    stopped.arguments = (*stopped.arguments, "--bookie-id", "somebody-else:3181")
    assert f"belongs to bookie {stopped.bookie_id}, not to somebody-else:3181" in refused(stopped)


def test_another_clusters_directory_is_refused(stopped, shared_zookeeper):
    initialize_cluster(shared_zookeeper.url)
    stopped.metadata_url = shared_zookeeper.url
    assert "belongs to the cluster" in refused(stopped)


def test_an_unknown_format_version_is_refused(stopped):
    path = stopped.directory / "FORMAT"
    path.write_text(path.read_text().replace("version 3", "version 7"))
    assert "format version 7, this program knows 1 to 3" in refused(stopped)


def test_a_directory_of_another_program_is_refused(stopped, bookies):
    other = bookies.add()
    other.directory.mkdir(parents=True)
    (other.directory / "letters.txt").write_text("dear")
    assert "not a bookie's directory" in refused(other)


def test_an_emptied_directory_does_not_stand_in_for_its_bookie(stopped, bookies):
    other = bookies.add("--bookie-id", stopped.bookie_id)
    other.directory.mkdir(parents=True)
    assert f"bookie {stopped.bookie_id} is registered with" in refused(other)


def test_a_moved_directory_is_refused(stopped, bookies):
    other = bookies.add()
    stopped.directory.rename(other.directory)
    assert "start it on that directory" in refused(other)


def test_a_directory_in_use_is_refused(bookies):
    (bookie,) = bookies.start(1)
    other = bookies.add()
    other.directory = bookie.directory
    with pytest.raises(BookieFailed, match="another bookie process uses this directory"):
        other.start()
    assert bookie.running


def test_an_uninitialised_cluster_is_an_error_that_says_so(metadata_url, tmp_path):
    bookies = BookieProcesses(metadata_url, tmp_path)
    assert "initialise the cluster first" in refused_new(bookies.add())


def test_a_missing_metadata_store_is_an_error_that_says_so(tmp_path):
    bookies = BookieProcesses("zk://127.0.0.1:1", tmp_path)
    assert "127.0.0.1:1" in refused_new(bookies.add("--session-timeout", "1"))


def refused_new(bookie):
    """Start a bookie without a directory, which must not start, and return its error."""
    with pytest.raises(BookieFailed) as failure:
        bookie.start()
    assert list(bookie.directory.iterdir()) == []
    return failure.value.log.splitlines()[-1]


def test_a_damaged_record_before_valid_ones_is_refused(stopped):
    stopped.start()

    async def add():
        async with RawBookieClient(stopped) as client:
            for number in range(1, 6):
                assert (await client.ask(wire.encode_add(KEY, entry(1, number, b"kept")))).error == 0

    run(add())
    stopped.kill()
    newest = max((stopped.directory / "journal").glob("0*.journal"))
    data = bytearray(newest.read_bytes())
    data[2 * 4096 + 60] ^= 1
    newest.write_bytes(data)
    before = contents(stopped.directory / "journal")
    with pytest.raises(BookieFailed, match="no torn write does this"):
        stopped.start()
    assert contents(stopped.directory / "journal") == before


def test_a_torn_last_record_is_neither_an_entry_nor_an_obstacle(stopped):
    stopped.start()

    async def main(first, last):
        async with RawBookieClient(stopped) as client:
            for number in range(first, last):
                assert (await client.ask(wire.encode_add(KEY, entry(1, number, bytes(9000))))).error == 0
            return [(await client.ask(wire.encode_read(1, number))).error for number in range(last + 1)]

    run(main(1, 4))
    stopped.kill()
    newest = max((stopped.directory / "journal").glob("0*.journal"))
    with newest.open("r+b") as file:
        file.seek(2 * 3 * 4096 + 5000)
        file.write(bytes(4096))
    stopped.start()
    assert run(main(1, 1)) == [0, 0]
    assert run(main(3, 5)) == [0, 0, 0, 0, 0, 2]
