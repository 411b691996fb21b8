"""Settings of a process: keys of Pulsar's and BookKeeper's files, from a file and from `KEY=VALUE` options.

A value is parsed when it is taken. Keys that nobody took are reported: unknown ones in a warning, those that Pulsar or
BookKeeper know and that have no effect here at debug level.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from mledger.metastore.errors import InvalidSetting
from mledger.metastore.runtime.logs.loggers import EventLogger
from mledger.metastore.runtime.properties import ENCODING, parse_properties

T = TypeVar("T")

SET = "--set"


class Given(Struct, frozen=True):
    """A value as it was written, and where: FILE:LINE or --set."""

    text: str
    where: str


class Settings:
    """The values given, by key; a later one wins over an earlier one."""

    def __init__(self, given: Mapping[str, Given] | None = None) -> None:
        self._given = dict(given or {})
        self._taken: set[str] = set()

    @property
    def given(self) -> Mapping[str, Given]:
        """Every key with its value."""
        return self._given

    def texts(self, keys: Iterable[str]) -> dict[str, str]:
        """The texts of those of `keys` that were given; they count as taken."""
        found = {key: self._given[key].text for key in keys if key in self._given}
        self._taken.update(found)
        return found

    def where(self, key: str) -> str:
        """Where the value of a key was given."""
        return self._given[key].where

    def take(self, key: str, parse: Callable[[str], T], default: T) -> T:
        """The value of `key`; `default` if it was not given or is empty. InvalidSetting names the key and its place.

        `parse` raises ValueError with a message that says what is needed.
        """
        given = self._given.get(key)
        if given is None:
            return default
        self._taken.add(key)
        text = given.text.strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise InvalidSetting(f"{given.where}: {key} is {text!r}: {error}") from None

    @property
    def without_effect(self) -> list[str]:
        """The keys that nobody took, sorted."""
        return sorted(key for key in self._given if key not in self._taken)

    def report(self, log: EventLogger, known: Callable[[str], bool]) -> None:
        """Log which keys had no effect: a warning names those not `known`, a debug line the others."""
        unknown = [key for key in self.without_effect if not known(key)]
        if unknown:
            log.warning("unknown_settings", keys=unknown)
        left = [key for key in self.without_effect if known(key)]
        if left:
            log.debug("settings_without_effect", keys=left)


def read_settings(path: str | None, assignments: Sequence[str] = ()) -> Settings:
    """The keys of the properties file `path`, then those of `assignments`, each KEY=VALUE. InvalidSetting."""
    given: dict[str, Given] = {}
    if path is not None:
        for item in parse_properties(_read(path), path):
            given[item.key] = Given(item.value, f"{path}:{item.line}")
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.strip():
            raise InvalidSetting(f"{SET} {assignment}: write it as KEY=VALUE")
        given[key.strip()] = Given(value, SET)
    return Settings(given)


def _read(path: str) -> str:
    try:
        with open(path, encoding=ENCODING, newline="") as file:
            return file.read()
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read: {error.strerror}; name the file of settings") from None


def number(low: float, high: float) -> Callable[[str], float]:
    """Return a parser of numbers from `low` to `high`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"a number from {low:,} to {high:,} is needed") from None
        if not low <= value <= high:
            raise ValueError(f"a number from {low:,} to {high:,} is needed")
        return value

    return parse


def integer(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        value = int(text) if text.lstrip("+-").isdecimal() and text.isascii() else None
        if value is None or not low <= value <= high:
            raise ValueError(f"a whole number from {low:,} to {high:,} is needed")
        return value

    return parse


def boolean(text: str) -> bool:
    """Parses true or false, in the spellings that the originals take."""
    value = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(text.lower())
    if value is None:
        raise ValueError("true or false is needed")
    return value
