"""A process's clock that moves forward on request, as that of a machine that was suspended.

Wall clock and monotonic clock jump together, and timers of the event loop that are due by then fire at once. The time
to move by is in a file, which is read at the start and at SIGUSR1.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any, cast

import uvloop

from mledger.metastore.runtime.announcement import print_serving

MOVE = signal.SIGUSR1
_NS = 1_000_000_000


class MovableTimer:
    """What `call_later` and `call_at` of a movable loop return."""

    def __init__(self, loop: MovableLoop, when: float, call: Callable[[], object], context: Context | None) -> None:
        self._loop, self._when, self._call, self._context = loop, when, call, context
        self._cancelled = False
        self.arm()

    def arm(self) -> None:
        """Have it fire at its time, by the clock as it is now."""
        self._handle = self._loop.plain_timer(max(0.0, self._when - self._loop.time()), self._fire, self._context)

    def rearm(self) -> None:
        """Do so again after the clock has moved."""
        self._handle.cancel()
        self.arm()

    def when(self) -> float:
        """When it fires, in the loop's time."""
        return self._when

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def cancel(self) -> None:
        """Have it not fire."""
        self._cancelled = True
        self._handle.cancel()
        self._loop.forget(self)

    def _fire(self) -> None:
        self._loop.forget(self)
        self._call()


class MovableLoop(uvloop.Loop):  # type: ignore[misc]
    """An event loop whose time moves with `move`."""

    def __init__(self, moved_s: float) -> None:
        super().__init__()
        self._moved_s = moved_s
        self._timers: set[MovableTimer] = set()

    def time(self) -> float:
        """The loop's time in seconds."""
        return cast("float", super().time()) + self._moved_s

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """As the loop's own."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:
        """As the loop's own."""
        timer = MovableTimer(self, when, lambda: callback(*args), context)
        self._timers.add(timer)
        return timer

    def plain_timer(self, delay: float, call: Callable[[], None], context: Context | None) -> Any:
        """A timer that does not move."""
        return super().call_later(delay, call, context=context)

    def forget(self, timer: MovableTimer) -> None:
        """Move a timer no more."""
        self._timers.discard(timer)

    def move(self, seconds: float) -> None:
        """Move the time forward."""
        self._moved_s += seconds
        for timer in list(self._timers):
            timer.rearm()


class MovableClock:
    """The clock of this process; `path` holds by how many seconds it is to be ahead."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._moved_s = 0.0
        self._loop: MovableLoop | None = None
        self._system = time.time, time.time_ns, time.monotonic

    def install(self) -> None:
        """Replace the clocks of this process."""
        now, now_ns, monotonic = self._system
        self._moved_s = self._wanted()
        time.time = lambda: now() + self._moved_s
        time.time_ns = lambda: now_ns() + int(self._moved_s * _NS)
        time.monotonic = lambda: monotonic() + self._moved_s

    def make_loop(self) -> MovableLoop:
        """The loop of the process, which moves at SIGUSR1."""
        self._loop = MovableLoop(self._moved_s)
        self._loop.add_signal_handler(MOVE, self._move)
        return self._loop

    def _move(self) -> None:
        assert self._loop is not None
        seconds = self._wanted() - self._moved_s
        self._moved_s += seconds
        self._loop.move(seconds)
        print_serving({"clock_s": self._moved_s, "pid": os.getpid()})

    def _wanted(self) -> float:
        try:
            return float(self._path.read_text())
        except FileNotFoundError:
            return 0.0
