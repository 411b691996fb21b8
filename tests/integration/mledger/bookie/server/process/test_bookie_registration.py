"""A bookie is registered in the metadata store while it serves, and again after its session has ended."""

import asyncio
import contextlib
import shutil

import pytest
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.client import BookKeeper
from mledger.bookie.digest import master_key
from mledger.bookie.errors import BookieError, Code, NotEnoughBookies
from mledger.bookie.server.process import main as process
from mledger.bookie.server.process.options import parse_options
from mledger.metastore.cluster.bookies import delete_cookie, list_bookies, register
from mledger.metastore.errors import NodeExists
from mledger.metastore.records.paths import bookie_path
from mledger.metastore.store import ANY_VERSION
from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import free_port
from tests.support.aio import run
from tests.support.bookies.raw_bookie import RawBookieClient, entry
from tests.support.ledgers import read_raw
from tests.support.zookeeper.server import SHORT_SESSION_S

KEY = master_key(b"")


def test_running_bookies_are_listed_and_a_stopped_one_is_not(bookies, cluster_url):
    first, second = bookies.start(2)

    async def listed():
        async with await open_store(cluster_url) as store:
            return {
                bookie.bookie_id: (bookie.host, bookie.port, bookie.read_only) for bookie in await list_bookies(store)
            }

    assert run(listed()) == {each.bookie_id: (each.host, each.port, False) for each in (first, second)}
    second.stop()
    assert list(run(listed())) == [first.bookie_id]


