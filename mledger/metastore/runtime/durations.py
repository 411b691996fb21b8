"""Durations counted in buckets: cheap enough for once per turn or batch, without locks, on one loop."""

from bisect import bisect_left

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets, in seconds; one more bucket holds what is above the last."""


class Durations:
    """How many observations there were, their sum in seconds, and how many fell into each bucket."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS_S) + 1)

    def observe(self, seconds: float, times: int = 1) -> None:
        """Count `times` observations of `seconds`."""
        self.count += times
        self.seconds += seconds * times
        self.buckets[bisect_left(BOUNDS_S, seconds)] += times

    def cumulative(self) -> list[tuple[str, float]]:
        """For each bound, as text, how many observations were at or below it; the last bound is +Inf."""
        total, found = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.buckets, strict=True):
            total += count
            found.append((bound, float(total)))
        return found
