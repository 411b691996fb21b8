"""`mledger topics read`: the messages of a topic, or its entries as they are."""

import click

from mledger.admin.inspect import Inspector
from mledger.cli.shared.context import CommandContext, session_options
from mledger.cli.shared.entries import EntryWriter, MessageWriter
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.parameters import PositionType
from mledger.cli.shared.read_only import looking
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo


@click.command(epilog="Example: mledger topics read orders --first 12:0 --limit 10")
@topic_argument
@click.option("--first", type=PositionType(), help="First position to read.  [default: the earliest]")
@click.option("--last", type=PositionType(), help="Last position to read.  [default: the last that can be seen]")
@click.option("--limit", type=click.IntRange(1), help="At most so many entries.")
@click.option("--raw", is_flag=True, help="Entries as they are, not the messages in them; nothing between them.")
@session_options
@click.pass_obj
def read(
    session: CommandContext, topic: str, first: Position | None, last: Position | None, limit: int | None, raw: bool
) -> None:
    """Write TOPIC's messages to stdout: a payload a line, or an object each where --output asks for one.

    No cursor is needed or moved, and nothing is fenced. A ledger that is still written is read to its end as its
    bookies show it; what of it is not proven acknowledged is marked unconfirmed (rule Q3). What is not shown is said
    on stderr.
    """
    session.run(_read(session, str(TopicName.parse(topic)), first, last, limit, raw))


async def _read(
    session: CommandContext, name: str, first: Position | None, last: Position | None, limit: int | None, raw: bool
) -> None:
    writer = EntryWriter(session.output, raw=True) if raw else MessageWriter(session.output)
    left = limit
    async with looking(session.url) as cluster:
        async for batch in Inspector(cluster.metadata, cluster.bookies).read(name, first, last, _say_skipped):
            for entry in batch[:left]:
                writer.write(str(entry.position), entry.payload, unconfirmed=entry.unconfirmed)
            left = None if left is None else left - len(batch)
            if left is not None and left <= 0:
                break
    writer.flush()


def _say_skipped(ledger: LedgerInfo) -> None:
    messages.warning(
        f"ledger {ledger.ledger_id}, {ledger.entries:,} entries, is offloaded and not on the bookies: not shown"
    )
