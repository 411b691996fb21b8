"""`mledger bookies list`."""

import click

from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputTable, columns
from mledger.cli.shared.read_only import read_only_cluster
from mledger.metastore.cluster.bookies import BookieRegistration


@click.command("list", epilog="Example: mledger bookies list")
@common_options
@click.pass_obj
def list_command(context: CommandContext) -> None:
    """List the registered bookies."""
    found = context.run(_list(context.url))
    rows = tuple((each.bookie_id, f"{each.host}:{each.port}", state_of(each)) for each in found)
    context.output.table(OutputTable("bookies", columns("bookie_id", "address", "state"), rows))


def state_of(registration: BookieRegistration | None) -> str:
    """What people call the state of a bookie with this registration."""
    if registration is None:
        return "not registered"
    return "read-only" if registration.read_only else "writable"


async def _list(url: str) -> list[BookieRegistration]:
    async with read_only_cluster(url) as cluster:
        return await cluster.bookies.bookies()
