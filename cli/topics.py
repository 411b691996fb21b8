"""`mledger topics`: topics as managed ledgers."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

import click

import mledger
from cli import payloads
from cli.context import Session, session_options
from cli.entries import EntryWriter
from cli.looking import looking
from cli.output import Record, Table, columns, fields, pairs
from cli.parameters import PositionType, Properties, PropertyType
from cli.writing import WriteOptions, opened_topic, write_options
from metastore.paths import TopicName
from metastore.position import Position
from mledger.inspect import Inspector, TopicInspection

WINDOW_BATCHES = 8


@click.group()
def topics() -> None:
    """Create, publish to, look at and read topics."""


@topics.command(epilog="Example: mledger topics create persistent://public/default/orders --property team=storage")
@click.argument("topic")
@click.option(
    "--property",
    "properties",
    type=PropertyType(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A property to keep with it.",
)
@write_options
@session_options
@click.pass_obj
def create(session: Session, topic: str, properties: Properties, options: WriteOptions) -> None:
    """Create TOPIC, persistent://tenant/namespace/topic, with a first ledger."""
    name = TopicName.parse(topic)
    session.run(_create(session.url, str(name), dict(properties), options))
    if session.output.json:
        session.output.record(Record(fields(topic=str(name), managed_ledger=name.managed_ledger_name)))
    else:
        session.output.line(f"created {name}")


@topics.command("list", epilog="Example: mledger topics list public/default")
@click.argument("namespace", default="")
@session_options
@click.pass_obj
def list_command(session: Session, namespace: str) -> None:
    """List the topics, or those of NAMESPACE: tenant or tenant/namespace."""
    found = session.run(_list(session.url, namespace))
    session.output.table(Table("topics", columns("topic", "managed_ledger"), tuple(found)))


@topics.command(epilog="Example: mledger topics describe orders")
@click.argument("topic")
@session_options
@click.pass_obj
def describe(session: Session, topic: str) -> None:
    """Show TOPIC's ledgers, its end and its cursors; nothing is changed and nothing is fenced."""
    found = session.run(_describe(session.url, str(TopicName.parse(topic))))
    ledger_columns = columns("ledger_id", "entries", "size", "state", "closed_ms")
    ledgers = tuple(
        (each.ledger_id, each.entries, each.size, _ledger_state(each.closed, each.unconfirmed), each.timestamp or None)
        for each in found.ledgers
    )
    facts = fields(
        topic=topic,
        managed_ledger=found.managed_ledger,
        entries=found.entries,
        size=found.size,
        last_confirmed=str(found.last_confirmed),
        terminated=str(found.terminated) if found.terminated else None,
        owner=str(found.owner) if found.owner else None,
        properties=pairs(found.properties),
        cursors=tuple(found.cursors),
        metadata_version=found.version,
        warnings=tuple(found.warnings),
    )
    session.output.record(Record(facts, (Table("ledgers", ledger_columns, ledgers),)))


@topics.command(epilog="Example: seq 1000 | mledger topics produce orders")
@click.argument("topic")
@click.option("--file", "source", type=click.File("rb"), default="-", help="Lines to publish.  [default: stdin]")
@click.option("--count", type=click.IntRange(1), help="Publish so many made entries instead of lines.")
@click.option("--size", type=click.IntRange(1), default=100, show_default=True, help="Bytes of a made entry.")
@click.option("--whole", is_flag=True, help="Publish the whole file as one entry.")
@write_options
@session_options
@click.pass_obj
def produce(
    session: Session,
    topic: str,
    source: BinaryIO,
    count: int | None,
    size: int,
    whole: bool,
    options: WriteOptions,
) -> None:
    """Publish entries to TOPIC: a line each, or --count made ones; returns when all are acknowledged."""
    name = str(TopicName.parse(topic))
    entries: Iterator[bytes]
    if count is not None:
        entries = payloads.made(count, size)
    else:
        entries = iter([source.read()]) if whole else payloads.lines(source)
    ranges = session.run(_produce(session, name, entries, count, options))
    published = sum(each.last_entry - each.first_entry + 1 for each in ranges)
    first = f"{ranges[0].ledger_id}:{ranges[0].first_entry}" if ranges else None
    last = f"{ranges[-1].ledger_id}:{ranges[-1].last_entry}" if ranges else None
    if session.output.json:
        session.output.record(Record(fields(topic=name, published=published, first=first, last=last)))
    else:
        session.output.line(f"published {published:,} entries" + (f", {first} to {last}" if ranges else ""))


@topics.command(epilog="Example: mledger topics read orders --first 12:0 --limit 10")
@click.argument("topic")
@click.option("--first", type=PositionType(), help="First position to read.  [default: the earliest]")
@click.option("--last", type=PositionType(), help="Last position to read.  [default: the last confirmed]")
@click.option("--limit", type=click.IntRange(1), help="At most so many entries.")
@click.option("--raw", is_flag=True, help="Payloads as they are, nothing between them.")
@session_options
@click.pass_obj
def read(
    session: Session, topic: str, first: Position | None, last: Position | None, limit: int | None, raw: bool
) -> None:
    """Write TOPIC's entries to stdout: a payload a line, or with --output json one object a line.

    No cursor is needed or moved, and nothing is fenced: the current ledger is read to its last confirmed entry.
    """
    session.run(_read(session, str(TopicName.parse(topic)), first, last, limit, raw))


async def _create(url: str, name: str, properties: dict[str, str], options: WriteOptions) -> None:
    async with mledger.open_cluster(url, config=options.config) as cluster:
        topic = await cluster.create_topic(name, properties=properties)
        await topic.close()


async def _list(url: str, namespace: str) -> list[tuple[str, str]]:
    async with looking(url) as cluster:
        found = await Inspector(cluster.metadata, cluster.bookies).topics(namespace)
    return [(str(name), name.managed_ledger_name) for name in found]


async def _describe(url: str, name: str) -> TopicInspection:
    async with looking(url) as cluster:
        return await Inspector(cluster.metadata, cluster.bookies).topic(name)


async def _produce(
    session: Session, name: str, entries: Iterator[bytes], total: int | None, options: WriteOptions
) -> list[mledger.AppendedRange]:
    """What was published, in order."""
    acknowledged: list[mledger.AppendedRange] = []
    waiting: deque[asyncio.Future[tuple[mledger.AppendedRange, ...]]] = deque()
    with session.output.progress("publishing", "entries") as progress:
        task = progress.add_task("", total=total)

        async def settle(most: int) -> None:
            while len(waiting) > most:
                ranges = await waiting.popleft()
                acknowledged.extend(ranges)
                progress.advance(task, sum(each.last_entry - each.first_entry + 1 for each in ranges))

        async with opened_topic(session.url, name, options) as topic:
            for batch in payloads.batches(entries):
                waiting.append(topic.append(batch))
                await settle(WINDOW_BATCHES)
            await settle(0)
    return acknowledged


async def _read(
    session: Session, name: str, first: Position | None, last: Position | None, limit: int | None, raw: bool
) -> None:
    writer = EntryWriter(session.output, raw=raw)
    left = limit
    async with looking(session.url) as cluster:
        async for batch in Inspector(cluster.metadata, cluster.bookies).read(name, first, last):
            for entry in batch[:left]:
                writer.write(str(entry.position), entry.payload)
            left = None if left is None else left - len(batch)
            if left is not None and left <= 0:
                break
    writer.flush()


def _ledger_state(closed: bool, unconfirmed: bool) -> str:
    if closed:
        return "closed"
    return "open, end unconfirmed" if unconfirmed else "open"
