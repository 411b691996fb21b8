"""Scheduled work of topics, independent of traffic: rollover by age, retention, retries.

One timer serves all topics of a cluster. Times are those of the injected clock. A machine's clock
may step, so the timer checks at least as often as a broker does
(`retentionCheckIntervalInSeconds`). If the clock is set back, alarms ring as much earlier: a retry
that was due in a minute would wait for as long as the clock was ahead. Who is rung looks at the
clock again. When many alarms are due at once, they ring a limited number at a time.
"""

import asyncio
import heapq
from collections.abc import Callable

CHECK_INTERVAL_S = 120.0
BEGIN_AT_ONCE = 50
NEXT_S = 0.05
SIFT_FROM = 1024
SET_BACK_MS = 1000
"""A clock that is corrected by less than this was not set back."""


class Alarm:
    """Calls `ring` once when the clock reaches the time set; made by `Maintenance.alarm`."""

    __slots__ = ("_maintenance", "due_ms", "ring")

    def __init__(self, maintenance: "Maintenance", ring: Callable[[], None]) -> None:
        self._maintenance = maintenance
        self.ring = ring
        self.due_ms: int | None = None

    def set(self, due_ms: int) -> None:
        """Ring at `due_ms`, in ms since 1970; this replaces the time set before."""
        self._maintenance.expect(self, due_ms)

    def cancel(self) -> None:
        """Do not ring until set again."""
        self.due_ms = None


class Maintenance:
    """The alarms of all topics of one cluster, behind one timer of the event loop."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._heap: list[tuple[int, int, Alarm]] = []
        self._serial = 0
        self._sift_at = SIFT_FROM
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._seen_ms = 0
        self._stopped = False

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        """A new alarm, not yet set; `ring` starts work and does not wait for it."""
        return Alarm(self, ring)

    def expect(self, alarm: Alarm, due_ms: int) -> None:
        """Ring `alarm` at `due_ms` if it is not set to another time meanwhile."""
        now = self._look()
        alarm.due_ms = due_ms
        self._serial += 1
        if len(self._heap) >= self._sift_at:
            self._sift()
        heapq.heappush(self._heap, (due_ms, self._serial, alarm))
        self._arm((due_ms - now) / 1000)

    def run_due(self, most: int | None = None) -> int:
        """Ring the alarms that are due, at most `most`; returns how many rang."""
        now, rang = self._look(), 0
        while self._heap and (most is None or rang < most):
            due_ms, _, alarm = self._heap[0]
            if alarm.due_ms != due_ms:  # cancelled, or set to another time
                heapq.heappop(self._heap)
            elif due_ms > now:
                break
            else:
                heapq.heappop(self._heap)
                alarm.due_ms = None
                rang += 1
                self._ring(alarm)
        return rang

    @staticmethod
    def _ring(alarm: Alarm) -> None:
        """Start one topic's work; its error does not affect other topics."""
        try:
            alarm.ring()
        except Exception as error:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "scheduled work did not start", "exception": error})

    def stop(self) -> None:
        """Ring no more alarms."""
        self._stopped = True
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> int:
        """The time now. If the clock was set back since the last look, every alarm is due as much earlier."""
        now, seen = self.now_ms(), self._seen_ms
        self._seen_ms = now
        if (back := seen - now) >= SET_BACK_MS:
            for due_ms, _, alarm in self._heap:
                if alarm.due_ms == due_ms:
                    alarm.due_ms = due_ms - back
            self._heap = [(due_ms - back, serial, alarm) for due_ms, serial, alarm in self._heap]
        return now

    def _sift(self) -> None:
        """Drop outdated entries: those of alarms that were cancelled or set to another time."""
        self._heap = [entry for entry in self._heap if entry[2].due_ms == entry[0]]
        heapq.heapify(self._heap)
        self._sift_at = max(SIFT_FROM, 2 * len(self._heap))

    def _arm(self, delay_s: float) -> None:
        """Set the timer to fire in `delay_s` seconds, unless it fires earlier already."""
        if self._stopped:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + min(max(delay_s, 0.0), CHECK_INTERVAL_S)
        if self._timer is not None:
            if self._rings_at <= at:
                return
            self._timer.cancel()
        self._rings_at = at
        self._timer = loop.call_at(at, self._fired)

    def _fired(self) -> None:
        self._timer = None
        rang = self.run_due(BEGIN_AT_ONCE)
        if self._heap:
            self._arm(NEXT_S if rang == BEGIN_AT_ONCE else (self._heap[0][0] - self.now_ms()) / 1000)
