"""`mledger ledgers read`: the entries of a ledger, without fencing it."""

import itertools
from collections.abc import Callable

import click

from mledger.bookie.errors import NoSuchEntry
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.entries import EntryWriter, MessageWriter, StateWriter, Writer
from mledger.cli.shared.output.results import Output
from mledger.cli.shared.read_only import read_only_cluster
from mledger.ledgers.orphans.references import COMPACTED, origin_of
from mledger.metastore.records.ledger_metadata import LedgerMetadata

READ_BATCH = 500


@click.command(epilog="Example: mledger ledgers read 12 --first 100")
@click.argument("ledger_id", type=click.IntRange(0))
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="First entry.")
@click.option("--last", type=click.IntRange(0), help="Last entry.  [default: the last visible one]")
@click.option("--raw", is_flag=True, help="Raw payloads with nothing between them.")
@click.option(
    "--decode",
    is_flag=True,
    help="Decode entries: those of a cursor ledger as states, in JSON; others as Pulsar's messages.",
)
@click.option("--password", default="", help="The ledger's password.")
@common_options
@click.pass_obj
def read(
    context: CommandContext, ledger_id: int, first: int, last: int | None, raw: bool, decode: bool, password: str
) -> None:
    """Write a ledger's entries to stdout: one payload per line, or objects in the --output format.

    It fences nothing. An open ledger is read to its end according to its bookies; entries that are
    not proven acknowledged are marked unconfirmed (rule Q3).
    """
    if decode and raw:
        raise click.UsageError("--decode and --raw cannot go together")

    def writer_for(metadata: LedgerMetadata) -> Writer:
        return _decoder(context.output, metadata) if decode else EntryWriter(context.output, raw=raw)

    context.run(_read(context, ledger_id, first, last, writer_for, password.encode()))


def _decoder(output: Output, metadata: LedgerMetadata) -> Writer:
    """The writer that decodes the entries of the ledger."""
    origin = origin_of(0, metadata, 0)
    if origin.cursor:
        return StateWriter(output)
    return MessageWriter(output, compacted=origin.component == COMPACTED)


async def _read(
    context: CommandContext,
    ledger_id: int,
    first: int,
    last: int | None,
    writer_for: Callable[[LedgerMetadata], Writer],
    password: bytes,
) -> None:
    output = context.output
    async with read_only_cluster(context.url) as cluster:
        writer = writer_for(await cluster.bookies.metadata(ledger_id))
        peek = await cluster.bookies.peek(ledger_id, password)
        for warning in peek.warnings:
            messages.warning(warning)
        end = peek.last_entry if last is None else last
        if first > max(0, peek.last_entry):
            raise NoSuchEntry(f"entry {first} is past ledger {ledger_id}'s last entry {peek.last_entry}")
        with output.progress("reading", "entries") as progress:
            task = progress.add_task("", total=max(0, end - first + 1))
            entry = first
            while entry <= end:
                payloads = await peek.reader.read(entry, min(end, entry + READ_BATCH - 1))
                for number, payload in zip(itertools.count(entry), payloads, strict=False):
                    writer.write(f"{ledger_id}:{number}", payload, unconfirmed=number > peek.last_add_confirmed)
                entry += len(payloads)
                progress.advance(task, len(payloads))
        writer.end()
        if last is None:
            peek.decided()
