"""A clock that stands still until a test moves it."""

SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000


class Clock:
    """A call returns milliseconds since 1970."""

    def __init__(self, ms: int = 1_800_000_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms
