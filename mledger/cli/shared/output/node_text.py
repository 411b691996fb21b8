"""A metadata node's content: decoded if its path has a known format, else text or hexadecimal."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from mledger.cli.shared.output.results import Value, readable
from mledger.metastore.cluster.bookies import decode_registration
from mledger.metastore.errors import MetadataError
from mledger.metastore.records import paths
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import Decoded


@dataclasses.dataclass(frozen=True, slots=True)
class NodeContent:
    """A node's kind (`managed ledger`, `cursor`, `ledger`, `bookie`, `text`, `bytes`, `empty`) and value."""

    kind: str
    value: Value


def decode_node(path: str, data: bytes) -> NodeContent:
    """Decode `data` of the node at `path`. Raises RecordError if it does not parse in the known format."""
    if not data:
        return NodeContent("empty", None)
    parts = path.strip("/").split("/")
    named_by = paths.managed_ledger_depth(parts[1:]) if parts[0] == "managed-ledgers" else None
    if named_by is not None:
        below = len(parts) - 1 - named_by
        if below == 0:
            return _record("managed ledger", decode_managed_ledger_info(data, path))
        if below == 1:
            return _record("cursor", decode_managed_cursor_info(data, path))
    if _is_ledger(path):
        return NodeContent("ledger", plain(decode_ledger_metadata(data, path)))
    if parts[-2:-1] in (["available"], ["readonly"]):
        return NodeContent(
            "bookie", plain(decode_registration(parts[-1], data, read_only="readonly" in parts, path=path))
        )
    text = readable(data)
    return NodeContent("bytes" if text == data.hex() else "text", text)


def plain(value: Any) -> Value:
    """A record as JSON: objects by field name, positions as LEDGER:ENTRY, bytes as text or hexadecimal."""
    if isinstance(value, Position | PositionRange):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return readable(value)
    fields = _fields(value)
    if fields is not None:
        return {name: plain(item) for name, item in fields.items()}
    if isinstance(value, tuple | list):
        if value and all(_is_pair(item) for item in value):
            return {key: plain(item) for key, item in value}
        return tuple(plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record; None if it is none."""
    if isinstance(value, Struct):
        return structs.asdict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # a field with repr=False describes the encoding, not the content
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.repr}
    return None


def _is_pair(item: object) -> bool:
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], str)


def _is_ledger(path: str) -> bool:
    try:
        paths.ledger_id_from_path(path)
    except (MetadataError, ValueError):
        return False
    return True


def _record(kind: str, decoded: Decoded[Any]) -> NodeContent:
    value = plain(decoded.value)
    assert isinstance(value, Mapping)
    stored = "text" if decoded.text else decoded.compression
    return NodeContent(kind, value if stored == "NONE" else {**value, "stored_as": stored})
