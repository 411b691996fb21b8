"""Pulsar's entries and messages: the golden entries of a Java broker, and what this program writes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mledger.messages.pulsar_message import PulsarMessage, decode_compacted_entry, decode_entry, encode_entry, messages
from mledger.metastore.errors import RecordError
from mledger.metastore.records.compression import CompressionType
from mledger.pb.PulsarApi_pb2 import BrokerEntryMetadata, MessageIdData, MessageMetadata
from tests.support.recordings.golden import ROOT

ENTRIES = [
    entry
    for path in sorted((ROOT / "pulsar-frames").glob("entries-*.json"))
    for entry in json.loads(path.read_text())["entries"]
]
PLAIN = bytes.fromhex(next(e["hex"] for e in ENTRIES if e["compression"] == "NONE" and not e["brokerEntryMetadata"]))
ids = pytest.mark.parametrize(
    "golden", ENTRIES, ids=lambda e: f"{e['compression']}-{e['numMessagesInBatch']}-{bool(e['brokerEntryMetadata'])}"
)

texts = st.text(max_size=20)
a_message = st.builds(
    PulsarMessage,
    payload=st.binary(max_size=200),
    key=st.none() | texts,
    ordering_key=st.none() | st.binary(max_size=8),
    properties=st.dictionaries(texts, texts, max_size=3),
    sequence_id=st.integers(0, 2**63 - 1),
    event_time=st.integers(0, 2**60),
)


@ids
def test_a_java_broker_s_entry_gives_its_messages_in_every_compression(golden):
    entry = decode_entry(bytes.fromhex(golden["hex"]))
    assert entry.message_count == golden["numMessagesInBatch"]
    assert [message.payload.hex() for message in messages(entry)] == golden["messages_hex"]
    assert CompressionType(entry.metadata.compression).name == golden["compression"]


@ids
def test_the_broker_s_index_and_time_are_read_where_it_added_them(golden):
    entry = decode_entry(bytes.fromhex(golden["hex"]))
    said = golden["brokerEntryMetadata"]
    if said is None:
        assert entry.broker is None
        assert entry.published == entry.metadata.publish_time
    else:
        assert (entry.broker.index, entry.published) == (said["index"], said["brokerTimestamp"])


@ids
def test_an_entry_written_again_has_the_same_messages(golden):
    entry = decode_entry(bytes.fromhex(golden["hex"]))
    found = messages(entry)
    again = decode_entry(
        encode_entry(
            found,
            producer_name=entry.metadata.producer_name,
            publish_time=entry.metadata.publish_time,
            compression=CompressionType(entry.metadata.compression),
            broker=entry.broker,
        )
    )
    assert messages(again) == found
    assert again.broker == entry.broker
    assert again.metadata.producer_name == entry.metadata.producer_name


def test_a_golden_message_has_its_property_sequence_id_key_and_null_value():
    first, second, _ = messages(decode_entry(PLAIN))
    assert first.properties == {"i": "0"}
    assert (first.sequence_id, second.sequence_id) == (200, 201)
    assert second.null_value
    assert not first.null_value


@given(st.lists(a_message, min_size=1, max_size=5), st.booleans(), st.sampled_from(CompressionType))
def test_written_entries_are_read_back(batch, batched, compression):
    data = encode_entry(
        batch, producer_name="p", publish_time=7, compression=compression, batched=batched or len(batch) > 1
    )
    entry = decode_entry(data)
    assert messages(entry) == batch
    assert entry.batched == (batched or len(batch) > 1)
    assert entry.published == 7


def test_a_batch_carries_its_first_and_last_sequence_id_and_its_first_key():
    batch = [PulsarMessage(b"a", key="k", sequence_id=4), PulsarMessage(b"b", sequence_id=5)]
    metadata = decode_entry(encode_entry(batch, producer_name="p", publish_time=1)).metadata
    assert (metadata.sequence_id, metadata.highest_sequence_id, metadata.partition_key) == (4, 5, "k")


def test_a_key_of_bytes_is_sent_as_base64_and_read_back():
    entry = decode_entry(
        encode_entry([PulsarMessage(b"", key="/wA=", key_is_base64=True)], producer_name="p", publish_time=1)
    )
    assert messages(entry)[0].key_bytes == b"\xff\x00"
    assert PulsarMessage(b"", key="k").key_bytes == b"k"
    with pytest.raises(RecordError, match="base64"):
        _ = PulsarMessage(b"", key="!", key_is_base64=True).key_bytes


def test_messages_that_compaction_dropped_from_a_batch_are_reported():
    batch = [PulsarMessage(b"", compacted_out=True), PulsarMessage(b"kept")]
    assert messages(decode_entry(encode_entry(batch, producer_name="p", publish_time=1))) == batch


def test_several_messages_are_never_stored_as_one():
    with pytest.raises(ValueError, match="2 messages"):
        encode_entry([PulsarMessage(b"")] * 2, producer_name="p", publish_time=1, batched=False)
    with pytest.raises(ValueError, match="0 messages"):
        encode_entry([], producer_name="p", publish_time=1)


def test_an_entry_of_a_compacted_ledger_names_its_place_in_the_topic():
    original = MessageIdData(ledgerId=7, entryId=3).SerializeToString()
    data = len(original).to_bytes(4, "big") + original + len(PLAIN).to_bytes(4, "big") + PLAIN
    place, entry = decode_compacted_entry(data)
    assert (place.ledgerId, place.entryId, place.batch_index) == (7, 3, -1)
    assert entry == decode_entry(PLAIN)
    with pytest.raises(RecordError, match="at 7:3"):
        decode_compacted_entry(data[:-1], "7:3")


@pytest.mark.parametrize("cut", [0, 1, 5, 9, 30])
def test_a_truncated_entry_is_refused_by_name(cut):
    with pytest.raises(RecordError, match="at 5:1"):
        decode_entry(PLAIN[:cut], "5:1")


def test_a_flipped_bit_is_found_by_the_checksum():
    with pytest.raises(RecordError, match="checksum"):
        decode_entry(PLAIN[:-1] + bytes([PLAIN[-1] ^ 1]))


def test_a_batch_shorter_than_it_claims_is_refused():
    entry = decode_entry(PLAIN)
    with pytest.raises(RecordError, match="of its batch"):
        messages(structs.replace(entry, payload=entry.payload[:-3]))


def test_a_compressed_payload_that_claims_gigabytes_is_refused():
    entry = decode_entry(
        encode_entry([PulsarMessage(b"a")], producer_name="p", publish_time=1, compression=CompressionType.LZ4)
    )
    entry.metadata.uncompressed_size = 2**32 - 1
    with pytest.raises(RecordError, match="4294967295 bytes"):
        messages(entry)


def test_a_compression_of_a_later_version_is_refused():
    raw = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1).SerializeToString() + b"\x40\x09"
    with pytest.raises(RecordError, match="unknown compression type"):
        messages(decode_entry(len(raw).to_bytes(4, "big") + raw + b"x"))


def test_an_encrypted_payload_is_refused_by_the_key_s_name():
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.encryption_keys.add(key="orders.pub", value=b"x")
    raw = metadata.SerializeToString()
    entry = decode_entry(len(raw).to_bytes(4, "big") + raw + b"secret")
    assert entry.encrypted
    with pytest.raises(RecordError, match=r"encrypted with orders\.pub"):
        messages(entry)


def test_a_broker_s_marker_is_distinguished_from_messages():
    raw = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, marker_type=21).SerializeToString()
    assert decode_entry(len(raw).to_bytes(4, "big") + raw).marker
    assert not decode_entry(PLAIN).marker


def test_an_entry_begins_with_the_broker_s_metadata_if_given():
    broker = BrokerEntryMetadata(broker_timestamp=9, index=41)
    entry = decode_entry(encode_entry([PulsarMessage(b"a")], producer_name="p", publish_time=1, broker=broker))
    assert entry.broker == broker
    assert entry.published == 9
