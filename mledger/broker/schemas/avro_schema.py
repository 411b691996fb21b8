"""Avro schemas, as far as it matters whether one reads what another wrote."""

import json
import reprlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from mledger.metastore.errors import MledgerError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MOST_COMPARED = 100_000
"""Comparisons that a check of schemas may take, some 0.1 s: clients send them, and all others wait meanwhile."""
_DEEPEST = 100


class InvalidAvroSchema(MledgerError):
    """The text is not an Avro schema."""


class AvroField(Struct, eq=False):
    """A field of a record."""

    name: str
    schema: "AvroSchemaNode"
    has_default: bool
    aliases: tuple[str, ...]
    default: Any = None


class AvroSchemaNode(Struct, eq=False):
    """A schema; `kind` is Avro's word for it. Recursive schemas hold themselves."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0
    inner: "list[AvroSchemaNode]" = field(default_factory=list)
    """Of an array or map its elements' schema, of a union its branches."""

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]


def parse_avro(data: bytes) -> AvroSchemaNode:
    """The schema in `data`, its JSON text. Raises InvalidAvroSchema."""
    try:
        text = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidAvroSchema(f"an Avro schema of {len(data)} bytes cannot be read: {error}") from None
    return _Parser().parse(text, "", 0)


def same_avro(one: bytes, other: bytes) -> bool:
    """Whether two schemas are the same but for documentation, aliases and how names are written."""
    try:
        return one == other or bool(_canonical(json.loads(one), "") == _canonical(json.loads(other), ""))
    except (ValueError, RecursionError):
        return False


def _canonical(text: Any, namespace: str) -> Any:
    if isinstance(text, str):
        return text if text in PRIMITIVES else _full_name(text, namespace)
    if isinstance(text, list):
        return [_canonical(each, namespace) for each in text]
    if not isinstance(text, dict):
        return text
    found = {key: value for key, value in text.items() if key not in ("doc", "aliases", "namespace")}
    name, space = text.get("name"), text.get("namespace", namespace)
    if isinstance(name, str) and isinstance(space, str):
        found["name"] = _full_name(name, space)
        namespace = found["name"].rpartition(".")[0]
    for key in ("type", "items", "values"):
        if key in found and found[key] not in ("record", "error", "enum", "fixed", "array", "map"):
            found[key] = _canonical(found[key], namespace)
    if isinstance(found.get("fields"), list):
        found["fields"] = [_canonical_field(each, namespace) for each in found["fields"]]
    return found["type"] if found.keys() == {"type"} else found


def _canonical_field(text: Any, namespace: str) -> Any:
    if not isinstance(text, dict):
        return text
    found = {key: value for key, value in text.items() if key not in ("doc", "aliases")}
    if found.get("order") == "ascending":
        del found["order"]
    return found | {"type": _canonical(found.get("type"), namespace)}


def check_defaults(schema: AvroSchemaNode) -> None:
    """Raise InvalidAvroSchema if the default of a field is no value of the field's schema, or too much to look at."""
    waiting, seen, values = [schema], set[int](), _Values()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.inner
        for each in node.fields:
            if each.has_default and not values.fit(each.default, each.schema):
                raise InvalidAvroSchema(
                    f"the default {reprlib.repr(each.default)} of field {node.name}.{each.name} does not fit it"
                )
            waiting.append(each.schema)


