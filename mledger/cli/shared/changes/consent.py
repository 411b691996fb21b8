"""Whether there is somebody to ask before a command changes the cluster."""

import sys

import click


def check_terminal() -> None:
    """Raise click.UsageError unless there is a terminal to ask at."""
    if not sys.stdin.isatty():
        raise click.UsageError("this changes the cluster: use --yes, or --dry-run to see the plan")
