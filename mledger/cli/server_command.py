"""Commands that run a server in this process; the server parses its own options."""

import os
from collections.abc import Callable, Sequence

import click

from mledger.cli.shared.context import CONTEXT_VARIABLE, METADATA_VARIABLE, CommandContext
from mledger.cli.shared.context_file import ContextError
from mledger.cli.shared.messages import messages

ServerMain = Callable[[Sequence[str], str], int]


def no_options(context: CommandContext) -> tuple[str, ...]:
    """What a server takes from the options before the command if it takes none."""
    return ()


def server_command(
    name: str,
    load: Callable[[], ServerMain],
    *,
    summary: str,
    epilog: str,
    given: Callable[[CommandContext], Sequence[str]] = no_options,
) -> click.Command:
    """The command `name`, which passes its arguments, and its own path for messages, to a server's main.

    `load` imports that main on first use, so that other commands do not load a server. `given` are
    the server's options that follow from options before the command and from the environment.
    """

    @click.command(
        name,
        help=summary,
        epilog=epilog,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )
    @click.argument("options", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def run(click_context: click.Context, options: tuple[str, ...]) -> None:
        context = click_context.find_object(CommandContext) or CommandContext()
        taken = () if _asks_for_help(options) else given(context)
        try:
            code = load()((*taken, *options), click_context.command_path)
        except SystemExit as ended:  # from its parser: help, or an invalid option
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        click_context.exit(code)

    return run


def given_metadata(context: CommandContext) -> tuple[str, ...]:
    """The server's --metadata option if an option before the command selects a cluster, else none.

    A cluster that the environment or the current context selects becomes the server's default: the
    server's settings override it.
    """
    by_option = context.metadata or context.context
    try:
        selected = context.selected
    except ContextError as error:
        if by_option or os.environ.get(CONTEXT_VARIABLE):
            raise
        messages.warning(error.format_message())  # the server's own options and settings may name its cluster
        return ()
    if selected is None:
        return ()
    if by_option:
        return ("--metadata", selected.url)
    os.environ[METADATA_VARIABLE] = selected.url
    return ()


def _asks_for_help(options: Sequence[str]) -> bool:
    return any(each in ("-h", "--help") for each in options)
