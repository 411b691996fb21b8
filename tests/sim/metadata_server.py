"""One of the simulated metadata servers: it follows the leader with a lag of its own."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from mledger.metastore.memory.tree import MemoryTree

if TYPE_CHECKING:
    from tests.sim.metadata import SimEnsemble

LATENCY_S = 0.0005


class SimServer:
    """One follower: its tree, and how far it has followed."""

    def __init__(self, ensemble: "SimEnsemble", number: int) -> None:
        self.ensemble, self.number = ensemble, number
        self.tree = MemoryTree()
        self.applied = 0
        self.lag_s = 0.0
        self.stopped = False
        """Whether it follows no more for now: a long lag."""
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        self._rng = Random(f"{ensemble.loop.seed}/metadata server {number}")
        self._last = 0.0

    def follow(self) -> None:
        """Hear of the leader's newest entry, in order."""
        loop = self.ensemble.loop
        at = max(self._last, loop.now + LATENCY_S * self._rng.random() + self.lag_s * self._rng.random())
        self._last = at
        loop.later_as(loop.world, at - loop.now, self.catch_up, len(self.ensemble.log))

    def catch_up(self, to: int) -> None:
        """Apply the leader's log up to its entry `to`."""
        if self.stopped:
            return
        while self.applied < to:
            self.ensemble.replay(self.tree, self.applied)
            self.applied += 1
        ready = [call for zxid, call in self._waiters if zxid <= self.applied]
        self._waiters = [each for each in self._waiters if each[0] > self.applied]
        for call in ready:
            call()

    def when_at(self, zxid: int, call: Callable[[], None]) -> None:
        """Call once it has applied so many entries."""
        if self.applied >= zxid:
            call()
        else:
            self._waiters.append((zxid, call))
