"""The time now, and times as text."""

import time
from datetime import UTC, datetime


def wall_clock_ms() -> int:
    """Now, in ms since 1970."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Now, in ms of a clock that nobody sets: for pauses and rates."""
    return int(time.monotonic() * 1000)


def utc_text(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 has them, in UTC: `2026-01-31T12:00:00.000Z`.

    Raises:
        ValueError, OverflowError, OSError: no calendar has that time.
    """
    at = datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
    return at.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def time_text(ms: int) -> str:
    """Milliseconds since 1970 as a date in UTC, ISO 8601; the number if it is beyond all dates."""
    try:
        return utc_text(ms)
    except (ValueError, OverflowError, OSError):
        return str(ms)
