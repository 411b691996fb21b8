"""What stands for the persistence of a cursor that is not durable: its state is in memory only (C9)."""

import asyncio
from collections.abc import Callable, Sequence

from mledger.cursors.host import CursorHost
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER


class MemoryPersistence:
    """Every change counts as durable at once; `mark_delete` gives the current mark-delete position."""

    path = ""
    ledger_id = NO_CURSOR_LEDGER
    is_writing = False
    is_failing = False
    behind_s = 0.0

    def __init__(self, host: CursorHost, mark_delete: Callable[[], Position]) -> None:
        self._host = host
        self._mark_delete = mark_delete
        self._before = mark_delete()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.set_result(None)

    @property
    def durable_mark_delete(self) -> Position:
        """The current mark-delete position."""
        return self._mark_delete()

    def changed(self, *, reset: bool = False) -> None:
        """Report a moved mark-delete, since ledgers may be consumed now."""
        before, self._before = self._before, self._mark_delete()
        if self._before != before:
            self._host.mark_delete_moved(before, self._before)

    def request(self) -> "asyncio.Future[None]":
        """A future that is done."""
        return self._done

    async def flush(self) -> None:
        """Write nothing."""

    async def persist_without_ledger(self) -> None:
        """Write nothing."""

    async def persist_recovered(self) -> None:
        """Write nothing."""

    async def close(self) -> None:
        """Write nothing."""

    async def closed(self) -> None:
        """Wait for nothing."""

    async def close_again(self) -> None:
        """Wait for nothing."""

    async def remove(self, why: MledgerError, attached: Sequence[int] = ()) -> None:
        """Delete nothing."""

    def fence(self, error: MledgerError) -> None:
        """Keep the state: no durable one differs from it."""

    async def abandon(self, error: MledgerError) -> None:
        """Release nothing."""
