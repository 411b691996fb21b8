"""Whose turn it is among consumers of several priorities (D2); each step costs the same for any number of them."""

from collections import deque
from itertools import chain

from mledger.broker.dispatch.consumer import DispatchConsumer
from mledger.broker.dispatch.writability import permits_of


class RoundRobin:
    """The consumers that wait for messages: those with the lowest priority number in turn, before all others.

    A consumer is offered when it may have become available; one that is not available any more leaves when its turn
    comes.
    """

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        self._levels: dict[int, deque[DispatchConsumer]] = {}
        self._priorities: list[int] = []

    def offer(self, consumer: DispatchConsumer) -> None:
        """Let an available consumer wait for its turn, if it does not yet."""
        if consumer.queued or not consumer.available:
            return
        level = self._levels.get(consumer.priority)
        if level is None:
            level = self._levels[consumer.priority] = deque()
            self._priorities = sorted(self._levels)
        level.append(consumer)
        consumer.queued = True

    def remove(self, consumer: DispatchConsumer) -> None:
        """A consumer is gone."""
        if consumer.queued:
            self._levels[consumer.priority].remove(consumer)
            consumer.queued = False

    def next(self) -> tuple[DispatchConsumer, bool] | None:
        """Whose turn it is, and whether it waits alone on its level; None if nobody is available."""
        for priority in self._priorities:
            level = self._levels[priority]
            while level:
                consumer = level[0]
                if consumer.available:
                    return consumer, len(level) == 1
                level.popleft()
                consumer.queued = False
        return None

    def turned(self, consumer: DispatchConsumer) -> None:
        """The consumer that `next` named had its turn."""
        self._levels[consumer.priority].rotate(-1)

    def permits(self, most: int) -> tuple[int, bool]:
        """The permits of all that are available, counted up to `most`, and whether one of them is writable."""
        return permits_of(chain.from_iterable(map(self._levels.__getitem__, self._priorities)), most)
