"""Frames sent straight to a bookie, without the client: a test of the server decides every byte."""

import asyncio

from mledger.bookie import wire
from mledger.bookie.digest import make_digest
from mledger.metastore.records.ledger_metadata import DigestType

_DIGEST = make_digest(DigestType.CRC32C, b"")


def entry(ledger: int, number: int, payload: bytes, last_add_confirmed: int | None = None, length: int = 0) -> bytes:
    """An entry as stored."""
    confirmed = number - 1 if last_add_confirmed is None else last_add_confirmed
    head = wire.ENTRY_HEAD.pack(ledger, number, confirmed, length)
    return head + _DIGEST.value(head, payload) + payload


class RawBookieClient:
    """One connection to a bookie. Answers come in their order of arrival."""

    def __init__(self, bookie) -> None:
        self.address = bookie.address

    async def __aenter__(self) -> "RawBookieClient":
        self.reader, self.writer = await asyncio.open_connection(*self.address, limit=1 << 24)
        return self

    async def __aexit__(self, *_) -> None:
        self.writer.close()

    def send(self, data: bytes) -> None:
        """Write these bytes."""
        self.writer.write(data)

    async def frame(self) -> bytes:
        """The next frame with its length field. Raises IncompleteReadError if the bookie closes."""
        head = await self.reader.readexactly(4)
        return head + await self.reader.readexactly(int.from_bytes(head, "big"))

    async def response(self) -> wire.Response:
        """The next response."""
        return wire.decode_response(await self.frame())

    async def ask(self, request: bytes) -> wire.Response:
        """Send one request and return its response."""
        self.send(request)
        return await self.response()

    async def closed(self) -> bytes:
        """Wait until the bookie closes the connection, and return what it still sent."""
        return await self.reader.read(-1)
