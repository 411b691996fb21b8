"""A schema by which a value takes any depth, or any number of parts, is refused before a value is read."""

import json

import pytest

from mledger.admin.policies.policy_events import PolicyTable, decode_schema, parse_avro
from mledger.admin.policies.pulsar_event import PULSAR_EVENT
from mledger.messages.pulsar_message import PulsarMessage, decode_entry, encode_entry
from mledger.metastore.errors import RecordError
from tests.support.recordings.policies import SCHEMA


def record(name, *types):
    """A record with a field for each type."""
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": t} for n, t in enumerate(types)]}


def chain(count, of):
    """A record whose fields are records, each of which holds the one before."""
    first = record("r0", of)
    return record("all", first, *(record(f"r{n}", *[f"r{n - 1}"] * 2) for n in range(1, count)))


def test_schemas_of_pulsars_brokers_are_read():
    decode_schema(SCHEMA, "recorded")
    parse_avro(PULSAR_EVENT, "ours")


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record("n", ["null", "n"]), "n holds itself"),
        (record("n", {"type": "array", "items": record("m", {"type": "map", "values": "n"})}), "n holds itself"),
        (chain(100, "int"), "deeper than 64"),
        (chain(40, "null"), "more than 10000 parts"),
        ({"type": "array", "items": "null"}, "no bytes"),
        ({"type": "array", "items": record("n", "null", {"type": "fixed", "name": "x", "size": 0})}, "no bytes"),
        (record("n", [{"type": "array", "items": record("m")}]), "no bytes"),
    ],
)
def test_a_schema_without_limits_is_refused(schema, why):
    with pytest.raises(RecordError, match=why):
        parse_avro(json.dumps(schema), "here")


def test_a_schema_that_is_nested_in_its_text_is_refused():
    schema = "int"
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(RecordError, match="nested deeper than 64"):
        parse_avro(json.dumps(schema), "here")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "null",
        "[" * 100_000,
        '{"type": "record"}',
        '{"type": "record", "name": "a", "fields": 5}',
        '{"type": "record", "name": 5, "fields": []}',
        '{"type": ["x"]}',
        '{"type": "enum", "name": "a", "symbols": 5}',
    ],
)
def test_a_text_that_is_no_schema_is_an_error_of_its_record(text):
    with pytest.raises(RecordError, match="here: the schema is not an Avro schema"):
        parse_avro(text, "here")


def test_a_value_that_its_logical_type_cannot_hold_is_an_error_of_its_record():
    schema = parse_avro('{"type": "long", "logicalType": "timestamp-millis"}', "here")
    entry = decode_entry(
        encode_entry([PulsarMessage(b"\xfe" + b"\xff" * 8 + b"\x01")], producer_name="p", publish_time=1)
    )
    with pytest.raises(RecordError, match="cannot be read"):
        PolicyTable().apply(entry, schema, "here")
