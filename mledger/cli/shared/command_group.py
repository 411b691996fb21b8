"""A group of commands whose help says of each what it does, whole."""

import click


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
