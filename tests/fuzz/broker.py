"""Targets: what a broker's clients send, compared with what protobuf's parser says of it."""

import json

from mledger.broker.dispatch.keys.key_hash import key_hash
from mledger.broker.facts import EntryFacts
from mledger.broker.protocol.entry_facts import EntryFactsReader, chunk_of, metadata_of, sticky_key
from mledger.broker.protocol.receiver import Receiver
from mledger.broker.schemas.avro_resolution import unreadable
from mledger.broker.schemas.avro_schema import InvalidAvroSchema, check_defaults, parse_avro, same_avro
from mledger.broker.schemas.compatibility import CompatibilityStrategy, IncompatibleSchema, check_compatible
from mledger.broker.schemas.topic_schema import SchemaType, TopicSchema
from mledger.pb.PulsarApi_pb2 import MessageMetadata
from tests.fuzz import corpus
from tests.fuzz.targets import Disagreement, FuzzTarget, of_seeds
from tests.support.brokers.broker_requests import ReceiverByProtobuf, outcome

_READER = EntryFactsReader(with_keys=True)  # remembers what came before, as a broker's does
_MOST_MESSAGE = 1 << 16


def receive(data: bytes) -> None:
    """A connection's bytes, whole and in two pieces; the fast forms mean what protobuf says."""
    found = outcome(Receiver(_MOST_MESSAGE), data)
    if found != (expected := outcome(ReceiverByProtobuf(_MOST_MESSAGE), data)):
        raise Disagreement(f"found {found}, protobuf finds {expected}")
    receiver, middle = Receiver(_MOST_MESSAGE), len(data) // 2
    pieces = [outcome(receiver, data[:middle]), outcome(receiver, data[middle:])]
    if any(error for _, error in pieces) is not found[1]:
        raise Disagreement(f"in two pieces {pieces}, whole {found}")


def _framed(command: bytes) -> bytes:
    """A frame of `command` with right sizes, behind a SEND and an ACK that it may join."""
    frame = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
    return _BEFORE + frame + _BEFORE


def _commands() -> list[bytes]:
    return [frame[8 : 8 + int.from_bytes(frame[4:8], "big")] for frame in corpus.pulsar_frames()]


def _named(name: bytes) -> bytes:
    return next(frame for frame in corpus.pulsar_frames() if frame[8:10] == name)


_BEFORE = _named(b"\x08\x06") + _named(b"\x08\x0a")


def facts(entry: bytes) -> None:
    """An entry's facts for dispatch."""
    metadata = metadata_of(entry)
    expected = None
    if metadata is not None and not metadata.HasField("marker_type"):
        messages, due = max(metadata.num_messages_in_batch, 1), max(metadata.deliver_at_time, 0)
        expected = EntryFacts(messages, len(entry), key_hash(sticky_key(metadata)), due, chunk_of(metadata))
    if (found := _READER(entry)) != expected:
        raise Disagreement(f"found {found}, protobuf finds {expected}")


def _entry(metadata: bytes) -> bytes:
    return len(metadata).to_bytes(4, "big") + metadata + b"payload"


def _metadata() -> list[bytes]:
    found = [metadata_of(entry) for entry in corpus.pulsar_entries()]
    now = MessageMetadata(producer_name="p", sequence_id=300, publish_time=1_795_251_070_841, partition_key="k")
    return [each.SerializeToString() for each in (*found, now) if each is not None]


def schemas(data: bytes) -> None:
    """A pair of Avro schemas: read, compared, and compared by a strategy."""
    try:
        texts = json.loads(data)
    except (ValueError, RecursionError):
        texts = None
    if not isinstance(texts, list) or len(texts) != 2:
        check_defaults(parse_avro(data))
        return
    raw = [json.dumps(text).encode() for text in texts]
    writer, reader = map(parse_avro, raw)
    check_defaults(reader)
    unreadable(writer, reader)
    if same_avro(*raw) and unreadable(writer, reader):
        raise Disagreement("a schema cannot read itself")
    old, new = (TopicSchema(SchemaType.AVRO, text) for text in raw)
    check_compatible([old], new, CompatibilityStrategy.FULL)


TARGETS = [
    FuzzTarget("broker's buffers", of_seeds(corpus.pulsar_frames, inner=_commands, wrap=_framed), receive, ()),
    FuzzTarget(
        "facts of entries", of_seeds(corpus.pulsar_entries, inner=_metadata, wrap=_entry, message=True), facts, ()
    ),
    FuzzTarget("avro schemas", of_seeds(corpus.avro_pairs), schemas, (InvalidAvroSchema, IncompatibleSchema), weight=1),
]
