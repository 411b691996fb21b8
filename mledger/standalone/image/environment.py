"""`apply-config-from-env.py FILE…` of Pulsar's image: settings from the environment into configuration files.

A variable `PULSAR_PREFIX_KEY` sets KEY. A variable KEY counts without the prefix if KEY is one of a broker's settings
or stands in the file. `apply-config-from-env-with-prefix.py PREFIX FILE…` takes another prefix, and of the variables
without it only those that stand in the file.
"""

import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mledger.known_settings import KNOWN

PROGRAM, PREFIX_PROGRAM = "apply-config-from-env.py", "apply-config-from-env-with-prefix.py"
PREFIX = "PULSAR_PREFIX_"
_KEY = re.compile(r"\s*([\w.]+)\s*=")


def plan_assignments(environment: Mapping[str, str], plain_keys: Collection[str], prefix: str) -> dict[str, str]:
    """The settings in an environment, by their keys; `plain_keys` are those that need no prefix."""
    plain = {key: value for key, value in environment.items() if key in plain_keys}
    prefixed = {key.removeprefix(prefix): value for key, value in environment.items() if key.startswith(prefix)}
    prefixed.pop("", None)
    return plain | prefixed


def plan_file(text: str, environment: Mapping[str, str], prefix: str = PREFIX) -> tuple[str, list[str]]:
    """A file's new text, and the keys that the environment sets: in their places, and those that are new at the end."""
    lines = text.splitlines()
    keys = [found.group(1) if (found := _KEY.match(line)) else "" for line in lines]
    plain_keys = set(keys) - {""} | (set(KNOWN) if prefix == PREFIX else set())
    wanted = plan_assignments(environment, plain_keys, prefix)
    kept = [f"{key}={wanted[key]}" if key in wanted else line for key, line in zip(keys, lines, strict=True)]
    added = [f"{key}={value}" for key, value in sorted(wanted.items()) if key not in keys]
    return "".join(f"{line}\n" for line in (*kept, *added)), sorted(wanted)


def main(arguments: Sequence[str] | None = None) -> int:
    """Change each file that is named, and print the keys that were set; their values may be secrets."""
    names = sys.argv[1:] if arguments is None else arguments
    if not names:
        print(f"usage: {PROGRAM} FILE...", file=sys.stderr)
        return 2
    return _change(names, PREFIX)


def main_with_prefix(arguments: Sequence[str] | None = None) -> int:
    """The same with another prefix, which is the first argument."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) < 2 or not given[0]:
        print(f"usage: {PREFIX_PROGRAM} PREFIX FILE...", file=sys.stderr)
        return 2
    return _change(given[1:], given[0])


def _change(names: Sequence[str], prefix: str) -> int:
    for name in names:
        try:
            text, keys = plan_file(Path(name).read_text(), os.environ, prefix)
            Path(name).write_text(text)
        except OSError as error:
            print(f"{PROGRAM}: {name}: {error.strerror}: name a file that can be written", file=sys.stderr)
            return 1
        for key in keys:
            print(f"{name}: {key} is set from the environment")
    return 0
