"""What a client asked to be opened, from the moment at which the request is read: its close may be right behind it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mledger.broker.refusals import BrokerRefusal
from mledger.pb import PulsarApi_pb2 as pb


class _Opening:
    __slots__ = ("given_up", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None  # None until the request's turn
        self.given_up = False


class Openings:
    """The producers, consumers or watchers (`what`) of a connection that are being opened, by their numbers."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._openings: dict[int, _Opening] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._openings

    def open(self, number: int, work: Callable[[], Coroutine[Any, Any, None]]) -> Coroutine[Any, Any, None]:
        """What carries out a request to open number `number`, by `work`.

        Raises, once it is awaited:
            BrokerRefusal: that number is being opened already, or was closed before its turn came.
        """
        if number in self._openings:
            return self._refuse(number)
        opening = self._openings[number] = _Opening()
        return self._carry_out(number, opening, work)

    def give_up(self, number: int) -> None:
        """The client closed what it asked for: it is not opened any more, if it is not open yet."""
        opening = self._openings.get(number)
        if opening is None:
            return
        opening.given_up = True
        if opening.task is None:
            del self._openings[number]
        else:
            opening.task.cancel()

    async def _refuse(self, number: int) -> None:
        raise BrokerRefusal(pb.ServiceNotReady, f"{self._what} {number} is being opened on this connection already")

    async def _carry_out(self, number: int, opening: _Opening, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        opening.task = asyncio.current_task()
        try:
            if opening.given_up:
                raise BrokerRefusal(pb.ServiceNotReady, f"{self._what} {number} was closed before it was open")
            await work()
        finally:
            if self._openings.get(number) is opening:
                del self._openings[number]
