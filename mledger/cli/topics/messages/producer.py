"""`mledger topics produce`: publishes Pulsar's messages, or raw entries, to a topic."""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import click

import mledger
from mledger.cli.shared.changes.topic_owner import WriteOptions, opened_topic, write_options
from mledger.cli.shared.context import CommandContext, common_options
from mledger.cli.shared.messages import messages
from mledger.cli.shared.names import topic_argument
from mledger.cli.shared.output.results import OutputRecord, fields
from mledger.cli.shared.parameters import Properties, PropertyType
from mledger.cli.topics.messages import payloads
from mledger.cli.topics.messages.arrivals import Arrivals, arriving_lines
from mledger.messages.pulsar_message import decode_entry
from mledger.messages.pulsar_producer import INDEX_PROPERTY, EntryEncoder, PublishedEntry, next_index
from mledger.metastore.errors import RecordError
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.records.paths import TopicName

WINDOW_BATCHES = 8


@dataclass(slots=True)
class Publication:
    """What to publish: messages to encode, or with `raw` raw entries; `total` is their number if known."""

    lines: Iterator[bytes]
    total: int | None
    raw: bool
    encoder: EntryEncoder
    shape: payloads.MessageShape

    async def entries_for(self, topic: mledger.ManagedLedger) -> Iterator[PublishedEntry]:
        """The entries to append to the opened topic."""
        if self.raw:
            return (PublishedEntry(payload, 1) for payload in self.lines)
        last = None
        if topic.last_confirmed.entry_id >= 0:
            try:
                last = decode_entry((await topic.read_entry(topic.last_confirmed)).payload)
            except RecordError:  # not a message, so without a number
                last = None
        self.encoder.next_index = next_index(topic.properties.items(), last)
        return self.encoder.entries(payloads.messages(self.lines, self.shape))


@click.command(epilog="Example: seq 1000 | mledger topics produce orders --key all --property source=seq")
@topic_argument
@click.option("--file", "source", type=click.File("rb"), default="-", help="Lines to publish.  [default: stdin]")
@click.option("--count", type=click.IntRange(1), help="Publish this number of generated messages instead of lines.")
@click.option(
    "--size", type=click.IntRange(1), default=100, show_default=True, help="The size in bytes of a generated message."
)
@click.option("--whole", is_flag=True, help="Publish the whole file as one message.")
@click.option("--key", help="The key of every message.")
@click.option("--key-separator", metavar="TEXT", help="Lines are KEY, TEXT, VALUE: the key ends where TEXT begins.")
@click.option(
    "--property",
    "properties",
    type=PropertyType(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of every message.",
)
@click.option("--producer-name", help="The producer's name.  [default: mledger- and random letters]")
@click.option(
    "--sequence-id", type=click.IntRange(0), help="The first message's sequence id; it rises by one.  [default: 0]"
)
@click.option(
    "--batch", type=click.IntRange(1), help="The maximum number of messages in a batch.  [default: no batches]"
)
@click.option(
    "--compression",
    type=click.Choice([kind.name for kind in CompressionType], case_sensitive=False),
    help="The compression of each entry's payload.  [default: NONE]",
)
@click.option("--raw", is_flag=True, help="Publish raw entries, not Pulsar messages: no Pulsar client can read them.")
@write_options
@common_options
@click.pass_obj
def produce(
    context: CommandContext,
    topic: str,
    source: BinaryIO,
    count: int | None,
    size: int,
    whole: bool,
    key: str | None,
    key_separator: str | None,
    properties: Properties,
    producer_name: str | None,
    sequence_id: int | None,
    batch: int | None,
    compression: str | None,
    raw: bool,
    options: WriteOptions,
) -> None:
    """Publish Pulsar messages to TOPIC, one per line, or --count generated ones, and wait for the acks.

    The messages have no schema: the publisher must encode and check them.
    """
    given = (key, key_separator, producer_name, sequence_id, batch, compression)
    if raw and (properties or any(each is not None for each in given)):
        raise click.UsageError("--raw publishes raw entries: omit the options of messages")
    if key is not None and key_separator is not None:
        raise click.UsageError("--key and --key-separator cannot go together")
    if key_separator == "" or (key_separator is not None and (whole or count is not None)):
        raise click.UsageError("--key-separator splits lines: give a separator that is not empty, and lines to split")
    name = str(TopicName.parse(topic))
    generated = payloads.generated(count, size) if count is not None else None
    lines = generated or (iter([source.read()]) if whole else arriving_lines(source))
    shape = payloads.MessageShape(key, key_separator, dict(properties), sequence_id or 0)
    encoder = EntryEncoder(
        producer_name or f"mledger-{secrets.token_hex(4)}",
        compression=CompressionType[(compression or "NONE").upper()],
        batch_size=batch,
    )
    what, published = "entries" if raw else "messages", Published([])
    try:
        context.run(_produce(context, name, Publication(lines, count, raw, encoder, shape), options, published))
    except BaseException:
        if published.ranges:
            messages.warning(f"at least {published.messages:,} {what} were published before: {published.bounds}")
        raise
    with messages.made(f"{published.messages:,} {what} were published"):
        _show(context, name, what, published)


def _show(context: CommandContext, name: str, what: str, published: "Published") -> None:
    if context.output.for_programs:
        facts = fields(
            topic=name,
            published=published.messages,
            first=published.first,
            last=published.last,
            entries=published.entries,
        )
        context.output.record(OutputRecord(facts))
        return
    within = f" in {published.entries:,} entries" if published.entries != published.messages else ""
    bounds = f", {published.bounds}" if published.ranges else ""
    context.output.line(f"published {published.messages:,} {what}{within}{bounds}")


@dataclass(slots=True)
class Published:
    """What was published, in order."""

    ranges: list[mledger.AppendedRange]
    messages: int = 0

    @property
    def entries(self) -> int:
        """The number of entries."""
        return sum(each.last_entry - each.first_entry + 1 for each in self.ranges)

    @property
    def first(self) -> str | None:
        """The position of the first entry, None if there is none."""
        return f"{self.ranges[0].ledger_id}:{self.ranges[0].first_entry}" if self.ranges else None

    @property
    def last(self) -> str | None:
        """The position of the last entry, None if there is none."""
        return f"{self.ranges[-1].ledger_id}:{self.ranges[-1].last_entry}" if self.ranges else None

    @property
    def bounds(self) -> str:
        """Both, of what is not empty."""
        return f"{self.first} to {self.last}"


async def _produce(
    context: CommandContext, name: str, publication: Publication, options: WriteOptions, done: Published
) -> None:
    """Publish all of it; `done` tells what was acknowledged, also if this fails."""
    waiting: deque[tuple[int, asyncio.Future[tuple[mledger.AppendedRange, ...]]]] = deque()
    with context.output.progress("publishing", "messages") as progress:
        task = progress.add_task("", total=publication.total)

        async def settle(most: int) -> None:
            while len(waiting) > most:
                count, appended = waiting.popleft()
                done.ranges.extend(await appended)
                done.messages += count
                progress.advance(task, count)

        async with opened_topic(context.url, name, options) as topic:
            async for batch in Arrivals(await publication.entries_for(topic)).batches():
                waiting.append((sum(each.messages for each in batch), topic.append([each.payload for each in batch])))
                await settle(WINDOW_BATCHES)
            await settle(0)
            index = publication.encoder.next_index
            if index is not None and INDEX_PROPERTY in topic.properties:
                await topic.set_properties({**topic.properties, INDEX_PROPERTY: str(index - 1)})
