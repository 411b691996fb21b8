"""Text from a cluster as a terminal may show it, whoever has written it there."""

from datetime import UTC, datetime

from mledger.metastore.runtime.times import utc_text


def escaped(text: str) -> str:
    r"""`text` with unprintable characters escaped, as `\n`, `\x1b` and the like: a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def time_text(ms: int) -> str:
    """Milliseconds since 1970 as a date in UTC, ISO 8601; the number if it is beyond all dates."""
    try:
        return utc_text(ms)
    except (ValueError, OverflowError, OSError):
        return str(ms)


def seconds_text(ms: int) -> str:
    """As `time_text`, without milliseconds and with a space before the time."""
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)
