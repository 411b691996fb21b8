"""Names of clusters, in a file in the platform's directory for settings.

The file is TOML, readable by its owner only:

    current = "prod"

    [contexts.prod]
    metadata = "zk://zk-1:2181,zk-2:2181/pulsar?config=/etc/pulsar/zk.properties"

A write creates a new file and renames it over the old one, so readers never see a partial file.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from mledger.cli.shared.errors import writing_file
from mledger.metastore.runtime.durable_files import OWNER_ONLY, replace_file

FILE_VARIABLE = "MLEDGER_CONTEXTS"
_FILE_NAME = "contexts.toml"


class ContextError(click.UsageError):
    """A context is unknown, or the file of contexts is invalid; the message names the file and a remedy."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """Metadata URLs by name, and the name of the current context."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    current: str | None = None

    def url(self, name: str) -> str:
        """The metadata URL of `name`. Raises ContextError for an unknown name."""
        if name not in self.metadata:
            there = f"there are {', '.join(sorted(self.metadata))}" if self.metadata else "there is none yet"
            raise ContextError(f"no context {name!r}: {there}; `mledger context add {name} URL` adds it")
        return self.metadata[name]

    def added(self, name: str, url: str) -> "Contexts":
        """The contexts with `name` added or changed; the first one becomes the current one."""
        if not name or not name.isprintable() or name.strip() != name:
            raise ContextError(f"{name!r} is not a valid name of a context: use letters, digits, dots and dashes")
        return Contexts({**self.metadata, name: url}, self.current or name)

    def removed(self, name: str) -> "Contexts":
        """The contexts without `name`. Raises ContextError for an unknown name."""
        self.url(name)
        rest = {key: value for key, value in self.metadata.items() if key != name}
        return Contexts(rest, None if self.current == name else self.current)

    def used(self, name: str) -> "Contexts":
        """The contexts with `name` as the current one. Raises ContextError for an unknown name."""
        self.url(name)
        return replace(self, current=name)


def path_of_contexts() -> Path:
    """The path of the file: MLEDGER_CONTEXTS, or in the platform's settings directory (~/.config/mledger)."""
    path = os.environ.get(FILE_VARIABLE)
    return Path(path) if path else Path(click.get_app_dir("mledger")) / _FILE_NAME


def read_contexts(path: Path) -> Contexts:
    """Read the file; no contexts if it does not exist. Raises ContextError for an invalid file."""
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):  # the second where HOME is /dev/null, as for users of services
        return Contexts()
    except (OSError, UnicodeDecodeError) as error:
        raise ContextError(f"the contexts in {path} cannot be read: {error}") from error
    import tomllib  # most commands are told the cluster otherwise

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ContextError(f"{path} is not TOML: {error}; fix it, or delete it and add the contexts again") from error
    contexts, current = content.get("contexts", {}), content.get("current")
    if not isinstance(contexts, dict) or not isinstance(current, str | None):
        raise ContextError(f"{path}: `current` must be a name, and `contexts` must have one table per name")
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
    """Write `contexts` to the file. Raises FileNotWritten on failure, which leaves the file unchanged."""
    import tomli_w  # imported on first use: only writing needs it

    content: dict[str, object] = {} if contexts.current is None else {"current": contexts.current}
    content["contexts"] = {name: {"metadata": url} for name, url in sorted(contexts.metadata.items())}
    with writing_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, tomli_w.dumps(content).encode(), OWNER_ONLY)
