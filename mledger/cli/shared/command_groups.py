"""Groups of commands: their help says of each command what it does, and imports none before it is used."""

import importlib
from collections.abc import Mapping
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

PACKAGE = "mledger.cli"


class CommandGroup(click.Group):
    """Click's group; the first sentence of a command's help is wrapped where it is long, not cut off."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' names and first sentences."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=2**31)) for name, command in found if command and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LateCommand(NamedTuple):
    """Where a command is, as `module:attribute` below `mledger.cli`, and the first sentence of its help."""

    where: str
    summary: str

    def load(self) -> click.Command:
        """Import it."""
        module, _, attribute = self.where.partition(":")
        found: click.Command = getattr(importlib.import_module(f"{PACKAGE}.{module}"), attribute)
        return found


class LateGroup(CommandGroup):
    """A group of such commands, and of groups of them."""

    late: Mapping[str, "LateCommand | LateGroup"] = {}

    @property
    def summary(self) -> str:
        """What the group is for."""
        return self.get_short_help_str(limit=2**31)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return sorted(self.late)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None if there is none."""
        found = self.late.get(cmd_name)
        return found.load() if isinstance(found, LateCommand) else found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and first sentences, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.late[name].summary) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """What may follow, also without importing it."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=self.late[name].summary) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def late_group(name: str, summary: str, commands: Mapping[str, LateCommand]) -> LateGroup:
    """The group `name` of those commands."""
    group = LateGroup(name, help=summary)
    group.late = commands
    return group
