"""Groups of commands that import a command on first use; their help needs no imports."""

import importlib
from collections.abc import Mapping
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from mledger.metastore.runtime.packages import missing_package

PACKAGE = "mledger.cli"


class CommandGroup(click.Group):
    """A click group that wraps a long first sentence of a command's help instead of truncating it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and first sentences of the commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=2**31)) for name, command in found if command and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LazyCommand(NamedTuple):
    """A command that is imported on first use.

    `where` is its `module:attribute` below `mledger.cli`, `summary` the first sentence of its help.
    """

    where: str
    summary: str

    def load(self) -> click.Command:
        """Import the command. PackageNotInstalled where it needs a package of an extra that is not there."""
        name, _, attribute = self.where.partition(":")
        try:
            module = importlib.import_module(f"{PACKAGE}.{name}")
        except ModuleNotFoundError as error:
            raise missing_package(error) from error
        found: click.Command = getattr(module, attribute)
        return found


class LazyGroup(CommandGroup):
    """A group of lazy commands and lazy groups."""

    lazy: Mapping[str, "LazyCommand | LazyGroup"] = {}

    @property
    def summary(self) -> str:
        """The first sentence of the group's help."""
        return self.get_short_help_str(limit=2**31)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command `cmd_name`, or None."""
        found = self.lazy.get(cmd_name)
        return found.load() if isinstance(found, LazyCommand) else found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and first sentences without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name].summary) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without importing the commands."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.lazy[name].summary) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def lazy_group(name: str, summary: str, commands: Mapping[str, LazyCommand]) -> LazyGroup:
    """The group `name` with `commands`."""
    group = LazyGroup(name, help=summary)
    group.lazy = commands
    return group
