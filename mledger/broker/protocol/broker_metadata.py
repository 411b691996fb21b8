"""The broker's own metadata, put before entries as they are published.

What it has is chosen by the setting brokerEntryMetadataInterceptors, a list of Pulsar's classes: the time of the
broker, and an index that counts a topic's messages from 0 on.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from mledger.broker.protocol.varints import varint
from mledger.broker.settings import ENTRY_METADATA
from mledger.messages.pulsar_message import BROKER_METADATA_MAGIC

TIMESTAMPS, INDEXES = ENTRY_METADATA


class BrokerMetadataFields(Struct, frozen=True):
    """What the broker's metadata of each entry has."""

    timestamps: bool = False
    indexes: bool = False

    def __bool__(self) -> bool:
        return self.timestamps or self.indexes


def fields_of(interceptors: Collection[str]) -> BrokerMetadataFields:
    """What the classes of brokerEntryMetadataInterceptors put there."""
    return BrokerMetadataFields(TIMESTAMPS in interceptors, INDEXES in interceptors)


class BrokerMetadataWriter:
    """Puts the broker's metadata before a topic's entries; `next_index` is the number of its next message."""

    __slots__ = ("_fields", "next_index")

    def __init__(self, fields: BrokerMetadataFields, next_index: int = 0) -> None:
        self._fields = fields
        self.next_index = next_index

    def prefixed(self, entries: Sequence[bytes], messages: Sequence[int], now_ms: int) -> list[bytes]:
        """The entries with metadata before them; `messages` are those of each, `now_ms` the time since 1970.

        An entry's index is its last message's. If the entries are not stored after all, `taken_back` says so.
        """
        timestamp = b"\x08" + varint(now_ms) if self._fields.timestamps else b""
        if not self._fields.indexes:
            prefix = BROKER_METADATA_MAGIC + len(timestamp).to_bytes(4, "big") + timestamp
            return [prefix + entry for entry in entries]
        found, index = [], self.next_index
        for entry, count in zip(entries, messages, strict=True):
            index += count
            metadata = timestamp + b"\x10" + varint(index - 1)
            found.append(BROKER_METADATA_MAGIC + len(metadata).to_bytes(4, "big") + metadata + entry)
        self.next_index = index
        return found

    def taken_back(self, messages: int) -> None:
        """The last so many messages were not stored: their numbers are given to the next ones."""
        self.next_index -= messages
