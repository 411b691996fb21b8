"""Java's properties files, as `bookkeeper.conf` and `broker.conf` are: text in, keys and values with their lines out.

- A line ends at a line end that no odd number of backslashes stands before; what goes on loses its leading blanks.
- `#` and `!` begin a comment where a key would begin. A key ends at the first `=`, `:` or blank that is not escaped.
- Escapes: `\\t`, `\\n`, `\\r`, `\\f`, `\\uXXXX`; a backslash before anything else is left out.
- Trailing blanks belong to the value.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mledger.metastore.errors import InvalidSetting

ENCODING = "iso-8859-1"
"""Of the file, as Java reads it; other characters are written `\\uXXXX`."""

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Property(NamedTuple):
    """A key, its value, and the line it begins on, counted from 1."""

    key: str
    value: str
    line: int


def parse_properties(text: str, path: str = "") -> list[Property]:
    """The keys and values of a properties file, in order; a key may come twice.

    InvalidSetting names `path` and the line.
    """
    found = []
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None, "a key may be empty"
        separator = _SEPARATOR.match(line, match.end())
        assert separator is not None, "a separator may be empty"
        where = f"{path}:{number}"
        found.append(Property(_unescape(match[0], where), _unescape(line[separator.end() :], where), number))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with a key, continuations joined, each with the number of its first line."""
    begun, number = "", 0
    for current, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not begun:  # also behind a line of nothing but a backslash
            number = current
            if not line or line[0] in "#!":
                continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        begun += line[:-1] if goes_on else line
        if not goes_on:
            yield number, begun
            begun = ""
    if begun:
        yield number, begun


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        escaped = match[1]
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        if escaped == "u":
            raise InvalidSetting(f"{where}: \\u is not followed by four hexadecimal digits: correct it")
        return _NAMED.get(escaped, escaped)

    return _ESCAPE.sub(character, text)
