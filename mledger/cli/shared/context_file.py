"""Clusters by name, as a user keeps them in a file of the platform's place for settings.

The file is TOML, readable by its owner only:

    current = "prod"

    [contexts.prod]
    metadata = "zk://zk-1:2181,zk-2:2181/pulsar?config=/etc/pulsar/zk.properties"

It is written anew as a whole beside itself and put in its place, so that a reader never sees half of it.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from mledger.metastore.runtime.durable_files import OWNER_ONLY, replace_file

FILE_VARIABLE = "MLEDGER_CONTEXTS"
_FILE_NAME = "contexts.toml"


class ContextError(click.UsageError):
    """The file of contexts does not say what was asked of it; the message says where it is and what to do."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Metadata URLs by name, and the name that counts where nothing else is said."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def url(self, name: str) -> str:
        """The metadata URL of `name`; ContextError where there is none of that name."""
        if name not in self.metadata:
            there = f"there are {', '.join(sorted(self.metadata))}" if self.metadata else "there is none yet"
            raise ContextError(f"no context {name!r}: {there}; `mledger context add {name} URL` makes it")
        return self.metadata[name]

    def added(self, name: str, url: str) -> "Contexts":
        """With `name`, new or changed; the first of all is the current one."""
        if not name or not name.isprintable() or name.strip() != name:
            raise ContextError(f"{name!r} is no name of a context: use letters, digits, dots and dashes")
        return Contexts({**self.metadata, name: url}, self.current or name)

    def removed(self, name: str) -> "Contexts":
        """Without `name`, which is not the current one afterwards; ContextError where there is none of that name."""
        self.url(name)
        rest = {key: value for key, value in self.metadata.items() if key != name}
        return Contexts(rest, None if self.current == name else self.current)

    def used(self, name: str) -> "Contexts":
        """With `name` as the current one; ContextError where there is none of that name."""
        self.url(name)
        return replace(self, current=name)


def path_of_contexts() -> Path:
    """Where the file is: MLEDGER_CONTEXTS, or in the platform's directory for settings (~/.config/mledger)."""
    said = os.environ.get(FILE_VARIABLE)
    return Path(said) if said else Path(click.get_app_dir("mledger")) / _FILE_NAME


def read_contexts(path: Path) -> Contexts:
    """What the file says, nothing if there is none; ContextError for one that cannot be."""
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):  # the second where HOME is /dev/null, as for users of services
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise ContextError(f"the contexts in {path} cannot be read: {error}") from error
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ContextError(f"{path} is not TOML: {error}; mend it, or delete it and add the contexts again") from error
    contexts, current = said.get("contexts", {}), said.get("current")
    if not isinstance(contexts, dict) or not isinstance(current, str | None):
        raise ContextError(f"{path}: `current` is a name, `contexts` holds a table a name")
    urls = {}
    for name, each in contexts.items():
        url = each.get("metadata") if isinstance(each, dict) else None
        if not isinstance(url, str):
            raise ContextError(f'{path}: the context {name!r} has no metadata URL: metadata = "zk://host:port"')
        urls[name] = url
    if current is not None and current not in urls:
        raise ContextError(f"{path}: the current context {current!r} is not among its contexts")
    return Contexts(urls, current)


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Put `contexts` in place of what the file says; OSError if that fails, the file is then as it was."""
    import tomli_w  # only who changes the file writes it

    said: dict[str, object] = {} if contexts.current is None else {"current": contexts.current}
    said["contexts"] = {name: {"metadata": url} for name, url in sorted(contexts.metadata.items())}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, tomli_w.dumps(said).encode(), OWNER_ONLY)
