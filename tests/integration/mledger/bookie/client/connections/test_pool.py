"""A client that is closed while it connects tells its callers so; bookies are connected to where they are now."""

import asyncio
import contextlib
import socket

import pytest

from mledger.bookie import wire
from mledger.bookie.client import BookKeeper, ClientConfig
from mledger.bookie.client.connections.pool import BookiePool
from mledger.bookie.errors import BookieUnavailable, Code, NotEnoughBookies
from mledger.metastore.cluster.bookies import register, unregister
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.url import open_store
from tests.support.aio import run
from tests.support.bookies.local_bookie import serving

PATIENT = ClientConfig(connect_timeout_s=600.0)
STANDSTILL_S = 60.0


@contextlib.contextmanager
def unconnected():
    """An address that accepts no more connections, because its queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, contextlib.ExitStack() as stack:
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        yield listening.getsockname()


@contextlib.asynccontextmanager
async def cluster():
    """A metadata store, and an address to which nobody can connect."""
    with unconnected() as address:
        async with await open_store("memory:") as store:
            await initialize(store)
            yield store, address


@contextlib.asynccontextmanager
async def registered(store, name, directory, port=0):
    """A bookie that serves and is registered under `name`; it keeps what it has in `directory`."""
    async with serving(directory / name, port=port) as local:
        await register(store, name, *local.address)
        yield local.address[1]
        await unregister(store, name)


@contextlib.asynccontextmanager
async def client_of(store):
    """A client that writes."""
    client = BookKeeper(store)
    yield client
    await client.close()


def cut(writer):
    """Have a writer of one bookie lose its connection."""
    next(iter(writer._replication._connections.indexes)).fail("the test cut it")


async def lost(writer):
    """Return once a writer has noted that its bookies ended."""
    while writer._replication._connections.indexes:
        await asyncio.sleep(0)


async def connecting(pool):
    """Return once a connection is being opened."""
    while not pool._opening:
        await asyncio.sleep(0.01)


def test_a_caller_that_waits_for_a_connection_learns_that_the_client_is_closed():
    async def main():
        async with cluster() as (store, address):
            await register(store, "deaf", *address)
            pool = BookiePool(store, PATIENT)
            asking = asyncio.create_task(pool.connection("deaf"))
            await connecting(pool)
            await pool.close()
            with pytest.raises(BookieUnavailable, match="this client is closed"):
                await asking
            assert not asking.cancelled()

    run(main())


def test_a_caller_that_stops_waiting_for_a_connection_is_cancelled():
    async def main():
        async with cluster() as (store, address):
            await register(store, "deaf", *address)
            pool = BookiePool(store, PATIENT)
            asking = asyncio.create_task(pool.connection("deaf"))
            await connecting(pool)
            asking.cancel()
            await pool.close()
            with pytest.raises(asyncio.CancelledError):
                await asking

    run(main())


def test_an_append_fails_if_the_client_is_closed_while_it_connects_to_a_replacement(tmp_path):
    async def main():
        async with cluster() as (store, address), serving(tmp_path / "bookie") as local:
            await register(store, "bookie", *local.address)
            bookkeeper = BookKeeper(store, PATIENT)
            writer = await bookkeeper.create_ledger(1, 1, 1)
            await register(store, "deaf", *address)
            pending = writer.append([b"lost"])
            cut(writer)
            closing = asyncio.create_task(writer.close())
            await connecting(bookkeeper._pool)
            await bookkeeper.close()
            async with asyncio.timeout(STANDSTILL_S):
                with pytest.raises(NotEnoughBookies):
                    await pending
                await closing

    run(main())


def test_a_caller_that_waits_for_a_recovery_learns_that_the_client_is_closed(tmp_path):
    async def main():
        async with cluster() as (store, address), serving(tmp_path / "bookie") as local:
            await register(store, "bookie", *local.address)
            bookkeeper = BookKeeper(store, PATIENT)
            writer = await bookkeeper.create_ledger(1, 1, 1)
            await writer.abandon()
            await unregister(store, "bookie")
            await register(store, "bookie", *address)
            other = BookKeeper(store, PATIENT)
            opening = asyncio.create_task(other.open_ledger(writer.ledger_id))
            await connecting(other._pool)
            await other.close()
            async with asyncio.timeout(STANDSTILL_S):
                with pytest.raises(BookieUnavailable, match="closed while it recovered"):
                    await opening
            await bookkeeper.close()

    run(main())


def test_a_bookie_is_not_written_to_where_another_one_serves_at_its_former_address(tmp_path):
    async def main():
        async with await open_store("memory:") as store:
            await initialize(store)
            bookkeeper, other = BookKeeper(store), BookKeeper(store)
            async with registered(store, "first", tmp_path) as former:
                writer = await bookkeeper.create_ledger(1, 1, 1)
                await writer.append([b"0"])
            await lost(writer)
            async with registered(store, "second", tmp_path, former), registered(store, "first", tmp_path):
                assert await writer.append([b"1"]) == 1
                reader = await other.open_ledger(writer.ledger_id)
                assert await reader.read(0, reader.last_entry) == [b"0", b"1"]
                await bookkeeper.close()
                await other.close()

    run(main())


def test_a_bookie_whose_address_may_have_changed_is_not_connected_to_while_that_cannot_be_looked_up(tmp_path):
    async def unavailable(*_):
        raise StoreUnavailable("the test stopped it")

    async def main():
        async with await open_store("memory:") as store:
            await initialize(store)
            pool = BookiePool(store, ClientConfig())
            async with registered(store, "named", tmp_path):
                (await pool.connection("named")).fail("the test cut it")
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(store, "children_many", unavailable)
                    with pytest.raises(BookieUnavailable, match="address has changed"):
                        await pool.connection("named")
            await pool.close()

    run(main())


def test_a_bookie_whose_id_is_its_address_is_connected_to_while_nothing_can_be_looked_up(tmp_path):
    async def unavailable(*_):
        raise StoreUnavailable("the test stopped it")

    async def main():
        async with await open_store("memory:") as store, serving(tmp_path / "bookie") as local:
            await initialize(store)
            name = "{}:{}".format(*local.address)
            await register(store, name, *local.address)
            pool = BookiePool(store, ClientConfig())
            (await pool.connection(name)).fail("the test cut it")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store, "children_many", unavailable)
                assert not (await pool.connection(name)).closed
            await pool.close()

    run(main())


def test_a_bookie_whose_id_is_its_address_is_not_written_to_where_another_one_serves_in_its_place(tmp_path):
    async def main():
        async with await open_store("memory:") as store:
            await initialize(store)
            bookkeeper = BookKeeper(store)
            async with serving(tmp_path / "first") as local:
                port = local.address[1]
                name = f"127.0.0.1:{port}"
                await register(store, name, *local.address)
                writer = await bookkeeper.create_ledger(1, 1, 1)
                await writer.append([b"0"])
                await unregister(store, name)
            await lost(writer)
            async with registered(store, "second", tmp_path, port):
                assert await writer.append([b"1"]) == 1
                assert [segment.bookies for segment in writer.metadata.segments] == [(name,), ("second",)]
                await bookkeeper.close()

    run(main())


def test_a_late_answer_is_not_taken_for_that_of_the_next_read_of_the_same_entry():
    requests: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                requests.put_nowait(writer)

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, await open_store("memory:") as store:
            await initialize(store)
            await register(store, "slow", *server.sockets[0].getsockname())
            pool = BookiePool(store, ClientConfig(read_timeout_s=STANDSTILL_S, silence_timeout_s=STANDSTILL_S))
            connection = await pool.connection("slow")
            connection._read_timeout_s = 0.0
            with pytest.raises(BookieUnavailable):
                await connection.read(1, 5)
            connection._read_timeout_s = STANDSTILL_S
            again = (await pool.connection("slow")).read(1, 5)
            late, soon = await requests.get(), await requests.get()
            late.write(wire.encode_response(wire.Op.READ, Code.NO_ENTRY, 1, 5))
            soon.write(wire.encode_response(wire.Op.READ, Code.OK, 1, 5, b"stored"))
            assert await again == (Code.OK, b"stored")
            await pool.close()

    run(main())


def test_a_bookie_whose_registered_host_is_no_name_counts_as_unreachable(tmp_path):
    async def main():
        async with await open_store("memory:") as store, registered(store, "other", tmp_path):
            await initialize(store)
            async with registered(store, "misnamed", tmp_path), client_of(store) as client:
                writer = await client.create_ledger(2, 2, 2)
                await writer.append([b"first", b"second"])
                await writer.close()
            await register(store, "misnamed", "bookie..example", 3181)
            async with client_of(store) as client:
                reader = await client.open_ledger(writer.ledger_id)
                read = [await reader.read(entry, entry) for entry in (0, 1)]  # each bookie is the first for one
                assert read == [[b"first"], [b"second"]]
                assert (await client.create_ledger(1, 1, 1)).metadata.ensemble == ("other",)

    run(main())