class _Values:
    """Which values fit which schemas: each part of one is compared with a schema once, else unions take for ever."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}

    def fit(self, value: Any, schema: AvroSchemaNode) -> bool:
        """Whether a value fits, which lives as long as this."""
        try:
            return self._fits(value, schema)
        except RecursionError:
            return False

    def _fits(self, value: Any, schema: AvroSchemaNode) -> bool:
        pair = (id(value), id(schema))
        known = self._known.get(pair)
        if known is None:
            if len(self._known) >= MOST_COMPARED:
                raise InvalidAvroSchema(f"the defaults of the Avro schema take more than {MOST_COMPARED} comparisons")
            known = self._known[pair] = self._is_value(value, schema)
        return known

    def _is_value(self, value: Any, schema: AvroSchemaNode) -> bool:
        match schema.kind:
            case "null":
                return value is None
            case "boolean":
                return isinstance(value, bool)
            case "int" | "long":
                bits = 31 if schema.kind == "int" else 63
                return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
            case "float" | "double":
                return isinstance(value, int | float) and not isinstance(value, bool)
            case "array":
                return isinstance(value, list) and all(self._fits(each, schema.inner[0]) for each in value)
            case "map":
                return isinstance(value, dict) and all(self._fits(each, schema.inner[0]) for each in value.values())
            case "union":
                return any(self._fits(value, branch) for branch in schema.inner)
            case "record":
                return isinstance(value, dict) and all(
                    self._fits(value[each.name], each.schema) if each.name in value else each.has_default
                    for each in schema.fields
                )
            case _:
                return isinstance(value, str)


class _Parser:
    """Names are known from where they are defined on."""

    def __init__(self) -> None:
        self._named: dict[str, AvroSchemaNode] = {}

    def parse(self, text: Any, namespace: str, depth: int) -> AvroSchemaNode:
        if depth > _DEEPEST:
            raise InvalidAvroSchema(f"an Avro schema is nested deeper than {_DEEPEST} levels")
        if isinstance(text, str):
            return self._named_or_primitive(text, namespace)
        if isinstance(text, list):
            return self._union(text, namespace, depth)
        if not isinstance(text, dict):
            raise InvalidAvroSchema(f"{text!r} is no Avro schema")
        kind = text.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(text, kind, namespace, depth)
        if kind in ("array", "map"):
            inside = self._of(text, "items" if kind == "array" else "values", f"an {kind}")
            return AvroSchemaNode(kind, inner=[self.parse(inside, namespace, depth + 1)])
        return self.parse(self._of(text, "type", "an Avro schema"), namespace, depth + 1)

    def _named_or_primitive(self, name: str, namespace: str) -> AvroSchemaNode:
        if name in PRIMITIVES:
            return AvroSchemaNode(name)
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise InvalidAvroSchema(f"the Avro schema names {name!r} before it defines it")
        return found

    def _union(self, branches: list[Any], namespace: str, depth: int) -> AvroSchemaNode:
        union = AvroSchemaNode("union", inner=[self.parse(each, namespace, depth + 1) for each in branches])
        seen = [branch.name or branch.kind for branch in union.inner]
        if len(set(seen)) != len(seen) or "union" in seen:
            raise InvalidAvroSchema(f"a union of the Avro schema has a branch twice, or a union in it: {seen}")
        return union

    def _define(self, text: Mapping[str, Any], kind: str, namespace: str, depth: int) -> AvroSchemaNode:
        name = self._of(text, "name", f"a {kind}")
        space = text.get("namespace")
        if not isinstance(name, str) or not name or not isinstance(space, str | None):
            raise InvalidAvroSchema(f"{name!r} is no name of a {kind} of the Avro schema")
        full = _full_name(name, namespace if space is None else space)
        if full in self._named:
            raise InvalidAvroSchema(f"the Avro schema defines {full} twice")
        inside = full.rpartition(".")[0]
        node = AvroSchemaNode("record" if kind == "error" else kind, full)
        node.aliases = tuple(_full_name(each, inside) for each in _texts(text.get("aliases", [])))
        self._named[full] = node
        if kind == "enum":
            node.symbols = _texts(self._of(text, "symbols", full))
        elif kind == "fixed":
            size = self._of(text, "size", full)
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise InvalidAvroSchema(f"{full} of the Avro schema has size {size!r}")
            node.size = size
        else:
            for each in self._list(self._of(text, "fields", full)):
                node.fields.append(self._field(each, full, inside, depth))
            if len({each.name for each in node.fields}) != len(node.fields):
                raise InvalidAvroSchema(f"{full} of the Avro schema has a field twice")
        return node

    def _field(self, text: Any, record: str, namespace: str, depth: int) -> AvroField:
        if not isinstance(text, dict) or not isinstance(text.get("name"), str):
            raise InvalidAvroSchema(f"{record} of the Avro schema has a field without a name")
        schema = self.parse(self._of(text, "type", f"{record}.{text['name']}"), namespace, depth + 1)
        return AvroField(text["name"], schema, "default" in text, _texts(text.get("aliases", [])), text.get("default"))

    @staticmethod
    def _of(text: Mapping[str, Any], key: str, what: str) -> Any:
        if key not in text:
            raise InvalidAvroSchema(f"{what} of the Avro schema has no {key}")
        return text[key]

    @staticmethod
    def _list(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise InvalidAvroSchema(f"{value!r} in the Avro schema is no list")
        return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InvalidAvroSchema(f"{value!r} in the Avro schema is no list of names")
    return tuple(value)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
