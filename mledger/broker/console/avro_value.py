"""A value in Avro's binary form, read by its schema. No I/O.

Payloads may be hostile: depth, elements and text are limited, so no bytes take more than their size to read.
"""

import struct
from typing import Any

from mledger.broker.schemas.avro_schema import AvroSchemaNode
from mledger.metastore.errors import RecordError

DEEPEST = 64
MOST_VALUES = 20_000
_LONGEST_VARINT = 10


def decode_avro(schema: AvroSchemaNode, data: bytes) -> Any:
    """The value as JSON has it, with bytes as `0x…`. RecordError if `data` is no value of the schema, or too large."""
    reader = _Reader(data)
    try:
        found = reader.value(schema, 0)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise _damaged("it ends early, or its text is not UTF-8") from None
    if reader.at != len(data):
        raise _damaged(f"{len(data) - reader.at} bytes are left after the value")
    return found


def _damaged(why: str) -> RecordError:
    return RecordError(f"the payload is no value of its schema: {why}", "")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at, self._values = data, 0, 0

    def value(self, schema: AvroSchemaNode, depth: int) -> Any:
        self._values += 1
        if depth > DEEPEST or self._values > MOST_VALUES:
            raise _damaged(f"it is nested deeper than {DEEPEST}, or has more than {MOST_VALUES} values")
        kind = schema.kind
        if kind in ("record", "error"):
            return {field.name: self.value(field.schema, depth + 1) for field in schema.fields}
        if kind == "union":
            return self.value(self._chosen(schema.inner), depth + 1)
        if kind == "enum":
            return self._chosen(schema.symbols)
        if kind in ("array", "map"):
            return self._blocks(schema, depth)
        if kind == "fixed":
            return f"0x{self._take(schema.size).hex()}"
        return self._primitive(kind)

    def _primitive(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1)[0] != 0
        if kind in ("int", "long"):
            return self._long()
        if kind in ("float", "double"):
            size, code = (4, "<f") if kind == "float" else (8, "<d")
            return struct.unpack(code, self._take(size))[0]
        data = self._take(self._long())
        return data.decode() if kind == "string" else f"0x{data.hex()}"

    def _blocks(self, schema: AvroSchemaNode, depth: int) -> Any:
        items: list[Any] = []
        pairs: dict[str, Any] = {}
        while count := self._long():
            if count < 0:
                count = -count
                self._long()
            for _ in range(count):
                if schema.kind == "array":
                    items.append(self.value(schema.inner[0], depth + 1))
                else:
                    key = self._take(self._long()).decode()
                    pairs[key] = self.value(schema.inner[0], depth + 1)
        return items if schema.kind == "array" else pairs

    def _chosen(self, of: Any) -> Any:
        at = self._long()
        if not 0 <= at < len(of):
            raise _damaged(f"it chooses {at} of {len(of)}")
        return of[at]

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self._data):
            raise _damaged(f"a field of {size} bytes goes past its end")
        found, self.at = self._data[self.at : end], end
        return found

    def _long(self) -> int:
        found = 0
        for shift in range(_LONGEST_VARINT):
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << (7 * shift)
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise _damaged("a number has more than 10 bytes")
