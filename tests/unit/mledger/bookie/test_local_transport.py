"""Connections in memory: what a socket would do, seen from both protocols."""

import asyncio
import functools

import pytest

from mledger.bookie.local_transport import connect_locally, serve_locally
from tests.support.aio import run

ADDRESS = ("127.0.0.1", 3181)


class LocalClient(asyncio.Protocol):
    """Keeps what happens to it."""

    def __init__(self):
        self.received, self.paused, self.lost = [], [], asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received.append(data)

    def pause_writing(self):
        self.paused.append(True)

    def resume_writing(self):
        self.paused.append(False)

    def connection_lost(self, exc):
        self.error = exc
        self.lost.set()


class LocalServer(asyncio.BufferedProtocol):
    """Receives into a small buffer, which it empties at once."""

    size = 4

    def __init__(self):
        self.buffer, self.received, self.lost = bytearray(self.size), [], asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport
        self.peer = transport.get_extra_info("peername")

    def get_buffer(self, sizehint):
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes):
        self.received.append(bytes(self.buffer[:nbytes]))

    def connection_lost(self, exc):
        self.error = exc
        self.lost.set()


class FailingServer(LocalServer):
    """Fails on what it receives."""

    def buffer_updated(self, nbytes):
        raise ValueError("hostile")


class ChokingServer(LocalServer):
    """Reads nothing while its answers wait to be taken, as a bookie."""

    def pause_writing(self):
        self.transport.pause_reading()

    def resume_writing(self):
        self.transport.resume_reading()


def on_a_loop(test):
    """Run a test that is a coroutine function."""

    @functools.wraps(test)
    def wrapper(**arguments):
        run(test(**arguments))

    return wrapper


async def turns(number=8):
    """Let the loop run so many turns."""
    for _ in range(number):
        await asyncio.sleep(0)


def connected(make=LocalServer):
    """A client and a server of one connection."""
    servers = []

    def served():
        servers.append(make())
        return servers[-1]

    end = serve_locally(ADDRESS, served)
    client = connect_locally(LocalClient, ADDRESS)
    end()
    return client, servers[0]


@on_a_loop
async def test_nobody_is_reached_where_nobody_serves():
    assert connect_locally(LocalClient, ADDRESS) is None


@on_a_loop
async def test_an_address_that_is_served_no_more_reaches_nobody():
    end = serve_locally(ADDRESS, LocalServer)
    end()
    assert connect_locally(LocalClient, ADDRESS) is None


@on_a_loop
async def test_the_end_of_a_former_server_leaves_its_successor():
    end = serve_locally(ADDRESS, FailingServer)
    serve_locally(ADDRESS, LocalServer)
    end()
    assert connect_locally(LocalClient, ADDRESS) is not None


@on_a_loop
async def test_the_port_of_a_bookies_id_leads_to_it_and_never_to_who_listens_there():
    there = (ADDRESS[0], ADDRESS[1] + 1)
    end = serve_locally(ADDRESS, LocalServer, there[1])
    assert connect_locally(LocalClient, there) is not None
    end()
    assert connect_locally(LocalClient, ADDRESS) is None
    with pytest.raises(ConnectionRefusedError):
        connect_locally(LocalClient, there)


@on_a_loop
async def test_a_port_where_another_bookie_of_the_loop_is_served_is_not_taken():
    serve_locally(ADDRESS, LocalServer)
    with pytest.raises(OSError, match="another bookie of this process"):
        serve_locally((ADDRESS[0], ADDRESS[1] + 1), LocalServer, ADDRESS[1])
    assert connect_locally(LocalClient, ADDRESS) is not None


@on_a_loop
async def test_a_port_by_which_another_bookie_of_the_loop_is_known_is_not_taken():
    there = (ADDRESS[0], ADDRESS[1] + 1)
    served = []
    serve_locally(ADDRESS, lambda: served.append("known") or LocalServer(), there[1])
    with pytest.raises(OSError, match="another bookie of this process"):
        serve_locally(there, LocalServer, ADDRESS[1] + 2)
    connect_locally(LocalClient, there)
    assert served == ["known"]


def test_a_server_is_reached_on_its_own_loop_only():
    async def serve():
        serve_locally(ADDRESS, LocalServer)

    async def connect():
        return connect_locally(LocalClient, ADDRESS)

    with asyncio.Runner() as one, asyncio.Runner() as other:
        one.run(serve())
        assert other.run(connect()) is None
        assert one.run(connect()) is not None


@on_a_loop
async def test_both_ends_know_each_other_before_anything_is_sent():
    client, server = connected()
    assert server.peer == ("local", 0)
    assert not client.transport.is_closing()


