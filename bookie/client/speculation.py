"""Asking bookies in turn for the same thing, the next one before a slow one has answered (Q11)."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class SpeculativeRead(Generic[T]):
    """Answers of bookies as they come: each `next` asks one more bookie, and another whenever time passes.

    Close it when the answer is there: what is still awaited is dropped.
    """

    def __init__(
        self,
        bookies: Sequence[str],
        ask: Callable[[str], asyncio.Future[T]],
        after_s: float,
        on_slow: Callable[[str, float], None],
    ) -> None:
        """A bookie that has not answered within `after_s` is reported to `on_slow`, and the next one asked beside it.

        `on_slow` is not called for the last of `bookies`: there is nobody to ask in its place.
        """
        self._left, self._ask, self._after_s, self._on_slow = deque(bookies), ask, after_s, on_slow
        self._asked: dict[asyncio.Future[T], str] = {}

    async def next(self) -> tuple[str, asyncio.Future[T]] | None:
        """A bookie and its answer, which may be an error; None once all have answered."""
        latest = self._ask_one()
        while self._asked:
            patience = self._after_s if self._left else None
            done, _ = await asyncio.wait(self._asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for answer in done:
                return self._asked.pop(answer), answer
            if latest is not None:
                self._on_slow(latest, self._after_s)
            latest = self._ask_one()
        return None

    def close(self) -> None:
        """Wait for nobody any more."""
        for answer in self._asked:
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # nobody asks for it
        self._asked.clear()

    def _ask_one(self) -> str | None:
        if not self._left:
            return None
        bookie = self._left.popleft()
        self._asked[self._ask(bookie)] = bookie
        return bookie
