"""Results for programs: JSON, NDJSON, CSV or YAML, all with the same fields under the same keys."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

Object = Mapping[str, object]


class Format(Protocol):
    """A format of results for programs; every text ends with a newline."""

    def rows(self, keys: Sequence[str], rows: Sequence[Object]) -> str:
        """A list of objects that all have `keys`."""

    def one(self, found: Object) -> str:
        """One object."""

    def item(self, keys: Sequence[str], found: Object) -> str:
        """The next object of a stream; `keys` are all keys that its objects may have."""

    def end(self, keys: Sequence[str]) -> str:
        """What ends a stream, which may have had no object."""


class Json:
    """One document: an array of objects, or an object. A stream has one object per line."""

    def rows(self, keys: Sequence[str], rows: Sequence[Object]) -> str:
        """An array."""
        return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"

    def one(self, found: Object) -> str:
        """An object."""
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def item(self, keys: Sequence[str], found: Object) -> str:
        """An object on a line."""
        return _line(found)

    def end(self, keys: Sequence[str]) -> str:
        """Nothing."""
        return ""


class JsonLines:
    """Each object on a line of its own (NDJSON)."""

    def rows(self, keys: Sequence[str], rows: Sequence[Object]) -> str:
        """One line per object."""
        return "".join(map(_line, rows))

    def one(self, found: Object) -> str:
        """One line."""
        return _line(found)

    def item(self, keys: Sequence[str], found: Object) -> str:
        """One line."""
        return _line(found)

    def end(self, keys: Sequence[str]) -> str:
        """Nothing."""
        return ""


class Csv:
    """RFC 4180 with a header. Unknown values are empty; lists and objects within a row are JSON."""

    def __init__(self) -> None:
        self._headed = False

    def rows(self, keys: Sequence[str], rows: Sequence[Object]) -> str:
        """The header and one line per row, even without rows."""
        return self._written(keys, rows, header=True)

    def one(self, found: Object) -> str:
        """The header and one line."""
        return self._written(tuple(found), (found,), header=True)

    def item(self, keys: Sequence[str], found: Object) -> str:
        """One line; before the first one, the header."""
        header, self._headed = not self._headed, True
        return self._written(keys, (found,), header=header)

    def end(self, keys: Sequence[str]) -> str:
        """The header, if there was no line."""
        return "" if self._headed else self._written(keys, (), header=True)

    def _written(self, keys: Sequence[str], rows: Sequence[Object], *, header: bool) -> str:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, keys, lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
        return stream.getvalue()


class Yaml:
    """One YAML document; a stream has one document per object."""

    def rows(self, keys: Sequence[str], rows: Sequence[Object]) -> str:
        """A sequence of mappings."""
        return _document(rows)

    def one(self, found: Object) -> str:
        """A mapping."""
        return _document(found)

    def item(self, keys: Sequence[str], found: Object) -> str:
        """A document that begins with `---`."""
        return "---\n" + _document(found)

    def end(self, keys: Sequence[str]) -> str:
        """Nothing."""
        return ""


FORMATS: dict[str, Callable[[], Format]] = {"json": Json, "ndjson": JsonLines, "csv": Csv, "yaml": Yaml}


def _line(found: Object) -> str:
    return json.dumps(found, ensure_ascii=False) + "\n"


def _cell(value: object) -> object:
    """A value in a CSV cell, as Excel and Python's csv module read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    return json.dumps(value, ensure_ascii=False)


def _document(value: object) -> str:
    import yaml  # imported on first use, since its import is slow

    # through JSON: this converts tuples and mappings to types that the safe dumper supports
    plain = json.loads(json.dumps(value))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=2**31))
