"""Requests of one connection, served for a while at a time: tens of thousands can come at once, and others wait."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence

from mledger.broker.connections.intake import Hold, Intake
from mledger.broker.protocol.errors import ProtocolError
from mledger.broker.protocol.requests import Request

TURN_S = 0.01
"""After that time the other connections get a turn."""
steady_s = time.monotonic


class RequestTurns:
    """Serves requests in order by `serve`, an error after them by `fail`. While some wait nothing more is read."""

    def __init__(
        self,
        serve: Callable[[Request], None],
        fail: Callable[[ProtocolError], None],
        intake: Intake,
    ) -> None:
        self._serve, self._fail, self._intake = serve, fail, intake
        self._left: Iterator[Request] = iter(())
        self._error: ProtocolError | None = None
        self._next: asyncio.Handle | None = None

    def take(self, requests: Sequence[Request], error: ProtocolError | None) -> None:
        """Serve requests, and then end with the error, if there is one."""
        if self._next is not None:
            self._left = itertools.chain(self._left, requests)
            self._error = self._error or error
            return
        self._left, self._error = iter(requests), error
        self._turn()

    def serve_next(self, requests: Iterator[Request]) -> None:
        """Serve these, the parts of the request that is being served, before those that wait."""
        self._left = itertools.chain(requests, self._left)

    def stop(self) -> None:
        """Serve nothing more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._left = iter(())

    def _turn(self) -> None:
        self._next = None
        until_s = steady_s() + TURN_S
        try:
            while (request := next(self._left, None)) is not None:
                self._serve(request)
                if steady_s() >= until_s:
                    self._next = asyncio.get_running_loop().call_soon(self._turn)
                    self._intake.hold(Hold.REQUESTS)
                    return
        except ProtocolError as violation:
            self._error = violation
        self._left = iter(())
        if self._error is not None:
            self._fail(self._error)
        self._intake.release(Hold.REQUESTS)
