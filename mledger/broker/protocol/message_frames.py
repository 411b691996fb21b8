"""MESSAGE frames: entries on their way to a consumer."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mledger.broker.protocol.varints import varint
from mledger.broker.protocol.versions import ClientFeatures
from mledger.messages.pulsar_message import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC

NO_EPOCH = -1
_NO_SETS: Mapping[int, Sequence[int]] = MappingProxyType({})
_JOINED = 4096  # copying an entry of so many bytes costs less than another buffer to write


class MessageFrames:
    """Encodes what one consumer is sent, in the form that its client takes.

    `partition` is that of the topic, -1 for none. Without `broker_metadata` the broker's metadata is taken off the
    entries, without `checksums` their checksums are.
    """

    __slots__ = ("_broker_metadata", "_checksums", "_consumer", "_partition")

    def __init__(
        self, consumer_id: int, *, partition: int = -1, broker_metadata: bool = False, checksums: bool = True
    ) -> None:
        self._consumer = b"\x08" + varint(consumer_id) + b"\x12"
        self._partition = b"" if partition < 0 else b"\x18" + varint(partition)
        self._broker_metadata = broker_metadata
        self._checksums = checksums

    @classmethod
    def to(
        cls, features: ClientFeatures, consumer_id: int, *, partition: int = -1, broker_metadata_exposed: bool = False
    ) -> "MessageFrames":
        """The frames for a client; `broker_metadata_exposed`: exposingBrokerEntryMetadataToClientEnabled."""
        return cls(
            consumer_id,
            partition=partition,
            broker_metadata=features.takes_broker_metadata(broker_metadata_exposed),
            checksums=features.takes_checksums,
        )

    def parts(
        self,
        ledger_id: int,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        redeliveries: Sequence[int] | None = None,
        ack_sets: Mapping[int, Sequence[int]] = _NO_SETS,
        epoch: int = NO_EPOCH,
    ) -> list[bytes]:
        """The frames of these entries, as pieces to write one after the other.

        Args:
            ledger_id: the ledger of all entries.
            entry_ids: their ids.
            entries: as they are stored.
            redeliveries: how often each was delivered before, None for never.
            ack_sets: by entry id, the words of batches that are partly acknowledged.
            epoch: the consumer's, of exclusive and failover subscriptions.
        """
        ledger = b"\x08" + varint(ledger_id) + b"\x10"
        last = b"" if epoch < 0 else b"\x28" + varint(epoch)
        consumer, partition = self._consumer, self._partition
        counts = redeliveries if redeliveries is not None else [0] * len(entries)
        parts: list[bytes] = []
        lengths, size, head, tail = (-1, -1), 0, b"", partition + last
        for entry_id, stored, count in zip(entry_ids, entries, counts, strict=True):
            entry = self._form(stored)
            number = varint(entry_id)
            more = _more(count, ack_sets.get(entry_id)) if count or ack_sets else b""
            if (len(number), len(more)) != lengths:
                lengths = len(number), len(more)
                message_id = varint(len(ledger) + len(number) + len(partition)) + ledger
                body = len(consumer) + len(message_id) + len(number) + len(partition) + len(more) + len(last)
                command = b"\x08\x09\x4a" + varint(body)
                size = len(command) + body
                head = size.to_bytes(4, "big") + command + consumer + message_id
                size += 4
            if more:
                start = (size + len(entry)).to_bytes(4, "big") + head + number + partition + more + last
            else:
                start = (size + len(entry)).to_bytes(4, "big") + head + number + tail
            if len(entry) < _JOINED:
                parts.append(start + entry)
            else:
                parts += start, entry
        return parts

    def _form(self, entry: bytes) -> bytes:
        """An entry as the client takes it."""
        if not self._broker_metadata and entry.startswith(BROKER_METADATA_MAGIC):
            entry = entry[6 + int.from_bytes(entry[2:6], "big") :]
        if not self._checksums:
            at = 6 + int.from_bytes(entry[2:6], "big") if entry.startswith(BROKER_METADATA_MAGIC) else 0
            if entry.startswith(CHECKSUM_MAGIC, at):
                entry = entry[:at] + entry[at + 6 :]
        return entry


def _more(redeliveries: int, ack_set: Sequence[int] | None) -> bytes:
    """The fields that few messages have."""
    more = b"" if not redeliveries else b"\x18" + varint(redeliveries)
    return more if not ack_set else more + b"".join(b"\x20" + varint(word) for word in ack_set)
