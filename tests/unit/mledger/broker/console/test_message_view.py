"""Entries of the admin API become messages that are safe to look at."""

import json
import tracemalloc

import pytest

from mledger.broker.admin_rest.topics.message_answer import plan_message
from mledger.broker.console.message_view import (
    SHOWN_CHARACTERS,
    SHOWN_MESSAGES,
    plan_entry,
    plan_payload,
    schema_version,
)
from mledger.messages.pulsar_message import MOST_MESSAGES, PulsarMessage, assemble_entry, encode_entry
from mledger.metastore.records.compression import CompressionType
from mledger.metastore.records.position import Position
from mledger.pb.PulsarApi_pb2 import MessageMetadata

AVRO = {"type": "AVRO", "data": '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'}


def entry(*messages, schema=None, **fields):
    data = encode_entry(messages, producer_name="p", publish_time=5, **fields)
    return plan_entry(plan_message(Position(1, 2), data), schema)


def test_a_message_is_shown_with_its_key_and_properties():
    found = entry(PulsarMessage(b"\x06", key="k", properties={"a": "b"}), schema=AVRO)
    assert (found.position, found.producer, found.published) == ("1:2", "p", "1970-01-01T00:00:00.005Z")
    (message,) = found.shown
    assert (message.key, message.properties) == ("k", (("a", "b"),))
    assert (json.loads(message.payload.text), message.payload.form) == ({"a": 3}, "Avro")


def test_a_batch_is_taken_apart():
    messages = [PulsarMessage(b"%d" % number, key=f"k{number}") for number in range(SHOWN_MESSAGES + 3)]
    found = entry(*messages, compression=CompressionType.LZ4)
    assert [each.payload.text for each in found.shown[:2]] == ["0", "1"]
    assert (len(found.shown), found.left_out, found.shown[1].key) == (SHOWN_MESSAGES, 3, "k1")


def test_a_batch_that_says_too_many_messages_is_not_taken_apart():
    metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    metadata.num_messages_in_batch = MOST_MESSAGES + 1
    answer = plan_message(Position(1, 2), assemble_entry(metadata, b"\x00\x00\x00\x02\x18\x00" * (MOST_MESSAGES + 1)))
    found = plan_entry(answer, None)
    assert (len(found.shown), found.left_out) == (1, 0)
    assert "not taken apart" in dict(found.details)["note"]


def test_bytes_that_are_no_value_of_their_schema_are_dumped():
    found = plan_payload(b"\xff\x00<b>", AVRO)
    assert (found.form, found.text.split("  ")[1].strip()) == ("bytes", "ff 00 3c 62 3e")
    assert found.note.startswith("not read as AVRO")
    deep = plan_payload(b"[" * 200_000, {"type": "JSON", "data": ""})
    assert (deep.form, deep.note.startswith("not read as JSON")) == ("text", True)


def test_payloads_are_read_by_simple_schemas():
    for kind, data, text in (
        ("STRING", "\u96ea".encode(), "\u96ea"),
        ("INT32", b"\xff\xff\xff\xfe", "-2"),
        ("BOOLEAN", b"\x01", "true"),
        ("DOUBLE", b"\x3f\xf8" + b"\x00" * 6, "1.5"),
    ):
        assert plan_payload(data, {"type": kind, "data": ""}).text == text
    assert plan_payload(b"\x01", {"type": "INT32", "data": ""}).form == "bytes"
    assert plan_payload(b"\x01", {"type": "PROTOBUF", "data": ""}).note == "the schema is PROTOBUF"


def test_a_large_payload_is_cut():
    found = plan_payload(b"x" * 1_000_000, None)
    assert len(found.text) < SHOWN_CHARACTERS + 100
    assert found.text.endswith("more characters")
    assert "more bytes" in plan_payload(b"\x00" * 1_000_000, None).text


@pytest.mark.parametrize("schema", [None, {"type": "JSON"}])
def test_json_whose_indents_are_larger_than_itself_takes_no_more_room_than_is_shown(schema):
    depth = 900
    payload = b"[" * depth + b",".join([b"0"] * 100_000) + b"]" * depth
    tracemalloc.start()
    try:
        found = plan_payload(payload, schema)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.form == "JSON"
    assert found.text.endswith("… and more")
    assert len(found.text) < SHOWN_CHARACTERS + 20
    assert peak < 8 << 20  # the whole text has 180 MB


def test_an_entry_names_the_version_of_its_schema():
    answer = plan_message(Position(1, 2), encode_entry([PulsarMessage(b"x")], producer_name="p", publish_time=1))
    assert schema_version(answer) is None
    answer.headers["X-Pulsar-Base64-schema-version-b64encoded"] = "AAAAAAAAAAM="
    assert schema_version(answer) == 3
    answer.headers["X-Pulsar-Base64-schema-version-b64encoded"] = "!"
    assert schema_version(answer) is None
