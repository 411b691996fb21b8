"""Commands that are servers: the process becomes the server, which reads its own options."""

import os
from collections.abc import Callable, Sequence

import click

from mledger.cli.shared.context import METADATA_VARIABLE, CommandContext

ServerMain = Callable[[Sequence[str], str], int]


def server_command(name: str, load: Callable[[], ServerMain], *, summary: str, epilog: str) -> click.Command:
    """The command `name`: all that follows it goes to the server's main, with the command's path for its messages.

    `load` imports that main when it is needed: other commands load nothing of a server.
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
    def run(context: click.Context, options: tuple[str, ...]) -> None:
        session = context.find_object(CommandContext) or CommandContext()
        meant = None if _asks_for_help(options) else session.meant
        if meant is not None:
            os.environ[METADATA_VARIABLE] = meant.url  # what the server's own options and settings come before
        try:
            code = load()(options, context.command_path)
        except SystemExit as ended:  # of its parser: help, or an option that cannot be
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        context.exit(code)

    return run


def _asks_for_help(options: Sequence[str]) -> bool:
    return any(each in ("-h", "--help") for each in options)
