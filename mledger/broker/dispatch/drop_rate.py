"""How many messages of a non-persistent topic went to nobody, and at which rate (D12); the time is an argument."""

WINDOW_MS = 60_000
"""Pulsar's interval of rates (`statsUpdateFrequencyInSecs`)."""


class DropRate:
    """Counts messages that were dropped. The rate is that of the last minute.

    Of the minute before the current one only the sum is kept: what of it counts is its part within the last minute.
    """

    __slots__ = ("_before", "_current", "_start_ms", "dropped")

    def __init__(self) -> None:
        self.dropped = 0
        self._before = 0
        self._current = 0
        self._start_ms = 0

    def add(self, messages: int, now_ms: int) -> None:
        """So many messages were dropped."""
        self._move(now_ms)
        self.dropped += messages
        self._current += messages

    def per_second(self, now_ms: int) -> float:
        """Messages a second."""
        self._move(now_ms)
        left = min(1.0, 1 - (now_ms - self._start_ms) / WINDOW_MS)
        return (self._before * left + self._current) * 1000 / WINDOW_MS

    def _move(self, now_ms: int) -> None:
        passed = (now_ms - self._start_ms) // WINDOW_MS
        if passed > 0:
            self._before = self._current if passed == 1 else 0
            self._current = 0
            self._start_ms += passed * WINDOW_MS
