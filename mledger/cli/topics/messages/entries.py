"""`mledger topics read`: the messages of a topic, or its raw entries."""

from collections.abc import AsyncIterator

import click

from mledger.admin.inspect import Inspector, SeenEntry
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.entries import EntryWriter, MessageWriter, Writer
from mledger.cli.shared.parameters import PositionType
from mledger.cli.shared.read_only import read_only_cluster
from mledger.cli.topics.messages.follower import Follower
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo


@click.command(epilog="Example: mledger topics read orders --first 12:0 --limit 10")
@topic_argument
@click.option(
    "--first", type=PositionType(), help="First position to read.  [default: the earliest; with --follow the end]"
)
@click.option("--last", type=PositionType(), help="Last position to read.  [default: the last visible one]")
@click.option("--limit", type=click.IntRange(1), help="The maximum number of entries.")
@click.option("--raw", is_flag=True, help="Raw entries instead of their messages, with nothing between them.")
@click.option("--decode", is_flag=True, help="For people: one line per message, with key, properties and producer.")
@click.option("--follow", "-f", is_flag=True, help="Continue with new entries as they arrive, until --limit.")
@common_options
@click.pass_obj
def read(
    context: CommandContext,
    topic: str,
    first: Position | None,
    last: Position | None,
    limit: int | None,
    raw: bool,
    decode: bool,
    follow: bool,
) -> None:
    """Write TOPIC's messages to stdout: one payload per line, or objects in the --output format.

    It needs and moves no cursor, and fences nothing. An open ledger is read to its end according to
    its bookies; entries that are not proven acknowledged are marked unconfirmed (rule Q3). Warnings
    on stderr report what is not shown. With --follow it begins after the last visible entry, unless
    --first is given.
    """
    if decode and raw:
        raise click.UsageError("--decode and --raw cannot go together")
    if follow and last is not None:
        raise click.UsageError("--follow and --last cannot go together: --limit says how many entries to wait for")
    writer: Writer = EntryWriter(context.output, raw=True) if raw else MessageWriter(context.output, decoded=decode)
    name = str(TopicName.parse(topic))
    reading = (
        _follow(context, writer, name, first, limit) if follow else _read(context, writer, name, first, last, limit)
    )
    try:
        context.run(reading)
    except (KeyboardInterrupt, MledgerError):
        writer.end(failed=True)
        raise
    writer.end()


async def _read(
    context: CommandContext, writer: Writer, name: str, first: Position | None, last: Position | None, limit: int | None
) -> None:
    async with read_only_cluster(context.url) as cluster:
        await _write(writer, Inspector(cluster.metadata, cluster.bookies).read(name, first, last, _say_skipped), limit)


async def _follow(
    context: CommandContext, writer: Writer, name: str, first: Position | None, limit: int | None
) -> None:
    async with read_only_cluster(context.url) as cluster:
        follower = Follower(Inspector(cluster.metadata, cluster.bookies), name, _say_skipped)
        await _write(writer, follower.follow(first or await follower.end()), limit)


async def _write(writer: Writer, batches: AsyncIterator[list[SeenEntry]], limit: int | None) -> None:
    """Write the entries, flushing after each list, until the end or until `limit` were written."""
    left = limit
    async for batch in batches:
        for entry in batch[:left]:
            writer.write(str(entry.position), entry.payload, unconfirmed=entry.unconfirmed)
        writer.flush()
        left = None if left is None else left - len(batch)
        if left is not None and left <= 0:
            break


def _say_skipped(ledger: LedgerInfo) -> None:
    messages.warning(
        f"ledger {ledger.ledger_id} with {ledger.entries:,} entries is offloaded and not on the bookies: not shown"
    )
