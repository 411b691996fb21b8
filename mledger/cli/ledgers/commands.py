"""`mledger ledgers list|describe`: BookKeeper's ledgers and their ends, without fencing them."""

import click

from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.output.results import OutputRecord, OutputTable, Value, columns, fields, pairs, readable
from mledger.cli.shared.read_only import read_only_cluster
from mledger.ledgers.orphans.references import origin_of
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.errors import RecordError
from mledger.metastore.records.ledger_metadata import LedgerMetadata

LIST_COLUMNS = columns("ledger_id", "state", "entries", "length", "ensemble_size", "write_quorum", "ack_quorum", "of")


@click.command("list", epilog="Example: mledger ledgers list --limit 20")
@click.option("--limit", type=click.IntRange(1), help="The maximum number of ledgers.  [default: all]")
@click.option("--bookie", metavar="BOOKIE", help="Only ledgers with BOOKIE in an ensemble.")
@common_options
@click.pass_obj
def list_command(context: CommandContext, limit: int | None, bookie: str | None) -> None:
    """List the ledgers in order of their ids."""
    unreadable: list[RecordError] = []
    rows = context.run(_list(context.url, limit, bookie, unreadable))
    context.output.table(OutputTable("ledgers", LIST_COLUMNS, tuple(rows)))
    if unreadable:
        raise unreadable[0]  # the others are shown


@click.command(epilog="Example: mledger ledgers describe 12")
@click.argument("ledger_id", type=click.IntRange(0))
@click.option("--password", default="", help="The ledger's password, to ask the bookies for its end.")
@common_options
@click.pass_obj
def describe(context: CommandContext, ledger_id: int, password: str) -> None:
    """Show a ledger's metadata, and its end according to its bookies (rule Q3)."""
    context.output.record(context.run(_describe(context.url, ledger_id, password.encode())))


async def _list(
    url: str, limit: int | None, bookie: str | None, unreadable: list[RecordError]
) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    async with read_only_cluster(url) as cluster:
        store = LedgerStoreReader(cluster.metadata)
        async for page in store.list(unreadable):
            for ledger_id, each in zip(page, await store.read_each(page), strict=True):
                if isinstance(each, RecordError):
                    unreadable.append(each)
                elif each and (bookie is None or any(bookie in segment.bookies for segment in each[0].segments)):
                    rows.append(_row(ledger_id, each[0]))
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
