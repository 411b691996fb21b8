"""At most so much in a second, of whatever is counted: bytes read, nodes asked for."""


class RateLimiter:
    """Tells how long to wait so that no more than a rate comes through; what was not used is not saved up."""

    def __init__(self, per_second: float | None = None) -> None:
        """No limit with None."""
        self.per_second = per_second
        self._free_at = 0.0

    def pause_before(self, count: int, now: float) -> float:
        """Seconds to wait at `now` (s) before `count` more, of which the size is known; they count from then on."""
        if self.per_second is None:
            return 0.0
        begin = max(self._free_at, now)
        self._free_at = begin + count / self.per_second
        return begin - now

    def pause_after(self, count: int, now: float) -> float:
        """Seconds to wait after `count` were had by `now` (s), whose size shows only then."""
        self.pause_before(count, now)
        return 0.0 if self.per_second is None else self._free_at - now
