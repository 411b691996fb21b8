"""What dispatchers need of entries, read from their metadata at little cost.

Producer name, sequence id and publish time come first in an entry's metadata. What stands behind them repeats itself
from entry to entry: its meaning is remembered, and protobuf reads only what was not seen lately. Checksums were
verified when the entry came, and its digest when it was read; they are not looked at again.
"""

import base64
import binascii
from struct import Struct
from struct import error as struct_error

from google.protobuf.message import DecodeError

from mledger.broker.dispatch.keys.key_hash import key_hash
from mledger.broker.facts import NO_KEY_HASH, EntryFacts, MessageChunk
from mledger.messages.pulsar_message import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC
from mledger.pb.PulsarApi_pb2 import MessageMetadata

_SIZE = Struct(">I").unpack_from
_EIGHT = Struct("<Q").unpack_from
_REMEMBERED = 4096
_LONGEST_REMEMBERED = 512
# 8 bytes from the tag of the publish time on: the tag, and 6 bytes of a time from 2004 to 2109, of which all but the
# last have their upper bits.
_TIME = 0x00008080_80808018
_TIME_MASK = 0x00808080_808080FF
_AFTER_TIME = 7


class _Tail:
    """The meaning of what stands behind the publish time; `facts` are those of the last entry that ended so."""

    __slots__ = ("facts", "hashed", "received")

    def __init__(self, metadata: MessageMetadata, key: bytes | None, size: int) -> None:
        hashed = NO_KEY_HASH if key is None else key_hash(key)
        messages, due = max(metadata.num_messages_in_batch, 1), max(metadata.deliver_at_time, 0)
        self.facts = EntryFacts(messages, size, hashed, due, chunk_of(metadata))
        self.received = not metadata.HasField("marker_type")  # by consumers
        self.hashed = key is not None


class EntryFactsReader:
    """Reads facts of entries; the hashes of their keys only `with_keys`, as those cost most."""

    __slots__ = ("_tails", "_with_keys")

    def __init__(self, *, with_keys: bool) -> None:
        self._with_keys = with_keys
        self._tails: dict[bytes, _Tail] = {}

    def __call__(self, entry: bytes) -> EntryFacts | None:
        """The facts of `entry`; None if no consumer receives it: it is a marker, or its metadata is damaged."""
        try:
            at = 6 + _SIZE(entry, 2)[0] if entry[1] == 2 and entry[0] == 0x0E else 0
            if entry[at + 1] == 1 and entry[at] == 0x0E:
                at += 6
            start = at + 4
            end = start + _SIZE(entry, at)[0]
            tail_at = _tail_at(entry, start)
        except (IndexError, struct_error):
            return self._read(entry, 0, 0)
        if not 0 < tail_at <= end <= len(entry):
            return self._read(entry, 0, 0)
        tail = self._tails.get(entry[tail_at:end])
        if tail is None:
            return self._read(entry, tail_at, end)
        facts = tail.facts
        if facts.size != len(entry):
            messages, _, hashed, due, chunk = facts
            facts = tail.facts = EntryFacts(messages, len(entry), hashed, due, chunk)
        if self._with_keys and not tail.hashed:
            hashed = key_hash(sticky_key(MessageMetadata.FromString(entry[start:end])))
            facts = EntryFacts(facts.messages, facts.size, hashed, facts.deliver_at_ms, facts.chunk)
        return facts if tail.received else None

    def _read(self, entry: bytes, tail_at: int, end: int) -> EntryFacts | None:
        """The facts by protobuf, to be remembered if `tail_at` is not 0."""
        metadata = metadata_of(entry)
        if metadata is None:
            return None
        tail = _Tail(metadata, _own_key(metadata) if self._with_keys else None, len(entry))
        if tail_at and end - tail_at <= _LONGEST_REMEMBERED:
            if len(self._tails) >= _REMEMBERED:
                self._tails.clear()
            self._tails[entry[tail_at:end]] = tail
        if not tail.received:
            return None
        if not self._with_keys or tail.hashed:
            return tail.facts
        return tail.facts._replace(key_hash=key_hash(sticky_key(metadata)))


read_facts = EntryFactsReader(with_keys=False)
"""What it remembers is bounded and serves all topics of the process."""
read_facts_with_keys = EntryFactsReader(with_keys=True)


def metadata_of(entry: bytes) -> MessageMetadata | None:
    """The producer's metadata of an entry as it is stored, None if it is damaged."""
    place = _metadata_place(entry)
    return None if place is None else _parsed(entry[place[0] : place[1]])


def sticky_key(metadata: MessageMetadata) -> bytes:
    """The key by which Key_Shared orders: the ordering key, else the key, else the producer's name and sequence id."""
    key = _own_key(metadata)
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode() if key is None else key


def chunk_of(metadata: MessageMetadata) -> MessageChunk | None:
    """Which chunk of a message this is; None if it is none, or does not say it in full."""
    if not (metadata.HasField("uuid") and metadata.HasField("chunk_id") and metadata.HasField("num_chunks_from_msg")):
        return None
    uuid: str | bytes = metadata.uuid  # bytes if they are not UTF-8
    name = uuid if isinstance(uuid, str) else uuid.decode("latin-1")
    return MessageChunk(name, metadata.chunk_id, is_last_chunk(metadata))


def is_last_chunk(metadata: MessageMetadata) -> bool:
    """Whether the entry completes its message: it is no chunk, or the last one."""
    if not metadata.HasField("chunk_id"):
        return True
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def _own_key(metadata: MessageMetadata) -> bytes | None:
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return None
    key: str | bytes = metadata.partition_key  # bytes if they are not UTF-8
    if isinstance(key, bytes):
        return key
    if not metadata.partition_key_b64_encoded:
        return key.encode()
    try:
        return base64.b64decode(key + "=" * (-len(key) % 4), validate=True)
    except (binascii.Error, ValueError):
        return key.encode()


def _parsed(raw: bytes) -> MessageMetadata | None:
    try:
        metadata = MessageMetadata.FromString(raw)
    except DecodeError:
        return None
    return metadata if metadata.IsInitialized() else None


def _metadata_place(entry: bytes) -> tuple[int, int] | None:
    """Where the producer's metadata begins and ends; None if the entry is too short for it."""
    at = 0
    if entry.startswith(BROKER_METADATA_MAGIC) and len(entry) >= 6:
        at = 6 + int(_SIZE(entry, 2)[0])
    if entry.startswith(CHECKSUM_MAGIC, at):
        at += 6
    if at + 4 > len(entry):
        return None
    end = at + 4 + int(_SIZE(entry, at)[0])
    return (at + 4, end) if end <= len(entry) else None


def _tail_at(entry: bytes, start: int) -> int:
    """Where the publish time ends, if 0a producer name, 10 sequence id, 18 publish time come first; else 0.

    Raises IndexError or struct.error if the entry ends before that.
    """
    name = entry[start + 1]
    at = start + 2 + name
    if entry[start] != 0x0A or name > 0x7F or entry[at] != 0x10:
        return 0
    last = at + 9
    at += 1
    while entry[at] > 0x7F:
        if at == last:
            return 0
        at += 1
    at += 1
    return at + _AFTER_TIME if _EIGHT(entry, at)[0] & _TIME_MASK == _TIME else 0
