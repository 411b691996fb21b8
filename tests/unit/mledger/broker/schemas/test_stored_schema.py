"""Pulsar's records of schemas: a schema that a Java broker stored, and what is written comes back."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.schemas.stored_schema import (
    decode_locator,
    decode_stored,
    encode_schema,
    locator_path,
    not_deleted,
    plan_locator,
    schema_id_of,
)
from mledger.broker.schemas.topic_schema import (
    SchemaType,
    SchemaVersion,
    TopicSchema,
    schema_of,
    version_bytes,
    version_number,
    wire_schema,
)
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaEntry, SchemaInfo
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import Schema
from tests.support.recordings import golden

texts = st.text(max_size=8)
stored_types = [kind for kind in SchemaType if kind is not SchemaType.AUTO_CONSUME]
schemas = st.builds(
    TopicSchema,
    type=st.sampled_from(stored_types),
    data=st.binary(max_size=30),
    properties=st.dictionaries(texts, texts, max_size=3),
    deleted=st.booleans(),
)


@given(schemas, st.integers(0, 100))
def test_a_stored_schema_comes_back(schema, number):
    data = encode_schema("t/n/topic", schema, 5, "user", None)
    assert decode_stored(number, data, "entry") == SchemaVersion(number, schema)


def test_types_have_pulsar_s_numbers_in_storage():
    def stored(kind):
        return decode_stored(0, encode_schema("t/n/x", TopicSchema(kind, b""), 0, "", None), "entry").schema.type

    assert [stored(kind) for kind in stored_types] == stored_types


def test_the_locator_names_every_version():
    first = plan_locator(None, Position(7, 0), b"h0")
    second = plan_locator(first, Position(9, 0), b"h1")
    assert [(each.version, each.position.ledgerId, each.hash) for each in second.index] == [
        (0, 7, b"h0"),
        (1, 9, b"h1"),
    ]
    assert second.info == second.index[1]
    assert decode_locator(second.SerializeToString(), "/schemas/x") == second


def test_an_entry_has_the_versions_before_it():
    locator = plan_locator(None, Position(7, 0), b"h0")
    schema = TopicSchema(SchemaType.STRING, b"")
    later = SchemaEntry.FromString(encode_schema("t/n/x", schema, 0, "", locator))
    assert list(later.index) == list(locator.index)
    first = SchemaEntry.FromString(encode_schema("t/n/x", schema, 0, "", None))
    assert [each.position.ledgerId for each in first.index] == [-1]


def test_partitions_share_a_schema_and_names_are_encoded():
    assert schema_id_of(TopicName.parse("persistent://t/n/a b-partition-3")) == "t/n/a+b"
    assert locator_path("t/n/a+b") == "/schemas/t/n/a+b"


def test_versions_before_a_deletion_do_not_count():
    plain, deleted = TopicSchema(SchemaType.STRING, b""), TopicSchema(SchemaType.NONE, b"", deleted=True)
    versions = [SchemaVersion(at, one) for at, one in enumerate([plain, deleted, plain, plain])]
    assert not_deleted(versions) == versions[2:]
    assert not_deleted(versions[:2]) == []
    assert not_deleted(versions[:1]) == versions[:1]


@pytest.mark.parametrize("data", [b"\xff", b"\x12\x01\xff", encode_schema("x", TopicSchema(30, b""), 0, "", None)])
def test_a_damaged_entry_is_an_error_that_names_it(data):
    with pytest.raises(RecordError, match="entry 0 of ledger 7"):
        decode_stored(0, data, "entry 0 of ledger 7")


@given(schemas)
def test_a_schema_goes_over_the_wire(schema):
    found = schema_of(wire_schema(schema, "topic"))
    assert (found.type, found.data, found.properties) == (schema.type, schema.data, schema.properties)


def test_a_consumer_that_takes_any_has_no_schema():
    assert schema_of(Schema(name="", schema_data=b"", type=Schema.AutoConsume)) is None


def test_versions_are_8_bytes_of_which_old_clients_send_more():
    assert version_number(version_bytes(3)) == 3
    assert version_number(version_bytes(3) + b"\0" * 56) == 3
    assert version_number(b"") is None


def test_the_hash_is_sha256_of_the_data():
    assert TopicSchema(SchemaType.STRING, b"abc").hash == hashlib.sha256(b"abc").digest()


def test_records_are_the_bytes_that_a_java_broker_wrote():
    java = golden.load("topic-policies/change-events.json")
    (ledger,) = java["schema_ledgers"]
    entry, locator = bytes.fromhex(ledger["entries_hex"][0]), bytes.fromhex(java["schema_locator_hex"])
    schema = decode_stored(0, entry, "entry").schema
    info = SchemaInfo.FromString(SchemaEntry.FromString(entry).schema_data)
    assert encode_schema(info.schema_id, schema, info.timestamp, info.user, None) == entry
    assert plan_locator(None, Position(ledger["ledgerId"], 0), schema.hash).SerializeToString() == locator
