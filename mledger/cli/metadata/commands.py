"""`mledger metadata run|init|tree|get`: serves, initializes and shows a metadata store."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import click

from mledger.cli.server_command import ServerMain, server_command
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import complete_paths
from mledger.cli.shared.output.node_text import NodeContent, decode_node
from mledger.cli.shared.output.plain_text import escaped
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields
from mledger.metastore.cluster.layout import initialize
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.runtime.packages import check_rocksdb
from mledger.metastore.store import MetadataReader, Node
from mledger.metastore.url import open_store, open_synced_reader

TREE_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A node of the tree: its path, the node, and its depth below the start."""

    path: str
    node: Node
    depth: int


def _load_server() -> ServerMain:
    check_rocksdb()
    from mledger.metastore.rocksdb.server import main

    return main


run = server_command(
    "run",
    _load_server,
    summary="Serve a metadata store in a directory until SIGTERM or SIGINT; --help shows its OPTIONS.",
    epilog="Example: mledger metadata run --dir /data/metadata",
)


@click.command(epilog="Example: mledger --metadata zk://127.0.0.1:2181 metadata init")
@common_options
@click.pass_obj
def init(context: CommandContext) -> None:
    """Create the missing nodes that every cluster needs, so that bookies can start.

    It also creates the chroot of the URL. It does not change an initialized cluster. BookKeeper's
    `initnewcluster` creates the same nodes.
    """
    instance = context.run(_init(context.url))
    with messages.made(f"{context.url} has all nodes that a cluster needs"):
        context.output.record(OutputRecord(fields(metadata=context.url, instance_id=instance)))


@click.command(epilog="Example: mledger metadata tree /managed-ledgers --depth 2")
@click.argument("path", default="/", shell_complete=complete_paths)
@click.option("--depth", type=click.IntRange(0), help="The number of levels below PATH.  [default: all]")
@click.option(
    "--limit", type=click.IntRange(1), default=TREE_LIMIT, show_default=True, help="The maximum number of nodes."
)
@common_options
@click.pass_obj
def tree(context: CommandContext, path: str, depth: int | None, limit: int) -> None:
    """Show the nodes at and below PATH."""
    nodes, more = context.run(_tree(context.url, path, depth, limit))
    output = context.output
    if output.for_programs:
        rows = tuple(
            (each.path, stat.version, len(each.node.data), stat.num_children, stat.ephemeral_owner != 0)
            for each in nodes
            for stat in (each.node.stat,)
        )
        output.table(OutputTable("nodes", columns("path", "version", "size", "children", "ephemeral"), rows))
    else:
        for each in nodes:
            output.line(_tree_line(each, path))
    if more:
        click.echo(f"mledger: stopped after {limit} nodes: use --limit, --depth or a longer PATH", err=True)


@click.command(epilog="Example: mledger metadata get /managed-ledgers/public/default/persistent/orders")
@click.argument("path", shell_complete=complete_paths)
@click.option("--raw", is_flag=True, help="The node's bytes in hexadecimal, undecoded.")
@common_options
@click.pass_obj
def get(context: CommandContext, path: str, raw: bool) -> None:
    """Show the node at PATH, decoded if its format is known."""
    node = context.run(_get(context.url, path))
    content = NodeContent("bytes", node.data.hex()) if raw else decode_node(path, node.data)
    stat = node.stat
    facts = fields(
        path=path,
        kind=content.kind,
        version=stat.version,
        size=len(node.data),
        children=stat.num_children,
        ephemeral=stat.ephemeral_owner != 0,
        created_ms=stat.created_ms,
        modified_ms=stat.modified_ms,
    )
    output = context.output
    if output.for_programs:
        output.record(OutputRecord((*facts, *fields(value=content.value))))
    else:
        output.record(OutputRecord(facts))
        output.line("\n" + _indented(content.value))


def _indented(value: Value) -> str:
    if isinstance(value, str):
        return value
    lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(map(escaped, lines))  # JSON escapes neither marks of direction nor the controls above ASCII


def _tree_line(each: TreeNode, start: str) -> str:
    name = escaped(each.path if each.path == start else each.path.rpartition("/")[2])
    notes = [f"v{each.node.version}", f"{len(each.node.data)} B"]
    if each.node.stat.ephemeral_owner:
        notes.append("ephemeral")
    return f"{'  ' * each.depth}{name}  ({', '.join(notes)})"


async def _init(url: str) -> str:
    async with await open_store(url, create_chroot=True) as store:
        return await initialize(store)


async def _get(url: str, path: str) -> Node:
    async with await open_synced_reader(url) as reader:
        return await reader.get(path)


async def _tree(url: str, path: str, depth: int | None, limit: int) -> tuple[list[TreeNode], bool]:
    found: list[TreeNode] = []
    async with await open_synced_reader(url) as reader:
        async for node in _walk(reader, path, depth):
            if len(found) == limit:
                return found, True
            found.append(node)
    return found, False


async def _walk(reader: MetadataReader, start: str, depth: int | None) -> AsyncIterator[TreeNode]:
    """The nodes below `start` in the order of their paths, each node's children in one request."""
    first = await reader.get(start)
    pending = [TreeNode(start, first, 0)]
    while pending:
        each = pending.pop()
        yield each
        if not each.node.stat.num_children or (depth is not None and each.depth == depth):
            continue
        try:
            names = await reader.children(each.path)
        except NodeNotFound:  # deleted meanwhile
            continue
        below = [f"{each.path.rstrip('/')}/{name}" for name in names]
        nodes = await reader.get_many(below)
        known = [TreeNode(path, node, each.depth + 1) for path, node in zip(below, nodes, strict=True) if node]
        pending.extend(reversed(known))
