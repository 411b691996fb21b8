"""The cluster options of a test, from the marker `mledger`, else the command line, else the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mledger.settings import OwnerSettings

MARKER = "mledger"
MEMORY, ZOOKEEPER = "memory", "zookeeper"
METADATA_KINDS = (MEMORY, ZOOKEEPER)
MOST_BOOKIES = 16


class InvalidClusterOption(Exception):
    """A cluster option is invalid; the message names it and says what to write."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The arguments of the marker; equal options share one cluster."""

    bookies: int = 3
    metadata: str = MEMORY
    settings: tuple[tuple[str, str], ...] = ()
    """Keys of broker.conf with their values, sorted."""


def read_defaults(config: pytest.Config) -> ClusterOptions:
    """The options of tests without a marker; UsageError says where an invalid value was set."""
    options = ClusterOptions()
    for name in ("bookies", "metadata"):
        said, where = config.getoption(f"mledger_{name}"), f"--mledger-{name}"
        if said is None:
            said, where = config.getini(f"mledger_{name}"), f"in {config.inipath}"
        if said:
            value = int(said) if name == "bookies" and said.isascii() and said.isdigit() else said
            try:
                options = plan_options(options, {name: value})
            except InvalidClusterOption as error:
                raise pytest.UsageError(f"{where}: mledger_{name} = {said!r}: {error}") from None
    return options


def marked_options(node: pytest.Item, defaults: ClusterOptions) -> ClusterOptions:
    """The options of a test: the arguments of its own marker, then those of its class and module. UsageError."""
    options = defaults
    try:
        for marker in reversed(list(node.iter_markers(MARKER))):
            if marker.args:
                raise InvalidClusterOption(f"the marker takes no positional arguments: write {_arguments()}")
            options = plan_options(options, marker.kwargs)
        owner_settings(options)
    except InvalidClusterOption as error:
        raise pytest.UsageError(f"@pytest.mark.{MARKER} of {node.nodeid}: {error}") from None
    return options


def plan_options(options: ClusterOptions, given: Mapping[str, Any]) -> ClusterOptions:
    """`options` updated with those `given`; settings are merged key by key. InvalidClusterOption."""
    names = [field.name for field in fields(ClusterOptions)]
    if unknown := sorted(given.keys() - names):
        raise InvalidClusterOption(f"unknown argument {', '.join(unknown)}: write {_arguments()}")
    changes = dict(given)
    if "bookies" in given and not _is_bookie_count(given["bookies"]):
        raise InvalidClusterOption(f"bookies is {given['bookies']!r}: write a number from 1 to {MOST_BOOKIES}")
    if "metadata" in given and given["metadata"] not in METADATA_KINDS:
        raise InvalidClusterOption(f"metadata is {given['metadata']!r}: write {' or '.join(METADATA_KINDS)}")
    if "settings" in given:
        added = _setting_texts(given["settings"])
        changes["settings"] = tuple(sorted((dict(options.settings) | added).items()))
    return replace(options, **changes)


def owner_settings(options: ClusterOptions) -> OwnerSettings | None:
    """The settings for owners of topics, None if there are none. InvalidClusterOption."""
    if not options.settings:
        return None
    from mledger.metastore.errors import MledgerError
    from mledger.metastore.runtime.settings import Given, Settings
    from mledger.settings import owner_settings as read

    try:
        found = read(Settings({key: Given(text, "settings") for key, text in options.settings}))
    except MledgerError as error:
        raise InvalidClusterOption(str(error)) from None
    if found.unknown:
        raise InvalidClusterOption(f"settings: {', '.join(found.unknown)} is unknown: use keys of Pulsar's broker.conf")
    if found.url:
        raise InvalidClusterOption("settings name a metadata store, but the cluster has its own: leave out these keys")
    return found


def _arguments() -> str:
    return 'bookies=3, metadata="zookeeper" and settings={"key": "value"}, or some of them'


def _is_bookie_count(said: object) -> bool:
    return isinstance(said, int) and not isinstance(said, bool) and 1 <= said <= MOST_BOOKIES


def _setting_texts(said: object) -> dict[str, str]:
    """The values as text, as in a broker.conf."""
    if not isinstance(said, Mapping) or not all(isinstance(key, str) for key in said):
        raise InvalidClusterOption(f"settings is {said!r}: write a dict of keys of Pulsar's broker.conf")
    for key, value in said.items():
        if not isinstance(value, str | int | float):
            raise InvalidClusterOption(f"settings: {key} is {value!r}: write a string, a number, True or False")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in said.items()}
