"""A connection that sends anything but requests is closed with a reason in the log, without effect on others."""

import asyncio
import os

import pytest

from mledger.bookie import wire
from mledger.bookie.digest import master_key
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from tests.support.aio import run
from tests.support.bookies import version3
from tests.support.bookies.raw_bookie import RawBookieClient, entry

KEY = master_key(b"")
READ = wire.header_word(wire.Op.READ)
ADD = wire.header_word(wire.Op.ADD)

HOSTILE = {
    "frame over the limit": (wire.HEAD.pack(wire.MAX_FRAME + 1, ADD), "frame length 5253121 outside"),
    "length below a header word": (wire.LENGTH.pack(3) + b"abc", "frame length 3 outside"),
    "length of four gigabytes": (b"\xff" * 100, "frame length 4294967295 outside"),
    "add without an entry": (wire.HEAD.pack(30, ADD) + bytes(26), "shorter than an entry's head"),
    "read cut short": (wire.HEAD.pack(10, READ) + bytes(6), "read request of 10 bytes"),
    "fence without a key": (wire.encode_read(1, 0, wire.Flag.FENCE), "read request of 20 bytes"),
    "operation that is none": (wire.HEAD.pack(20, wire.header_word(99)) + bytes(16), "unknown operation 99"),
    "operation of version 3 only": (wire.HEAD.pack(20, wire.header_word(wire.Op.WRITE_LAC)) + bytes(16), "operation 5"),
    "auth that is no message": (wire.encode_auth(b"\xff\xff"), "not an auth message"),
    "version 3 that is none": (wire.LENGTH.pack(6) + b"\x0a\x06\x08\x03\x10\xff", "not a version 3 request"),
    "version 3 without its operation's message": (
        wire.LENGTH.pack(8) + b"\x0a\x06\x08\x03\x10\x01\x18\x01",
        "its readR",
    ),
    "version 3 read without an entry": (version3.request(pb.READ_ENTRY, ledgerId=1), "lacks a required field"),
    "version 3 over the limit": (wire.LENGTH.pack(wire.MAX_FRAME + 1) + b"\x0a" * 8, "frame length 5253121 outside"),
}

FIRST = tuple(name for name in HOSTILE if name.startswith("version 3"))
"""Bytes that are hostile only before the connection has sent a version 2 frame."""


@pytest.fixture(scope="module")
def hostile_bookies(shared_zookeeper, tmp_path_factory):
    """One bookie for all cases of this module. It must survive them all."""
    from tests.support.bookies.processes import BookieProcesses, initialize_cluster

    initialize_cluster(shared_zookeeper.url)
    processes = BookieProcesses(shared_zookeeper.url, tmp_path_factory.mktemp("hostile"))
    processes.start(1)
    yield processes
    assert processes[0].running
    processes.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_the_connection_is_closed_with_a_reason_and_others_continue(hostile_bookies, name):
    data, reason = HOSTILE[name]
    bookie = hostile_bookies[0]
    ledger = list(HOSTILE).index(name) + 1
    logged = len(bookie.log())

    async def main():
        async with RawBookieClient(bookie) as other, RawBookieClient(bookie) as hostile:
            first = await other.ask(wire.encode_add(KEY, entry(ledger, 0, b"before")))
            hostile.send(data if name in FIRST else wire.encode_add(KEY, entry(ledger, 1, b"with it")) + data)
            answers = await hostile.closed()
            second = await other.ask(wire.encode_add(KEY, entry(ledger, 2, b"after")))
            return first.error, answers, second.error

    first, _, second = run(main())
    assert (first, second) == (0, 0)
    line = next(line for line in bookie.log()[logged:].splitlines() if "event=connection_closed" in line)
    assert reason in line


def test_a_connection_that_ends_within_a_frame_is_logged(hostile_bookies):
    bookie = hostile_bookies[0]
    logged = len(bookie.log())

    async def main():
        async with RawBookieClient(bookie) as client:
            client.send(wire.encode_add(KEY, entry(50, 0, bytes(1000)))[:700])
            client.writer.write_eof()
            assert await client.closed() == b""

    run(main())
    assert "event=closed_inside_frame" in bookie.log()[logged:]


def test_random_bytes_from_many_connections_do_no_harm(hostile_bookies):
    bookie = hostile_bookies[0]

    async def throw():
        async with RawBookieClient(bookie) as client:
            client.send(os.urandom(5000))
            client.writer.write_eof()
            await client.closed()

    async def main():
        async with RawBookieClient(bookie) as client:
            adding = [wire.encode_add(KEY, entry(60, number, bytes(500))) for number in range(200)]
            errors = []
            for number, request in enumerate(adding):
                if not number % 10:
                    await asyncio.gather(*(throw() for _ in range(5)))
                errors.append((await client.ask(request)).error)
            return errors

    assert run(main()) == [0] * 200


def test_the_largest_allowed_frame_is_served(hostile_bookies):
    bookie = hostile_bookies[0]
    data = entry(70, 0, os.urandom(wire.MAX_FRAME - 4 - wire.MASTER_KEY_SIZE - 36))

    async def main():
        async with RawBookieClient(bookie) as client:
            request = wire.encode_add(KEY, data)
            assert len(request) == 4 + wire.MAX_FRAME
            added = await client.ask(request + wire.encode_add(KEY, entry(70, 1, b"next")))
            assert (await client.response()).error == 0
            return added.error, (await client.ask(wire.encode_read(70, 0))).body

    assert run(main()) == (0, data)


def test_a_client_that_accepts_no_answers_is_not_served_for_ever(hostile_bookies):
    """Its requests wait in its connection. The bookie's memory does not grow with them, and others are served."""
    import psutil

    bookie = hostile_bookies[0]
    large = entry(80, 0, bytes(1 << 20))

    async def main():
        async with RawBookieClient(bookie) as other:
            assert (await other.ask(wire.encode_add(KEY, large))).error == 0
            async with RawBookieClient(bookie) as greedy:
                greedy.writer.transport.pause_reading()
                greedy.send(wire.encode_read(80, 0) * 2000)
                for number in range(50):
                    assert (await other.ask(wire.encode_add(KEY, entry(80, number + 1, b"x")))).error == 0
                return psutil.Process(bookie.pid).memory_info().rss

    assert run(main()) < 300 << 20
