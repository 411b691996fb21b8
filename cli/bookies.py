"""`mledger bookies`: the bookies that are there."""

import click

from cli.context import Session, session_options
from cli.looking import looking
from cli.output import Table, columns
from metastore.bookies import BookieRegistration


@click.group()
def bookies() -> None:
    """Look at the bookies; nothing is changed."""


@bookies.command("list", epilog="Example: mledger bookies list")
@session_options
@click.pass_obj
def list_command(session: Session) -> None:
    """List the bookies that are registered now."""
    found = session.run(_list(session.url))
    rows = tuple((each.bookie_id, f"{each.host}:{each.port}", _state(each)) for each in found)
    session.output.table(Table("bookies", columns("bookie_id", "address", "state"), rows))


def _state(registration: BookieRegistration) -> str:
    return "read-only" if registration.read_only else "writable"


async def _list(url: str) -> list[BookieRegistration]:
    async with looking(url) as cluster:
        return await cluster.bookies.bookies()
