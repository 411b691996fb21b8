"""Which Avro schemas are safe to read by: whoever may publish to `__change_events` may register one. No I/O.

fastavro reads a value by recursion on the C stack, which it does not limit. A schema that holds itself, or that is
deep, would end the process at each read of a namespace's policies. Values that take no bytes could be any number.
"""

from typing import Any

from msgspec import Struct

from mledger.metastore.errors import RecordError

DEEPEST = 64
MOST_VALUES = 10_000
_NAMED = ("record", "error", "enum", "fixed")


class _Extent(Struct, frozen=True):
    """How deep a value is, how many values it has besides items of arrays and maps, and whether it may have no byte."""

    height: int = 1
    values: int = 1
    empty: bool = False


def check_readable(schema: Any, where: str) -> None:
    """Raise RecordError if values of `schema`, as parsed by fastavro, cannot be read with limited effort."""
    _Checker(where).extent(schema, 0)


class _Checker:
    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, _Extent | None] = {}  # None while it is being defined

    def extent(self, schema: Any, depth: int) -> _Extent:
        """The extent of values of `schema`, which is inside `depth` others. RecordError if that has no limit."""
        if depth > DEEPEST:
            raise self._refused(f"it is nested deeper than {DEEPEST}")
        if isinstance(schema, str):
            return self._by_name(schema)
        if isinstance(schema, list):
            branches = [self.extent(each, depth + 1) for each in schema]
            return self._limited(branches, max((each.values for each in branches), default=0), empty=False)
        kind = schema["type"]
        if kind in _NAMED:
            return self._define(schema, kind, depth)
        if kind not in ("array", "map"):
            return self.extent(kind, depth + 1)
        inside = self.extent(schema["items" if kind == "array" else "values"], depth + 1)
        if kind == "array" and inside.empty:
            raise self._refused("items of an array take no bytes")
        return self._limited([inside], inside.values, empty=False)

    def _by_name(self, name: str) -> _Extent:
        if name not in self._named:
            return _Extent(empty=name == "null")
        found = self._named[name]
        if found is None:
            raise self._refused(f"{name} holds itself")
        return found

    def _define(self, schema: Any, kind: str, depth: int) -> _Extent:
        name = schema["name"]
        self._named[name] = None
        if kind in ("enum", "fixed"):
            found = _Extent(empty=kind == "fixed" and not schema["size"])
        else:
            fields = [self.extent(each["type"], depth + 1) for each in schema["fields"]]
            found = self._limited(fields, sum(each.values for each in fields), empty=all(each.empty for each in fields))
        self._named[name] = found
        return found

    def _limited(self, inside: list[_Extent], values: int, *, empty: bool) -> _Extent:
        height = 1 + max((each.height for each in inside), default=0)
        if height > DEEPEST or values >= MOST_VALUES:
            raise self._refused(f"its values are deeper than {DEEPEST}, or have more than {MOST_VALUES} parts")
        return _Extent(height, 1 + values, empty)

    def _refused(self, why: str) -> RecordError:
        return RecordError(f"{self._where}: values of the schema are not read: {why}", self._where)
