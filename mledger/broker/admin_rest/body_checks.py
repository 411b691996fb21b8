"""Checks of the JSON that requests carry; each returns the value to store, or raises AdminRefusal. No I/O."""

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
    """An integer in range. A number as text counts, as in Pulsar."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or value > most:
        raise bad_request(f"{what} is not an integer")
    if value < low:
        raise precondition(f"{what} must be {low} or more")
    return value


def count(what: str, *, most: int = MAX_INT) -> Check:
    """A number from 0 on; nothing unsets it."""
    return lambda value: None if value is None else number_of(value, what, low=0, most=most)


def boolean(what: str) -> Check:
    """True or false. As text it counts, as in Pulsar."""

    def check(value: Any) -> bool:
        value = _of_text(value, default=False)
        if isinstance(value, bool):
            return value
        raise bad_request(f"{what} is not true or false")

    return check


def names(value: Any, what: str) -> list[str]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise bad_request(f"{what} is not a list of names")
    return list(dict.fromkeys(value))


def texts(value: Any, what: str) -> dict[str, str]:
    """An object whose values are texts; nothing is an empty one."""
    found = json_object({} if value is None else value, what)
    if not all(isinstance(each, str) for each in found.values()):
        raise bad_request(f"the values of {what} are not all text")
    return found


def known_fields(value: Any, what: str, defaults: Mapping[str, Any], longs: Collection[str] = ()) -> dict[str, Any]:
    """An object with these fields, which have the types of their defaults; others are left out, as Pulsar does.

    Numbers and booleans may be text, which Pulsar reads, too. Integers have 32 bits, those of the fields `longs` 64:
    Java reads no part of a node with a larger one.
    """
    found = json_object(value, what)
    made = {}
    for name, default in defaults.items():
        given = _of_text(found.get(name, default), default)
        if type(given) is not type(default) and not (isinstance(default, float) and type(given) is int):
            raise bad_request(f"{name} of {what} is {given!r}, which is no {type(default).__name__}")
        most = MAX_LONG if name in longs or isinstance(default, float) else MAX_INT
        if type(given) is int and not -most <= given <= most:
            raise bad_request(f"{name} of {what} is out of range: {most} is the largest number")
        made[name] = given
    return made


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def _of_text(given: Any, default: Any) -> Any:
    """A value that text stands for, where the default is an integer or a boolean; else the value as it is."""
    if isinstance(given, str) and type(default) is int and _INTEGER.fullmatch(given):
        return int(given)
    if isinstance(given, str) and type(default) is bool:
        return {"true": True, "false": False}.get(given.lower(), given)
    return given
