"""Messages for people: one line each, in columns, whatever their payloads contain; no I/O."""

from collections.abc import Mapping

from mledger.cli.shared.output.plain_text import escaped
from mledger.cli.shared.output.results import Value
from mledger.metastore.runtime.times import time_text

COLUMNS = (
    ("position", 14),
    ("published", 24),
    ("producer", 16),
    ("key", 12),
    ("properties", 16),
    ("compression", 11),
    ("schema", 6),
    ("payload", 0),
)
"""Headings and minimum widths, in characters; a wider value shifts the rest of its line."""
NOTHING = "-"


def decoded_heading() -> str:
    """The line above the messages."""
    return _line([name for name, _ in COLUMNS])


def decoded_line(described: Mapping[str, Value], payload: bytes) -> str:
    """A message on one line; `described` has the keys of a stream's objects, without unknown values."""
    batch_index = described.get("batch_index")
    position = str(described["position"])
    properties = described.get("properties")
    return _line(
        [
            position if batch_index is None else f"{position}:{batch_index}",
            _time(described.get("publish_time")),
            _text(described.get("producer_name")),
            _text(described.get("key")),
            _properties(properties) if isinstance(properties, Mapping) else NOTHING,
            _text(described.get("compression")),
            _text(described.get("schema_version")),
            readable_payload(payload),
        ]
    )


def readable_payload(payload: bytes) -> str:
    """UTF-8 with control characters escaped, other bytes in hexadecimal; never more than one line."""
    try:
        return escaped(payload.decode("utf-8"))
    except UnicodeDecodeError:
        return payload.hex()


def _line(cells: list[str]) -> str:
    padded = (cell.ljust(width) for cell, (_, width) in zip(cells, COLUMNS, strict=True))
    return "  ".join(padded).rstrip()


def _time(value: Value) -> str:
    return time_text(value) if isinstance(value, int) and value else NOTHING


def _text(value: Value) -> str:
    return NOTHING if value is None or value == "" else escaped(str(value))


def _properties(values: Mapping[str, Value]) -> str:
    return ",".join(f"{escaped(key)}={escaped(str(value))}" for key, value in values.items()) or NOTHING
