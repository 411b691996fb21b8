"""Whether a reader with one Avro schema can read what was written with another.

As Avro's SchemaValidator in Java decides it, which Pulsar asks:

- Names of records do not matter, those of enums and fixed types do; aliases of the reader count. Aliases of a record's
  fields count if the record has the writer's name or an alias that is.
- A field that the writer lacks needs a default; one that the reader lacks is skipped.
- int, long, float and double widen in this order; bytes and string stand for each other.
- Of a writer's union every branch must be readable; of a reader's the first that fits is taken.
- Symbols that the reader's enum lacks fail when they are read, not here.
"""

from mledger.broker.schemas.avro_schema import MOST_COMPARED, AvroField, AvroSchemaNode

_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def unreadable(writer: AvroSchemaNode, reader: AvroSchemaNode) -> str:
    """Why `reader` cannot read what `writer` wrote; empty if it can."""
    try:
        return _Resolution().of(writer, reader, "")
    except RecursionError:  # records that hold each other in a chain of hundreds
        return "the schema is nested too deep"
    except _TooMuch:
        return f"the schemas take more than {MOST_COMPARED} comparisons"


class _TooMuch(Exception):
    """The schemas have so many branches and fields that comparing them would take too long."""


class _Resolution:
    """Each pair of records is compared once; while it is, it counts as readable: recursive schemas come back to it."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], str] = {}
        self._compared = 0

    def _count(self, comparisons: int) -> None:
        self._compared += comparisons
        if self._compared > MOST_COMPARED:
            raise _TooMuch

    def of(self, writer: AvroSchemaNode, reader: AvroSchemaNode, where: str) -> str:
        if writer.kind == "union":
            return next((why for each in writer.inner if (why := self.of(each, reader, where))), "")
        if writer.kind == reader.kind:
            return self._same_kind(writer, reader, where)
        if reader.kind == "union":
            branch = self._branch(writer, reader)
            if branch is None:
                return f"{where or 'the schema'} is {_named(writer)}, which no branch of the reader's union is"
            return self.of(writer, branch, where)
        if reader.kind in _WIDER.get(writer.kind, ()):
            return ""
        return f"{where or 'the schema'} is {_named(writer)}, which cannot be read as {_named(reader)}"

    def _same_kind(self, writer: AvroSchemaNode, reader: AvroSchemaNode, where: str) -> str:
        if writer.kind in ("array", "map"):
            return self.of(writer.inner[0], reader.inner[0], f"{where}[]")
        if writer.kind in ("enum", "fixed") and writer.name not in (reader.name, *reader.aliases):
            return f"{where or 'the schema'} is {writer.kind} {writer.name}, and {reader.name} for the reader"
        if writer.kind == "fixed" and writer.size != reader.size:
            return f"{where or 'the schema'} has {writer.size} bytes, and {reader.size} for the reader"
        return self._record(writer, reader, where) if writer.kind == "record" else ""

    def _record(self, writer: AvroSchemaNode, reader: AvroSchemaNode, where: str) -> str:
        pair = (id(writer), id(reader))
        if pair not in self._records:
            self._records[pair] = ""
            self._records[pair] = self._fields(writer, reader, where)
        return self._records[pair]

    def _fields(self, writer: AvroSchemaNode, reader: AvroSchemaNode, where: str) -> str:
        self._count(len(writer.fields) + len(reader.fields))
        written = {each.name: each for each in writer.fields}
        for each in reader.fields:
            name = f"{where}.{each.name}" if where else each.name
            found = _written_as(each, written, aliased=writer.name in (reader.name, *reader.aliases))
            if found is None:
                if not each.has_default:
                    return f"field {name} is not written, and has no default"
            elif why := self.of(found.schema, each.schema, name):
                return why
        return ""

    def _branch(self, writer: AvroSchemaNode, union: AvroSchemaNode) -> AvroSchemaNode | None:
        """The branch of a reader's union that reads `writer`: of the same kind and name, else of the same form."""
        self._count(len(union.inner))
        alike: AvroSchemaNode | None = None
        for branch in union.inner:
            if branch.kind != writer.kind:
                continue
            if writer.kind not in ("record", "enum", "fixed") or writer.name in (branch.name, *branch.aliases):
                return branch
            fits = writer.kind == "record" and not self.of(writer, branch, "")
            if fits and (alike is None or branch.short_name == writer.short_name):
                alike = branch
        if alike is not None:
            return alike
        wider = _WIDER.get(writer.kind, ())
        return next((branch for branch in union.inner if branch.kind in wider), None)


def _written_as(wanted: AvroField, written: dict[str, AvroField], *, aliased: bool) -> AvroField | None:
    for name in (wanted.name, *(wanted.aliases if aliased else ())):
        if name in written:
            return written[name]
    return None


def _named(schema: AvroSchemaNode) -> str:
    return f"{schema.kind} {schema.name}".rstrip()
