"""Spreads the writes that many cursors begin at once over several turns of the event loop."""

import asyncio
from collections import deque

BEGUN_A_TURN = 8


class WriteTurns:
    """Lets a few writes begin in each turn of the loop, in the order of asking: other work comes between."""

    def __init__(self) -> None:
        self._left = BEGUN_A_TURN
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewal: asyncio.Handle | None = None

    async def next(self) -> None:
        """Return when the caller's write may begin: at once, unless BEGUN_A_TURN others began in this turn."""
        if self._left and not self._waiting:
            self._left -= 1
            self._renew_soon()
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _renew_soon(self) -> None:
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        self._renewal, self._left = None, BEGUN_A_TURN
        while self._left and self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else its caller was cancelled
                waiter.set_result(None)
                self._left -= 1
        if self._left < BEGUN_A_TURN:
            self._renew_soon()
