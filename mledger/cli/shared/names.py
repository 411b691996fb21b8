"""Arguments with shell completion of names in a cluster: quick, or silently omitted."""

from collections.abc import Awaitable, Callable

import click

from mledger.cli.shared.context import CommandContext
from mledger.metastore.records.paths import MANAGED_LEDGERS, PARTITIONED_TOPICS, PERSISTENT, TopicName, decode_name
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader

PATIENCE_S = 2.0
DOMAIN = f"{PERSISTENT}://"
DEFAULT_NAMESPACE = "public/default/"


def complete_topics(click_context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """The topics and partitioned topics that begin with `typed`, in the same form."""
    return _ask(click_context, lambda reader: topics_like(reader, typed))


def complete_cursors(click_context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """The cursors of the topic argument."""
    topic = str(click_context.params.get("topic") or "")
    return _ask(click_context, lambda reader: cursors_like(reader, topic, typed))


def complete_paths(click_context: click.Context, _: click.Parameter, typed: str) -> list[str]:
    """The nodes of the metadata store that begin with `typed`."""
    return _ask(click_context, lambda reader: paths_like(reader, typed))


topic_argument = click.argument("topic", shell_complete=complete_topics)
optional_topic_argument = click.argument("topic", required=False, shell_complete=complete_topics)
cursor_argument = click.argument("cursor", shell_complete=complete_cursors)
optional_cursor_argument = click.argument("cursor", required=False, shell_complete=complete_cursors)


async def topics_like(reader: MetadataReader, typed: str) -> list[str]:
    """Names of topics that begin with `typed`: full names, or short ones if `typed` is short."""
    if DOMAIN.startswith(typed):
        found = {f"{DOMAIN}{name}" for name in await _topics_below(reader, [])}
        if typed:
            found |= set(await topics_like_short(reader, typed))
        return sorted(name for name in found if name.startswith(typed))
    if not typed.startswith(DOMAIN):
        return await topics_like_short(reader, typed)
    rest = typed.removeprefix(DOMAIN)
    return sorted(
        f"{DOMAIN}{name}" for name in await _topics_below(reader, rest.split("/")[:-1]) if name.startswith(rest)
    )


async def topics_like_short(reader: MetadataReader, typed: str) -> list[str]:
    """Topics that begin with `typed`, as tenant/namespace/topic or, in public/default, as topic."""
    if "/" in typed:
        return sorted(name for name in await _topics_below(reader, typed.split("/")[:-1]) if name.startswith(typed))
    names = await _topics_below(reader, DEFAULT_NAMESPACE.split("/")[:2])
    short = (name.removeprefix(DEFAULT_NAMESPACE) for name in names)
    return sorted(name for name in short if name.startswith(typed) and "/" not in name)


async def cursors_like(reader: MetadataReader, topic: str, typed: str) -> list[str]:
    """Names of the topic's cursors that begin with `typed`."""
    names = map(decode_name, await reader.children(TopicName.parse(topic).managed_ledger_path))
    return sorted(name for name in names if name.startswith(typed))


async def paths_like(reader: MetadataReader, typed: str) -> list[str]:
    """Paths of nodes that begin with `typed`, one level below it."""
    folder = typed.rpartition("/")[0]
    return sorted(
        path for name in await reader.children(folder or "/") if (path := f"{folder}/{name}").startswith(typed)
    )


async def _topics_below(reader: MetadataReader, prefix: list[str]) -> set[str]:
    """Topics of all tenants, of a tenant, or of a namespace, as tenant/namespace/topic."""
    found: set[str] = set()
    for root in (MANAGED_LEDGERS, PARTITIONED_TOPICS):
        level = ["/".join([root, *prefix[:2]])]
        for _ in range(2 - len(prefix[:2])):
            children = await reader.children_many(level)
            level = [f"{path}/{name}" for path, names in zip(level, children, strict=True) for name in names or ()]
        folders = [f"{path}/{PERSISTENT}" for path in level]
        for path, names in zip(level, await reader.children_many(folders), strict=True):
            found.update(f"{path[len(root) + 1 :]}/{decode_name(name)}" for name in names or ())
    return found


def _ask(click_context: click.Context, question: Callable[[MetadataReader], Awaitable[list[str]]]) -> list[str]:
    """The selected cluster's answer; empty if none is selected, or it does not answer at once."""
    context = click_context.find_object(CommandContext)
    try:
        selected = (context or CommandContext()).selected
    except click.UsageError:
        return []
    if selected is None:
        return []

    async def ask() -> list[str]:
        from mledger.metastore.url import open_reader

        async with TimeLimit(PATIENCE_S), await open_reader(selected.url, timeout=PATIENCE_S) as reader:
            return await question(reader)

    try:
        return CommandContext(selected.url).run(ask())
    except Exception:  # completion must not print errors
        return []
