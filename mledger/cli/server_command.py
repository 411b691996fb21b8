"""Commands that are servers: the process becomes the server, which reads its own options."""

import os
from collections.abc import Callable, Sequence

import click

from mledger.cli.shared.context import CONTEXT_VARIABLE, METADATA_VARIABLE, CommandContext
from mledger.cli.shared.context_file import ContextError
from mledger.cli.shared.messages import messages

ServerMain = Callable[[Sequence[str], str], int]


def server_command(
    name: str, load: Callable[[], ServerMain], *, summary: str, epilog: str, client: bool = False
) -> click.Command:
    """The command `name`: all that follows it goes to the server's main, with the command's path for its messages.

    `load` imports that main when it is needed: other commands load nothing of a server. `client`: the server is one of
    a metadata store, which it takes by --metadata or MLEDGER_METADATA.
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
        given = _given_metadata(context) if client and not _asks_for_help(options) else ()
        try:
            code = load()((*given, *options), click_context.command_path)
        except SystemExit as ended:  # of its parser: help, or an option that cannot be
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        click_context.exit(code)

    return run


def _given_metadata(context: CommandContext) -> tuple[str, ...]:
    """The server's option for the metadata store that an option before the command names, which settings do not change.

    What a context of the environment, or the current one, names is the default of a server that is told of none.
    """
    by_option = context.metadata or context.context
    try:
        meant = context.meant
    except ContextError as error:
        if by_option or os.environ.get(CONTEXT_VARIABLE):
            raise
        messages.warning(error.format_message())  # the server's own options and settings may say where it belongs
        return ()
    if meant is None:
        return ()
    if by_option:
        return ("--metadata", meant.url)
    os.environ[METADATA_VARIABLE] = meant.url
    return ()


def _asks_for_help(options: Sequence[str]) -> bool:
    return any(each in ("-h", "--help") for each in options)
