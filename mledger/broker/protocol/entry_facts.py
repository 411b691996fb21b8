"""What dispatchers need of entries, read from their metadata at little cost.

Producer name, sequence id and publish time come first in an entry's metadata. What stands behind them repeats itself
from entry to entry: its meaning is remembered, and protobuf reads only what was not seen lately. Checksums were
verified when the entry came, and its digest when it was read; they are not looked at again.
"""

import base64
import binascii
from struct import Struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from mledger.broker.dispatch.key_hash import key_hash
from mledger.broker.facts import NO_KEY_HASH, EntryFacts
from mledger.messages.pulsar_message import BROKER_METADATA_MAGIC, CHECKSUM_MAGIC
from mledger.pb.PulsarApi_pb2 import MessageMetadata

_SIZE = Struct(">I").unpack_from
_REMEMBERED = 4096
_LONGEST_REMEMBERED = 512
# A publish time from 2004 to 2109 has 6 bytes: the first 5 have their upper bits, the last one has not.
_TIME_BYTES = 6
_UPPER_BITS = 0x808080808080
_UPPER_BITS_OF_TIME = 0x008080808080


class _Tail(NamedTuple):
    """The meaning of what stands behind the publish time."""

    messages: int
    key_hash: int  # NO_KEY_HASH: the entry has no key
    deliver_at_ms: int
    received: bool  # by consumers: it is no marker


class EntryFactsReader:
    """Reads facts of entries; the hashes of their keys only `with_keys`, as those cost most."""

    __slots__ = ("_tails", "_with_keys")

    def __init__(self, *, with_keys: bool) -> None:
        self._with_keys = with_keys
        self._tails: dict[bytes, _Tail] = {}

    def __call__(self, entry: bytes) -> EntryFacts | None:
        """The facts of `entry`; None if no consumer receives it: it is a marker, or its metadata is damaged."""
        place = _metadata_place(entry)
        if place is None:
            return None
        start, end = place
        tail_at = _tail_at(entry, start, end)
        tail = self._tails.get(entry[tail_at:end]) if tail_at else None
        if tail is None:
            metadata = _parsed(entry[start:end])
            if metadata is None:
                return None
            tail = self._meaning(metadata)
            if tail_at:
                self._remember(entry[tail_at:end], tail)
        if not tail.received:
            return None
        hashed = tail.key_hash
        if hashed == NO_KEY_HASH and self._with_keys:
            hashed = key_hash(sticky_key(MessageMetadata.FromString(entry[start:end])))
        return EntryFacts(tail.messages, len(entry), hashed, tail.deliver_at_ms)

    def _meaning(self, metadata: MessageMetadata) -> _Tail:
        key = _own_key(metadata) if self._with_keys else None
        return _Tail(
            max(metadata.num_messages_in_batch, 1),
            NO_KEY_HASH if key is None else key_hash(key),
            max(metadata.deliver_at_time, 0),
            not metadata.HasField("marker_type"),
        )

    def _remember(self, raw: bytes, tail: _Tail) -> None:
        if len(raw) <= _LONGEST_REMEMBERED:
            if len(self._tails) >= _REMEMBERED:
                self._tails.clear()
            self._tails[raw] = tail


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


def _tail_at(entry: bytes, start: int, end: int) -> int:
    """Where the publish time ends, if 0a producer name, 10 sequence id, 18 publish time come first; else 0."""
    if end - start < 2 or entry[start] != 0x0A or entry[start + 1] > 0x7F:
        return 0
    at = start + 2 + entry[start + 1]
    most = end - 2 - _TIME_BYTES  # where the sequence id's last byte is at most
    if at >= most or entry[at] != 0x10:
        return 0
    at += 1
    most = min(most, at + 9)
    while entry[at] > 0x7F:
        if at == most:
            return 0
        at += 1
    after = at + 2 + _TIME_BYTES
    if after > end or entry[at + 1] != 0x18:
        return 0
    time_bytes = int.from_bytes(entry[at + 2 : after], "little")
    return after if time_bytes & _UPPER_BITS == _UPPER_BITS_OF_TIME else 0
