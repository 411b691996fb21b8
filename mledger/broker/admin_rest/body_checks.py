"""Checks of the JSON that requests carry; each returns the value to store, or raises AdminRefusal. No I/O."""

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from mledger.broker.admin_rest.refusals import bad_request, precondition

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
Check = Callable[[Any], Any]


def json_object(value: Any, what: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise bad_request(f"the body is not {what}: a JSON object is needed")
    return value


def number_of(value: Any, what: str, *, low: int, most: int = MAX_INT) -> int:
    """An integer in range. As in Pulsar, a number as text counts, and one with a fraction loses that."""
    value = _as_integer(value)
    if type(value) is not int or value > most:
        raise bad_request(f"{what} is not an integer")
    if value < low:
        raise precondition(f"{what} must be {low} or more")
    return value


def count(what: str, *, most: int = MAX_INT) -> Check:
    """A number from 0 on; nothing unsets it, and so does an empty text."""
    return lambda value: None if value in (None, "") else number_of(value, what, low=0, most=most)


def number(what: str, *, most: int = MAX_INT) -> Check:
    """A number from 0 on; null is 0, as where Java has a primitive type."""
    return lambda value: number_of(0 if value in (None, "") else value, what, low=0, most=most)


def boolean(what: str) -> Check:
    """True or false. As in Pulsar, null is false, text counts, and so does a number: 0 is false."""

    def check(value: Any) -> bool:
        value = _as_boolean(value)
        if isinstance(value, bool):
            return value
        raise bad_request(f"{what} is not true or false")

    return check


def unless_null(check: Check) -> Check:
    """A check for what null unsets."""
    return lambda value: None if value is None else check(value)


def names(value: Any, what: str) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise bad_request(f"{what} is not a list of names")
    return list(dict.fromkeys(value))


def texts(value: Any, what: str) -> dict[str, str]:
    """An object whose values are texts; nothing is an empty one. Numbers and booleans become text, as in Pulsar."""
    found = json_object({} if value is None else value, what)
    if not all(isinstance(each, str | int | float | None) for each in found.values()):
        raise bad_request(f"the values of {what} are not all text")
    return {
        name: each if isinstance(each, str) else json.dumps(each) for name, each in found.items() if each is not None
    }


def known_fields(value: Any, what: str, defaults: Mapping[str, Any], longs: Collection[str] = ()) -> dict[str, Any]:
    """An object with these fields, which have the types of their defaults; others are left out, as Pulsar does.

    Numbers and booleans are read as Pulsar reads them: from text, null is 0 or false, a fraction is cut off an integer.
    Integers have 32 bits, those of the fields `longs` 64: Java reads no part of a node with a larger one.
    """
    found = json_object(value, what)
    made = {}
    for name, default in defaults.items():
        given = _of_type(found.get(name, default), default)
        if type(given) is not type(default) and not (isinstance(default, float) and type(given) is int):
            raise bad_request(f"{name} of {what} is {given!r}, which is no {type(default).__name__}")
        most = MAX_LONG if name in longs or isinstance(default, float) else MAX_INT
        if type(given) is int and not -most <= given <= most:
            raise bad_request(f"{name} of {what} is out of range: {most} is the largest number")
        made[name] = given
    return made


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


def _of_type(given: Any, default: Any) -> Any:
    """What Java reads where the default is a number or a boolean; else the value as it is."""
    if type(default) is bool:
        return _as_boolean(given)
    if type(default) is int:
        return _as_integer(0 if given in (None, "") else given)
    return _as_double(0.0 if given in (None, "") else given) if type(default) is float else given


def _as_double(given: Any) -> Any:
    """The finite number that Java reads; what is none as it is."""
    if isinstance(given, str) and _DOUBLE.fullmatch(given.strip()) and math.isfinite(float(given)):
        return float(given)
    return given


def _as_integer(given: Any) -> Any:
    """The integer that Java reads; what is none as it is."""
    if isinstance(given, str) and _INTEGER.fullmatch(given.strip()):
        return int(given)
    return int(given) if isinstance(given, float) else given


def _as_boolean(given: Any) -> Any:
    """The boolean that Java reads; what is none as it is."""
    if isinstance(given, str):
        return {"true": True, "false": False, "": False}.get(given.strip().lower(), given)
    return bool(given) if given is None or type(given) is int else given
