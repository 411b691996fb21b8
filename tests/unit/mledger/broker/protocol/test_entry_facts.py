"""Facts of entries: the same as protobuf's parser finds, for Java's entries and for any metadata."""

import base64

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.dispatch.keys.key_hash import key_hash
from mledger.broker.facts import EntryFacts, MessageChunk
from mledger.broker.protocol.entry_facts import EntryFactsReader, metadata_of, read_facts, sticky_key
from mledger.pb.PulsarApi_pb2 import KeyValue, MessageMetadata
from tests.support.recordings import golden

ENTRIES = [one for file in golden.files("pulsar-frames/entries-*.json") for one in golden.load(file)["entries"]]
NOW = 1_795_251_070_841

texts = st.text(max_size=12)
metadata = st.builds(
    MessageMetadata,
    producer_name=st.one_of(texts, st.text(min_size=130, max_size=140)),
    sequence_id=st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1)),
    publish_time=st.one_of(st.integers(NOW - 10**6, NOW + 10**6), st.integers(0, 2**64 - 1)),
    properties=st.lists(st.builds(KeyValue, key=texts, value=texts), max_size=2),
    partition_key=st.one_of(st.none(), texts),
    ordering_key=st.one_of(st.none(), st.binary(max_size=8)),
    num_messages_in_batch=st.one_of(st.none(), st.integers(1, 1000)),
    uncompressed_size=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    deliver_at_time=st.one_of(st.none(), st.integers(-5, 2**50)),
    marker_type=st.one_of(st.none(), st.integers(0, 30)),
)


def entry_of(meta, payload=b"payload", *, checksum=True, broker=b""):
    raw = meta if isinstance(meta, bytes) else meta.SerializeToString()
    body = len(raw).to_bytes(4, "big") + raw + payload
    if checksum:
        body = b"\x0e\x01" + google_crc32c.value(body).to_bytes(4, "big") + body
    return broker + body


def plain(**fields):
    return MessageMetadata(producer_name="standalone-0-4", sequence_id=5, publish_time=NOW, **fields)


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: f"{one['compression']}-{bool(one['brokerEntryMetadata'])}")
def test_java_s_entries_have_their_messages(one):
    entry = bytes.fromhex(one["hex"])
    facts = read_facts(entry)
    assert facts == EntryFacts(max(one["numMessagesInBatch"], 1), len(entry))


@given(st.lists(st.tuples(metadata, st.booleans(), st.sampled_from([b"", b"\x0e\x02\0\0\0\2\x10\7"])), max_size=4))
def test_facts_are_what_protobuf_finds(entries):
    reader = EntryFactsReader(with_keys=True)
    for meta, checksum, broker in entries * 2:  # the second time from memory
        entry = entry_of(meta, checksum=checksum, broker=broker)
        due, messages = max(meta.deliver_at_time, 0), meta.num_messages_in_batch
        expected = EntryFacts(messages, len(entry), key_hash(sticky_key(meta)), due)
        assert reader(entry) == (None if meta.HasField("marker_type") else expected)
        assert metadata_of(entry) == meta


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, b"standalone-0-4-5"),
        ({"partition_key": "k"}, b"k"),
        ({"partition_key": "k", "ordering_key": b"\xff"}, b"\xff"),
        ({"partition_key": "", "ordering_key": b""}, b""),
        ({"partition_key": base64.b64encode(b"\0\1\2\3").decode(), "partition_key_b64_encoded": True}, b"\0\1\2\3"),
        ({"partition_key": "AAECAw", "partition_key_b64_encoded": True}, b"\0\1\2\3"),
        ({"partition_key": "not base64", "partition_key_b64_encoded": True}, b"not base64"),
    ],
)
def test_the_key_of_key_shared_is_pulsar_s(fields, key):
    assert sticky_key(plain(**fields)) == key
    assert EntryFactsReader(with_keys=True)(entry_of(plain(**fields))).key_hash == key_hash(key)


def test_entries_without_a_key_are_told_apart_by_producer_and_sequence_id():
    reader = EntryFactsReader(with_keys=True)
    hashes = {
        reader(entry_of(MessageMetadata(producer_name=name, sequence_id=number, publish_time=NOW))).key_hash
        for name in ("a", "b")
        for number in range(3)
    }
    assert hashes == {key_hash(f"{name}-{number}".encode()) for name in ("a", "b") for number in range(3)}


def test_without_keys_nothing_is_hashed():
    assert EntryFactsReader(with_keys=False)(entry_of(plain(partition_key="k"))).key_hash == 0


def test_a_chunk_is_known_by_its_message_each_time():
    for payload in (b"one", b"another", b"another"):
        for number in range(2):
            entry = entry_of(plain(uuid="u", chunk_id=number, num_chunks_from_msg=2), payload)
            assert read_facts(entry).chunk == MessageChunk("u", number, number == 1)


@pytest.mark.parametrize("missing", ["uuid", "chunk_id", "num_chunks_from_msg"])
def test_an_entry_that_does_not_say_which_chunk_it_is_is_none(missing):
    fields = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2}
    del fields[missing]
    assert read_facts(entry_of(plain(**fields))).chunk is None


@pytest.mark.parametrize("messages", [0, -1])
def test_a_batch_has_at_least_one_message(messages):
    assert read_facts(entry_of(plain(num_messages_in_batch=messages))).messages == 1


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x0e\x01",
        b"\x0e\x02",
        b"\x0e\x02\xff\xff\xff\xff",
        entry_of(b"\xff\xff", checksum=False),
        entry_of(MessageMetadata(producer_name="p").SerializePartialToString()),
        entry_of(plain())[:20],
        b"\xff\xff\xff\xff" + b"x" * 40,
    ],
)
def test_an_entry_with_damaged_metadata_is_for_no_consumer(entry):
    assert read_facts(entry) is None
    assert metadata_of(entry) is None


def test_a_partition_key_that_is_not_utf8_is_taken_as_its_bytes():
    raw = plain(partition_key="ab").SerializeToString().replace(b"ab", b"\xff\xfe")
    assert EntryFactsReader(with_keys=True)(entry_of(raw)).key_hash == key_hash(b"\xff\xfe")


def test_what_is_remembered_is_bounded():
    reader = EntryFactsReader(with_keys=False)
    for number in range(10_000):
        reader(entry_of(plain(partition_key=str(number)), checksum=False))
    assert len(reader._tails) <= 4096


@given(st.binary(max_size=80))
def test_any_bytes_give_facts_or_none(data):
    for entry in (data, entry_of(data, checksum=False)):
        facts = EntryFactsReader(with_keys=True)(entry)
        assert facts is None or facts.size == len(entry)
