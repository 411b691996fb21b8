"""Speculative reads: ask bookies in turn, the next one before a slow one has answered (Q11)."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class SpeculativeRead(Generic[T]):
    """Answers of bookies as they arrive: each `next` asks one more bookie, and further ones as time passes.

    Close it when the answer is found: the answers still awaited are dropped.
    """

    def __init__(
        self,
        bookies: Sequence[str],
        ask: Callable[[str], asyncio.Future[T]],
        after_s: float,
        on_slow: Callable[[str, float], None],
    ) -> None:
        """If a bookie does not answer within `after_s`, report it to `on_slow` and also ask the next one.

        `on_slow` is not called for the last of `bookies`, which has no successor.
        """
        self._left, self._ask, self._after_s, self._on_slow = deque(bookies), ask, after_s, on_slow
        self._asked: dict[asyncio.Future[T], str] = {}
        self._answered: deque[asyncio.Future[T]] = deque()
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] | None = None

    async def next(self) -> tuple[str, asyncio.Future[T]] | None:
        """A bookie and its answer, which may be an error; None once all have answered."""
        latest = self._ask_one()
        while self._asked:
            if not self._answered:
                await self._answer_or_time()
            if self._answered:
                answer = self._answered.popleft()
                return self._asked.pop(answer), answer
            if latest is not None:
                self._on_slow(latest, self._after_s)
            latest = self._ask_one()
        return None

    async def _answer_or_time(self) -> None:
        """Return with an answer, or when it is time to ask another; `asyncio.wait` costs several times as much."""
        self._wake = self._loop.create_future()
        timer = self._loop.call_later(self._after_s, self._wake_up) if self._left else None
        try:
            await self._wake
        finally:
            self._wake = None
            if timer is not None:
                timer.cancel()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _take(self, answer: asyncio.Future[T]) -> None:
        self._answered.append(answer)
        self._wake_up()

    def close(self) -> None:
        """Drop the answers still awaited."""
        for answer in self._asked:
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # mark it retrieved: nobody else does
        self._asked.clear()

    def _ask_one(self) -> str | None:
        if not self._left:
            return None
        bookie = self._left.popleft()
        answer = self._ask(bookie)
        self._asked[answer] = bookie
        answer.add_done_callback(self._take)
        return bookie
