"""`mledger ledgers list|describe|read`: reads BookKeeper's ledgers without fencing them."""

import itertools
from collections.abc import Callable

import click

from mledger.bookie.errors import NoSuchEntry
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.output.entries import EntryWriter, MessageWriter, StateWriter, Writer
from mledger.cli.shared.output.results import Output, OutputRecord, OutputTable, Value, columns, fields, pairs, readable
from mledger.cli.shared.read_only import read_only_cluster
from mledger.ledgers.references import COMPACTED, origin_of
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.records.ledger_metadata import LedgerMetadata

READ_BATCH = 500
LIST_COLUMNS = columns("ledger_id", "state", "entries", "length", "ensemble_size", "write_quorum", "ack_quorum", "of")


@click.command("list", epilog="Example: mledger ledgers list --limit 20")
@click.option("--limit", type=click.IntRange(1), help="The maximum number of ledgers.  [default: all]")
@click.option("--bookie", metavar="BOOKIE", help="Only ledgers with BOOKIE in an ensemble.")
@common_options
@click.pass_obj
def list_command(context: CommandContext, limit: int | None, bookie: str | None) -> None:
    """List the ledgers in order of their ids."""
    rows = context.run(_list(context.url, limit, bookie))
    context.output.table(OutputTable("ledgers", LIST_COLUMNS, tuple(rows)))


@click.command(epilog="Example: mledger ledgers describe 12")
@click.argument("ledger_id", type=click.IntRange(0))
@click.option("--password", default="", help="The ledger's password, to ask the bookies for its end.")
@common_options
@click.pass_obj
def describe(context: CommandContext, ledger_id: int, password: str) -> None:
    """Show a ledger's metadata, and its end according to its bookies (rule Q3)."""
    context.output.record(context.run(_describe(context.url, ledger_id, password.encode())))


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


async def _list(url: str, limit: int | None, bookie: str | None) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    async with read_only_cluster(url) as cluster:
        store = LedgerStoreReader(cluster.metadata)
        async for page in store.list():
            found = await store.read_many(page)
            rows.extend(
                _row(ledger_id, each[0])
                for ledger_id, each in zip(page, found, strict=True)
                if each and (bookie is None or any(bookie in segment.bookies for segment in each[0].segments))
            )
            if limit is not None and len(rows) >= limit:
                break
    return rows[:limit]


def _row(ledger_id: int, metadata: LedgerMetadata) -> tuple[Value, ...]:
    closed = metadata.state.name == "CLOSED"
    return (
        ledger_id,
        metadata.state.name,
        metadata.last_entry + 1 if closed else None,
        metadata.length if closed else None,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
        _owner(metadata),
    )


def _owner(metadata: LedgerMetadata) -> str:
    """The ledger's origin by its custom metadata."""
    return origin_of(0, metadata, 0).of


async def _describe(url: str, ledger_id: int, password: bytes) -> OutputRecord:
    async with read_only_cluster(url) as cluster:
        metadata = await cluster.bookies.metadata(ledger_id)
        peek = await cluster.bookies.peek(ledger_id, password)
    custom = pairs((key, readable(value)) for key, value in metadata.custom_metadata)
    facts = fields(
        ledger_id=ledger_id,
        state=metadata.state.name,
        of=_owner(metadata),
        last_entry=peek.last_entry,
        last_add_confirmed=peek.last_add_confirmed,
        length=peek.length,
        unconfirmed=peek.unconfirmed,
        ensemble_size=metadata.ensemble_size,
        write_quorum=metadata.write_quorum,
        ack_quorum=metadata.ack_quorum,
        digest_type=metadata.digest_type.name if metadata.digest_type else None,
        created_ms=metadata.ctime if metadata.ctime > 0 else None,
        format_version=metadata.format_version,
        custom_metadata=custom,
        warnings=tuple(peek.warnings),
    )
    rows = tuple((segment.first_entry, segment.bookies) for segment in metadata.segments)
    return OutputRecord(facts, (OutputTable("ensembles", columns("first_entry", "bookies"), rows),))


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
