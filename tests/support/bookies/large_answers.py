"""A connection to a bookie that has every entry of a ledger, and notes how much it was asked for at once."""

import asyncio

from tests.support.ledgers import stored_entry


class AnsweringConnection:
    """Answers one read in each turn of the event loop; `most` is the most bytes that it has owed at once."""

    LEDGER = 7

    def __init__(self, size: int) -> None:
        """Every entry has `size` bytes."""
        self._payload = bytes(size)
        self._owed = 0
        self.most = 0
        self._loop = asyncio.get_running_loop()

    def read(self, ledger: int, entry: int) -> asyncio.Future[tuple[int, bytes]]:
        """As `BookieConnection.read`."""
        self._owed += len(self._payload)
        self.most = max(self.most, self._owed)
        future: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        self._loop.call_soon(self._answer, future, ledger, entry)
        return future

    def _answer(self, future: asyncio.Future[tuple[int, bytes]], ledger: int, entry: int) -> None:
        self._owed -= len(self._payload)
        if not future.done():
            length = (entry + 1) * len(self._payload)
            future.set_result((0, stored_entry(ledger, entry, self._payload, length, entry - 1)))
