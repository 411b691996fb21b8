"""Text from a cluster as a terminal may show it, whoever has written it there."""

import codecs
import io
import json
from datetime import UTC, datetime
from typing import TextIO

_ESCAPES = "mledger escapes"
_FAILING = ("strict", "surrogateescape")  # the second in the locale C
_SMALLEST_RATE = 0.001
_WHOLE_FROM = 100


def write_any_character(stream: TextIO) -> None:
    """Have `stream` write characters that its encoding lacks as escapes of JSON, and not fail at the first one."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in _FAILING:
        codecs.register_error(_ESCAPES, _escape)
        stream.reconfigure(errors=_ESCAPES)


def _escape(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def escaped(text: str) -> str:
    r"""`text` with unprintable characters escaped, as `\n`, `\x1b` and the like: a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def seconds_text(ms: int) -> str:
    """As `time_text` of `times`, without milliseconds and with a space before the time."""
    try:
        return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def rate_text(value: float) -> str:
    """A rate with as many digits as people read: whole from 100 on, three digits below."""
    if 0 < abs(value) < _SMALLEST_RATE:
        return f"<{_SMALLEST_RATE}"
    return f"{value:.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.3g}"
