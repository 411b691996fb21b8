"""What compaction keeps of a topic: the latest message of each key. No I/O.

- A message without a payload deletes its key and is not kept itself.
- Messages without a key are kept only if the settings say so.
- A batch is compacted inside: what goes leaves its place in the batch, so that message ids stay. A
  batch that cannot be unpacked is kept whole, and so is one that is far larger than any should be.
  One that is encrypted counts as one message, with the key of its entry.
- All chunks of a message are kept or none. So are the chunks of a message whose last one is not
  there yet.
- What no consumer receives is not kept: markers, and entries whose metadata is damaged.
"""

from mledger.messages.pulsar_message import PulsarEntry, batch_parts, decode_entry, is_oversized, rebatched
from mledger.metastore.errors import RecordError
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import MessageMetadata, SingleMessageMetadata

_Identity = tuple[Position, int] | str
"""Of a message: its position and its index in the batch, or what its chunks have in common."""
_NO_BATCH = -1


class LatestMessages:
    """The latest message of each key. First `note` every entry in order, then ask `plan_kept` for each."""

    def __init__(self, *, keep_keyless: bool) -> None:
        self._keep_keyless = keep_keyless
        self._latest: dict[str, _Identity] = {}
        self._unfinished: set[str] = set()  # chunked messages
        self.removed = 0
        """How many messages were not kept of the entries that `plan_kept` was asked for."""

    def note(self, position: Position, data: bytes) -> None:
        """Take in the entry at `position`."""
        entry = _received(data)
        if entry is None:
            return
        metadata = entry.metadata
        if entry.batched and not entry.encrypted:
            for index, (one, _) in enumerate(_parts(entry) or ()):
                if one.HasField("partition_key") and not one.compacted_out:
                    self._note(one.partition_key, (position, index), one.payload_size)
            return
        if _is_chunk(metadata):
            if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
                self._unfinished.add(metadata.uuid)
                return
            self._unfinished.discard(metadata.uuid)
        if metadata.HasField("partition_key"):
            size = metadata.uncompressed_size if metadata.HasField("uncompressed_size") else len(entry.payload)
            self._note(metadata.partition_key, _identity(position, metadata), size)

    def _note(self, key: str, message: _Identity, size: int) -> None:
        if size > 0:
            self._latest[key] = message
        else:
            self._latest.pop(key, None)

    def plan_kept(self, position: Position, data: bytes) -> bytes | None:
        """What is kept of the entry at `position`, None if nothing is."""
        entry = _received(data)
        if entry is None:
            return None
        if entry.batched and not entry.encrypted:
            return self._kept_of_batch(position, data, entry)
        kept = self._kept_whole(position, data, entry.metadata)
        self.removed += kept is None
        return kept

    def _kept_whole(self, position: Position, data: bytes, metadata: MessageMetadata) -> bytes | None:
        if _is_chunk(metadata) and metadata.uuid in self._unfinished:
            return data
        if not metadata.HasField("partition_key"):
            return data if self._keep_keyless else None
        return data if self._latest.get(metadata.partition_key) == _identity(position, metadata) else None

    def _kept_of_batch(self, position: Position, data: bytes, entry: PulsarEntry) -> bytes | None:
        parts = _parts(entry)
        if parts is None:
            return data
        kept: list[bytes | None] = []
        for index, (one, raw) in enumerate(parts):
            keyed = one.HasField("partition_key")
            wanted = self._latest.get(one.partition_key) == (position, index) if keyed else self._keep_keyless
            kept.append(raw if wanted and not one.compacted_out else None)
            self.removed += not wanted and not one.compacted_out
        if None not in kept:
            return data
        return rebatched(entry, kept) if any(kept) else None


def _received(data: bytes) -> PulsarEntry | None:
    """The entry if a consumer receives it."""
    try:
        entry = decode_entry(data)
    except RecordError:
        return None
    return None if entry.marker else entry


def _parts(entry: PulsarEntry) -> list[tuple[SingleMessageMetadata, bytes]] | None:
    """The messages of a batch; None if it is kept whole."""
    try:
        return None if is_oversized(entry) else batch_parts(entry)
    except RecordError:
        return None


def _is_chunk(metadata: MessageMetadata) -> bool:
    return metadata.HasField("uuid") and metadata.num_chunks_from_msg > 1


def _identity(position: Position, metadata: MessageMetadata) -> _Identity:
    return metadata.uuid if _is_chunk(metadata) else (position, _NO_BATCH)
