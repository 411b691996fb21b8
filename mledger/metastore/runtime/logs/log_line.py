"""The fields of a log line: values as in JSON, and their text form `key=value …`."""

import enum
import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from numbers import Integral
from typing import Any

LONGEST = 20_000
"""Of a text, in characters: a client of a server can send names of megabytes."""
_DEEPEST = 8
_SPECIAL = re.compile(r'[ "=\\]')


def text_line(fields: Mapping[str, object]) -> str:
    """Fields as `key=value …`; a value that is not a plain word is a JSON string, so that the line stays one line."""
    return " ".join(f"{_word(key)}={_word(_text(plain(value)))}" for key, value in fields.items())


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(each, (list, dict)) for each in value):
        return ",".join(map(_text, value))
    return json.dumps(value, separators=(",", ":"))


def _word(text: str) -> str:
    if text and text.isprintable() and _SPECIAL.search(text) is None:
        return text
    quoted = (each if each.isprintable() and each not in '"\\' else json.dumps(each)[1:-1] for each in text)
    return f'"{"".join(quoted)}"'


def plain(value: object, depth: int = 0) -> Any:
    """Convert the value to what JSON can hold.

    Numbers, booleans, strings and None stay, but strings are cut after `LONGEST` characters; bytes are hexadecimal,
    enums their names, exceptions `Type: message`, sets sorted, mappings and sequences themselves; anything else is its
    string, a named tuple too.
    """
    match value:
        case enum.Enum():
            return value.name or str_of(value)
        case str():
            return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value)} characters)"
        case None | bool():
            return value
        case Integral():
            return int(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case BaseException():
            return plain(f"{type(value).__name__}: {str_of(value)}")
    if depth >= _DEEPEST or hasattr(value, "_fields"):  # a named tuple, such as a position
        return str_of(value)
    return _plain_collection(value, depth + 1)


def _plain_collection(value: object, depth: int) -> Any:
    if isinstance(value, Mapping):
        return _plain_mapping(value, depth)
    if isinstance(value, Set):
        return sorted((plain(each, depth) for each in value), key=json.dumps)
    if isinstance(value, Sequence):
        return [plain(each, depth) for each in value]
    return str_of(value)


def _plain_mapping(value: Mapping[Any, object], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in value.items():
        name = _text(plain(key, depth))
        while name in found:
            name += "_"
        found[name] = plain(each, depth)
    return found


def str_of(value: object) -> str:
    """The value as a string; a log line is written whatever `str` of a value raises."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__}, of which str raises {type(error).__name__}>"
