"""Requests to a bookie itself: its disk by a version 3 request, its clock by HTTP."""

import asyncio
import time
from typing import cast

from google.protobuf.message import DecodeError
from msgspec import Struct

from mledger.bookie import wire
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.errors import BookieUnavailable
from mledger.bookie.pb import BookkeeperProtocol_pb2 as pb
from mledger.metastore.runtime.network.time_limit import TimeLimit

TIMEOUT_S = 15.0
_LARGEST_ANSWER = 64 << 10


class BookieInfo(Struct, frozen=True):
    """A bookie's disk, in bytes."""

    total_bytes: int
    free_bytes: int


class _Connection(asyncio.StreamReaderProtocol):
    """A connection whose bytes are read from a stream."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", transport)


async def ask_info(
    host: str, port: int, timeout_s: float = TIMEOUT_S, connector: BookieConnector | None = None
) -> BookieInfo | None:
    """Ask a bookie for its disk; None if it does not support such requests. BookieUnavailable.

    Opens a connection of its own: one that has spoken version 2 accepts no version 3 request.
    """
    try:
        async with TimeLimit(timeout_s):
            reader = asyncio.StreamReader()
            connection = await (connector or BookieConnector()).connect(lambda: _Connection(reader), host, port)
            try:
                connection.transport.write(_info_request())
                length = int.from_bytes(await reader.readexactly(wire.LENGTH.size), "big")
                if length > _LARGEST_ANSWER:
                    return None
                response = pb.Response.FromString(await reader.readexactly(length))
            finally:
                connection.transport.abort()
    except TimeoutError:
        raise BookieUnavailable(f"{host}:{port} did not answer within {timeout_s:g} s") from None
    except DecodeError:
        return None
    except (OSError, EOFError) as error:
        raise BookieUnavailable(f"{host}:{port} cannot be asked: {error}") from None
    if response.status != pb.EOK or not response.HasField("getBookieInfoResponse"):
        return None
    info = response.getBookieInfoResponse
    return BookieInfo(info.totalDiskCapacity, info.freeDiskSpace) if info.status == pb.EOK else None


async def ask_clock(address: str, timeout_s: float = TIMEOUT_S) -> float | None:
    """How many seconds the clock of a bookie's HTTP server is ahead of ours, to a second; None if it sends no date."""
    from email.utils import parsedate_to_datetime  # few commands ask for a clock

    host, _, port = address.rpartition(":")
    try:
        async with TimeLimit(timeout_s):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(f"HEAD /heartbeat HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
                head = (await reader.readuntil(b"\r\n\r\n")).decode("iso-8859-1")
            finally:
                writer.close()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n") if ": " in line)
        return parsedate_to_datetime(fields["date"]).timestamp() - time.time()
    except (OSError, EOFError, ValueError, KeyError, asyncio.LimitOverrunError):
        return None


def _info_request() -> bytes:
    wanted = pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY | pb.GetBookieInfoRequest.FREE_DISK_SPACE
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.GET_BOOKIE_INFO, txnId=1)
    request = pb.Request(header=header, getBookieInfoRequest=pb.GetBookieInfoRequest(requested=wanted))
    data = request.SerializeToString()
    return wire.LENGTH.pack(len(data)) + data