@on_a_loop
async def test_bytes_arrive_in_order_and_not_within_the_call_that_writes_them():
    client, server = connected()
    client.transport.write(b"ab")
    client.transport.write(bytearray(b"cde"))
    assert server.received == []
    await turns()
    assert b"".join(server.received) == b"abcde"
    assert max(map(len, server.received)) <= LocalServer.size


@on_a_loop
async def test_what_was_written_is_not_changed_by_the_writer_later():
    client, server = connected()
    data = bytearray(b"ab")
    client.transport.write(data)
    data[:] = b"xx"
    await turns()
    assert server.received == [b"ab"]


@on_a_loop
async def test_answers_that_wait_arrive_together():
    client, server = connected()
    server.transport.write(b"ab")
    server.transport.write(b"cd")
    await turns()
    assert client.received == [b"abcd"]


@on_a_loop
async def test_a_writer_pauses_while_the_other_end_reads_nothing():
    client, server = connected()
    client.transport.set_write_buffer_limits(high=8)
    server.transport.pause_reading()
    client.transport.write(bytes(9))
    await turns()
    assert (server.received, client.paused, client.transport.get_write_buffer_size()) == ([], [True], 9)
    server.transport.resume_reading()
    await turns()
    assert (sum(map(len, server.received)), client.paused) == (9, [True, False])
    assert client.transport.get_write_buffer_size() == 0


@on_a_loop
async def test_a_close_comes_behind_what_was_written():
    client, server = connected()
    client.transport.write(b"abcdefgh")
    client.transport.close()
    await server.lost.wait()
    assert b"".join(server.received) == b"abcdefgh"
    assert server.error is None
    await client.lost.wait()


@on_a_loop
async def test_a_close_waits_for_an_end_that_does_not_read():
    client, server = connected()
    server.transport.pause_reading()
    client.transport.write(b"ab")
    client.transport.close()
    await turns()
    assert not server.lost.is_set()
    server.transport.resume_reading()
    await server.lost.wait()
    assert server.received == [b"ab"]


@on_a_loop
async def test_nothing_is_received_or_sent_after_the_own_end():
    client, server = connected()
    client.transport.write(b"ab")
    server.transport.abort()
    client.transport.write(b"cd")
    server.transport.write(b"ef")
    await client.lost.wait()
    await turns()
    assert (server.received, client.received) == ([], [])


@on_a_loop
async def test_both_ends_that_end_are_told_once():
    client, server = connected()
    client.transport.close()
    server.transport.close()
    client.transport.abort()
    await turns()
    assert client.lost.is_set()
    assert server.lost.is_set()


@on_a_loop
async def test_a_protocol_that_fails_loses_the_connection_and_is_reported():
    told = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    client, server = connected(FailingServer)
    client.transport.write(b"ab")
    await client.lost.wait()
    assert [str(each) for each in told] == ["hostile"]
    assert str(server.error) == "hostile"


@on_a_loop
async def test_a_transport_hands_what_comes_to_its_latest_protocol():
    client, server = connected()
    later = LocalClient()
    client.transport.set_protocol(later)
    server.transport.write(b"ab")
    await turns()
    assert client.transport.get_protocol() is later
    assert later.received == [b"ab"]


@pytest.mark.parametrize("data", [b"", bytearray(), memoryview(b"")], ids=["bytes", "bytearray", "memoryview"])
@on_a_loop
async def test_nothing_written_is_nothing_received(data):
    client, server = connected()
    client.transport.write(data)
    await turns()
    assert server.received == []


@on_a_loop
async def test_a_server_whose_answers_nobody_takes_is_told_of_the_end():
    client, server = connected(ChokingServer)
    client.transport.pause_reading()
    server.transport.write(bytes(1 << 20))
    assert not server.transport.is_reading()
    client.transport.close()
    await turns()
    assert server.lost.is_set()


class FailingWriter(LocalClient):
    """Fails on being told that its buffer has filled or drained."""

    def pause_writing(self):
        raise ValueError("full")

    def resume_writing(self):
        raise ValueError("drained")


@on_a_loop
async def test_the_other_end_gets_all_whatever_the_writer_does_as_its_buffer_drains():
    """As with a socket: the failure is reported, and both directions go on."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    servers = []

    def served():
        servers.append(LocalServer())
        return servers[-1]

    serve_locally(ADDRESS, served)
    client = connect_locally(FailingWriter, ADDRESS)
    client.transport.set_write_buffer_limits(high=8)
    client.transport.write(b"x" * 22)  # two bytes are left when it counts as drained
    await turns(16)
    assert b"".join(servers[0].received) == b"x" * 22
    assert reported == ["full", "drained"]
