"""`mledger context`: names of clusters."""

import click

from mledger.cli.shared.command_groups import CommandGroup
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.context_file import ContextError, path_of_contexts, read_contexts, write_contexts
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.results import OutputRecord, OutputTable, columns, fields
from mledger.metastore.url import parse_url


@click.group(cls=CommandGroup)
def context() -> None:
    """Name clusters, and select the current one."""


@context.command(epilog="Example: mledger context add prod 'zk://zk-1:2181,zk-2:2181/pulsar'")
@click.argument("name")
@click.argument("url")
@click.option("--replace", is_flag=True, help="Replace the URL of an existing name.")
@common_options
@click.pass_obj
def add(context: CommandContext, name: str, url: str, replace: bool) -> None:
    """Store the metadata URL of a cluster as NAME; the first one becomes the current one.

    Do not put secrets into the URL: `?config=FILE` names a file with them.
    """
    url = str(parse_url(url))
    path = path_of_contexts()
    contexts = read_contexts(path)
    if name in contexts.metadata and not replace:
        raise ContextError(
            f"context {name!r} exists already, {contexts.metadata[name]}: use --replace to give it this URL"
        )
    contexts = contexts.added(name, url)
    write_contexts(path, contexts)
    _show(context, name, url, contexts.current == name)


@context.command(epilog="Example: mledger context use prod")
@click.argument("name")
@common_options
@click.pass_obj
def use(context: CommandContext, name: str) -> None:
    """Select the cluster NAME for commands without a cluster in an option or the environment."""
    path = path_of_contexts()
    contexts = read_contexts(path).used(name)
    write_contexts(path, contexts)
    _show(context, name, contexts.url(name), True)


@context.command(epilog="Example: mledger context remove prod")
@click.argument("name")
@common_options
@click.pass_obj
def remove(context: CommandContext, name: str) -> None:
    """Remove the name; this does not change the cluster."""
    path = path_of_contexts()
    contexts = read_contexts(path)
    write_contexts(path, contexts.removed(name))
    with messages.made(f"{path} was changed"):
        if context.output.for_programs:
            context.output.record(OutputRecord(fields(removed=name, metadata=contexts.url(name))))
        else:
            context.output.line(f"removed {name}")


@context.command("list", epilog="Example: mledger context list")
@common_options
@click.pass_obj
def list_command(context: CommandContext) -> None:
    """List the names, and mark the current one."""
    contexts = read_contexts(path_of_contexts())
    rows = tuple((name, url, name == contexts.current) for name, url in sorted(contexts.metadata.items()))
    context.output.table(OutputTable("contexts", columns("name", "metadata", "current"), rows))


def _show(context: CommandContext, name: str, url: str, current: bool) -> None:
    with messages.made(f"{path_of_contexts()} was changed"):
        context.output.record(OutputRecord(fields(name=name, metadata=url, current=current)))