def test_a_killed_bookie_is_listed_again_as_soon_as_it_is_back(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--session-timeout", "30")

    async def owner():
        async with await open_store(cluster_url) as store:
            stat = await store.exists(bookie_path(bookie.bookie_id))
            return stat and stat.ephemeral_owner

    before = run(owner())
    bookie.restart()
    assert run(owner()) not in (None, 0, before)


def test_a_bookie_at_another_address_keeps_its_id_and_its_entries(bookies, cluster_url):
    (bookie,) = bookies.start(1)
    name, before = bookie.bookie_id, bookie.address

    async def ask(request):
        async with RawBookieClient(bookie) as client:
            return await client.ask(request)

    async def listed():
        async with await open_store(cluster_url) as store:
            return [(each.bookie_id, (each.host, each.port)) for each in await list_bookies(store)]

    assert run(ask(wire.encode_add(KEY, entry(1, 0, b"payload")))).error == Code.OK
    bookie.stop()
    bookie.arguments = (*bookie.arguments, "--bookie-id", name, "--host", "127.0.0.2")
    bookie.start()
    assert run(listed()) == [(name, bookie.address)]
    assert bookie.address != before
    assert run(ask(wire.encode_read(1, 0))).body == entry(1, 0, b"payload")


def test_a_read_only_bookie_is_listed_as_read_only(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--read-only")

    async def main():
        async with await open_store(cluster_url) as store:
            return await list_bookies(store)

    assert [(each.bookie_id, each.read_only) for each in run(main())] == [(bookie.bookie_id, True)]


def test_a_bookie_whose_disk_is_nearly_full_becomes_read_only(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--min-free-mb", str(1 << 40))

    async def main():
        async with await open_store(cluster_url) as store:
            while not (found := await list_bookies(store)) or not found[0].read_only or len(found) > 1:
                await asyncio.sleep(0.02)
            async with RawBookieClient(bookie) as client:
                return (await client.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error

    assert run(main()) == Code.READ_ONLY


def test_a_bookie_whose_session_expired_keeps_serving_and_registers_again(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--session-timeout", str(SHORT_SESSION_S))

    async def main():
        async with await open_store(cluster_url) as store:
            path = bookie_path(bookie.bookie_id)
            before = (await store.exists(path)).ephemeral_owner
            bookie.freeze()
            while await store.exists(path) is not None:
                await asyncio.sleep(0.05)
            bookie.thaw()
            while (stat := await store.exists(path)) is None:
                await asyncio.sleep(0.05)
            async with RawBookieClient(bookie) as client:
                error = (await client.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error
            return before, stat.ephemeral_owner, error

    before, after, error = run(main())
    assert after not in (0, before)
    assert error == 0


def test_a_bookie_decommissioned_while_it_was_stopped_ends_and_accepts_nothing(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--session-timeout", str(SHORT_SESSION_S))

    async def main():
        async with await open_store(cluster_url) as store:
            path = bookie_path(bookie.bookie_id)
            bookie.freeze()
            while await store.exists(path) is not None:
                await asyncio.sleep(0.05)
            await delete_cookie(store, bookie.bookie_id, ANY_VERSION)
            bookie.thaw()
            while bookie.running and await store.exists(path) is None:
                await asyncio.sleep(0.05)
            return await store.exists(path)

    assert run(main()) is None
    assert bookie.wait() == 1
    assert "it was decommissioned" in bookie.log()


def test_a_bookie_whose_id_another_one_took_while_it_was_stopped_ends_and_answers_nothing_more(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--session-timeout", str(SHORT_SESSION_S))

    async def main():
        async with await open_store(cluster_url) as store, RawBookieClient(bookie) as client:
            assert (await client.ask(wire.encode_add(KEY, entry(1, 0, b"x")))).error == 0
            bookie.freeze()
            while await store.exists(bookie_path(bookie.bookie_id)) is not None:
                await asyncio.sleep(0.05)
            await register(store, bookie.bookie_id, "127.0.0.2", bookie.port)
            bookie.thaw()
            assert await client.closed() == b""
            assert await asyncio.to_thread(bookie.wait) == 1
            return [(each.bookie_id, each.host) for each in await list_bookies(store)]

    assert run(main()) == [(bookie.bookie_id, "127.0.0.2")]
    assert "is registered by another session" in bookie.log()


def test_a_bookie_at_another_address_waits_for_the_end_of_its_former_session(bookies, cluster_url):
    (bookie,) = bookies.start(1, "--session-timeout", str(SHORT_SESSION_S))
    name = bookie.bookie_id
    bookie.kill()
    bookie.arguments = (*bookie.arguments, "--bookie-id", name, "--host", "127.0.0.2")
    bookie.start()

    async def listed():
        async with await open_store(cluster_url) as store:
            return [(each.bookie_id, each.host) for each in await list_bookies(store)]

    assert run(listed()) == [(name, "127.0.0.2")]
    assert "registration_waited_for" in bookie.log()


@pytest.mark.parametrize("read_only", [True, False])
def test_a_bookie_does_not_start_while_another_one_with_its_id_stays(tmp_path, cluster_url, monkeypatch, read_only):
    monkeypatch.setattr(process, "EXPIRY_S", -3600.0)

    async def main():
        options = ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--bookie-id", "copied"]
        async with await open_store(cluster_url) as store:
            await register(store, "copied", "127.0.0.2", free_port(), read_only=read_only)
            with pytest.raises(NodeExists, match="the bookie copied is registered by another session"):
                await process.BookieProcess(parse_options(options)).run()
            return [(each.bookie_id, each.host) for each in await list_bookies(store)]

    assert run(main()) == [("copied", "127.0.0.2")]


def test_a_copy_of_a_bookie_s_directory_does_not_take_its_address_while_it_serves(bookies, cluster_url, monkeypatch):
    """As on another machine that announces the same address, with the copy at the same path."""
    (bookie,) = bookies.start(1)
    copy = bookie.directory.with_name("copy")
    shutil.copytree(bookie.directory, copy)
    bookie.directory.rename(bookie.directory.with_name("original"))
    copy.rename(bookie.directory)
    monkeypatch.setattr(process, "EXPIRY_S", -3600.0)

    async def main():
        options = ["--metadata", cluster_url, "--dir", str(bookie.directory), "--port", str(bookie.port)]
        options = replace(parse_options([*options, "--bookie-id", bookie.bookie_id]), host="127.0.0.2")
        copied = process.BookieProcess(options)
        async with await open_store(cluster_url) as store:
            path = bookie_path(bookie.bookie_id)
            owner = (await store.exists(path)).ephemeral_owner
            with pytest.raises(NodeExists, match=f"the bookie {bookie.bookie_id} is registered by another session"):
                await copied.serve(lambda _: copied.stop())
            assert (await store.exists(path)).ephemeral_owner == owner

    run(main())


async def listening(address):
    """Return once the system accepts connections to an address."""
    while True:
        try:
            _, writer = await asyncio.open_connection(*address)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            return


async def connected(writer, wanted):
    """Return once the writer of one bookie has a connection to it, or has none any more."""
    while bool(writer._replication._connections.indexes) is not wanted:
        await asyncio.sleep(0.02)


def test_a_bookie_that_starts_at_the_address_of_a_killed_one_takes_no_entries_in_its_name(bookies, cluster_url):
    (killed,) = bookies.start(1, "--bookie-id", "killed")
    next_one = bookies.add("--bookie-id", "next", "--port", str(killed.port))

    async def main():
        async with await open_store(cluster_url) as store:
            bookkeeper = BookKeeper(store)
            writer = await bookkeeper.create_ledger(1, 1, 1)
            await writer.append([b"before"])
            killed.kill()
            next_one.launch()
            await listening(killed.address)
            await connected(writer, False)
            after = writer.append([b"after"])
            await connected(writer, True)
            await store.delete(bookie_path("killed"))  # as the end of its session would
            stored = (Code.NO_LEDGER, Code.NO_ENTRY)
            with contextlib.suppress(NotEnoughBookies):  # it asked just as that one registered, and was cut off, too
                await after
                assert writer.metadata.segment_at(1).bookies == ("next",)
                stored = (Code.OK,)
            assert writer.metadata.segment_at(0).bookies == ("killed",)
            await bookkeeper.close()
            await asyncio.to_thread(next_one.wait_serving)
            assert (await read_raw(next_one, writer.ledger_id, 1)).error in stored

    run(main())


def test_a_bookie_does_not_start_at_the_address_of_another_one_that_is_there(tmp_path, cluster_url, monkeypatch):
    monkeypatch.setattr(process, "ADDRESS_WAIT_S", 0.0)

    async def main():
        options = ["--metadata", cluster_url, "--dir", str(tmp_path / "bookie"), "--bookie-id", "late", "--port"]
        async with await open_store(cluster_url) as store:
            port = free_port()
            await register(store, "other", "127.0.0.1", port)
            with pytest.raises(BookieError, match=f"127.0.0.1:{port} is the address of the registered bookie other"):
                await process.BookieProcess(parse_options([*options, str(port)])).run()
            return [each.bookie_id for each in await list_bookies(store)]

    assert run(main()) == ["other"]
