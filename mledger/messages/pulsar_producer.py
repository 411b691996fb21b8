"""Encodes Pulsar's messages as entries, as a producer and its broker do; no I/O.

A broker that numbers a topic's messages (with the interceptor AppendIndexMetadataInterceptor) puts
the number into the entry and, at times, into the topic's property `index`. If it did, the numbers
continue.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from mledger.messages.pulsar_message import PulsarEntry, PulsarMessage, encode_entry
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata

BATCH_BYTES = 128 * 1024
"""The maximum payload of a batch, as in Pulsar's clients."""
INDEX_PROPERTY = "index"


class PublishedEntry(NamedTuple):
    """An entry to append, and the number of its messages."""

    payload: bytes
    messages: int


class EntryEncoder(Struct):
    """Encodes messages as entries; `next_index` is the next message's number, None for no numbers."""

    producer_name: str
    next_index: int | None = None
    compression: CompressionType = CompressionType.NONE
    batch_size: int | None = None
    """The maximum number of messages of a batch; None: each message is an entry."""
    now_ms: int | None = field(default=None)
    """The publish time, in ms since 1970; None: the time of encoding."""

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
        now = wall_clock_ms() if self.now_ms is None else self.now_ms
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
    """The number of the next message of a topic with `properties` and the last entry `last`, or None."""
    recorded = dict(properties).get(INDEX_PROPERTY, "")
    found = [int(recorded) + 1] if recorded.removeprefix("-").isdecimal() else []
    if last is not None and last.broker is not None and last.broker.HasField("index"):
        found.append(last.broker.index + 1)
    return max(found, default=None)
