"""Publishes Pulsar's messages as entries, as a producer and its broker would make them; no I/O.

A broker that numbers a topic's messages (its interceptor AppendIndexMetadataInterceptor) puts the number into the
entry and, at times, into the topic's property `index`: where it has done so, it goes on.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mledger.messages.pulsar_message import PulsarEntry, PulsarMessage, encode_entry
from mledger.metastore.records.compression import CompressionType
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata

BATCH_BYTES = 128 * 1024
"""A batch ends before it has more payload than this, as Pulsar's clients have it."""
INDEX_PROPERTY = "index"


class PublishedEntry(NamedTuple):
    """An entry to append, and how many messages it holds."""

    payload: bytes
    messages: int


@dataclass(slots=True)
class EntryEncoder:
    """Makes entries of messages; `next_index` is the number of the next message, None where messages have none."""

    producer_name: str
    next_index: int | None = None
    compression: CompressionType = CompressionType.NONE
    batch_size: int | None = None
    """Messages of a batch at most; None: each message is an entry."""
    now_ms: int | None = field(default=None)
    """When messages are published, ms since 1970; None: when they are encoded."""

    def entries(self, messages: Iterable[PulsarMessage]) -> Iterator[PublishedEntry]:
        """The entries that hold `messages`, in order."""
        for batch in self._batches(messages):
            yield self._entry(batch)

    def _batches(self, messages: Iterable[PulsarMessage]) -> Iterator[list[PulsarMessage]]:
        most = self.batch_size or 1
        batch: list[PulsarMessage] = []
        size = 0
        for message in messages:
            if batch and (len(batch) == most or size + len(message.payload) > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(message)
            size += len(message.payload)
        if batch:
            yield batch

    def _entry(self, batch: Sequence[PulsarMessage]) -> PublishedEntry:
        now = time.time_ns() // 1_000_000 if self.now_ms is None else self.now_ms
        broker = None
        if self.next_index is not None:
            self.next_index += len(batch)
            broker = BrokerEntryMetadata(broker_timestamp=now, index=self.next_index - 1)
        payload = encode_entry(
            batch,
            producer_name=self.producer_name,
            publish_time=now,
            compression=self.compression,
            batched=self.batch_size is not None,
            broker=broker,
        )
        return PublishedEntry(payload, len(batch))


def next_index(properties: Iterable[tuple[str, str]], last: PulsarEntry | None) -> int | None:
    """The number of the next message of a topic with `properties` whose last entry is `last`; None: it has none."""
    recorded = dict(properties).get(INDEX_PROPERTY, "")
    found = [int(recorded) + 1] if recorded.removeprefix("-").isdecimal() else []
    if last is not None and last.broker is not None and last.broker.HasField("index"):
        found.append(last.broker.index + 1)
    return max(found, default=None)
