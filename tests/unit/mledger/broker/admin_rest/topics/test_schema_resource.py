"""Schemas in requests and answers."""

import json

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.admin_rest.topics.schema_resource import plan_schema, schema_answer
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema

RECORD = '{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]}'


def test_a_schema_is_shown_as_it_was_given():
    body = {"type": "JSON", "schema": RECORD, "properties": {"p": "q"}}
    shown = schema_answer(SchemaVersion(3, plan_schema(body), 17))
    assert shown == {"version": 3, "type": "JSON", "timestamp": 17, "data": RECORD, "properties": {"p": "q"}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"type": "JSON", "schema": "nonsense"}, 422),
        ({"type": "NOTYPE", "schema": ""}, 400),
        ({"type": "STRING", "schema": 1}, 400),
        ({"type": "STRING", "schema": "", "properties": {"a": [1]}}, 400),
        ({"type": "STRING", "schema": "a"}, 422),
        ({"type": "AUTO_CONSUME", "schema": ""}, 422),
        ({"type": ["STRING"], "schema": ""}, 400),
        ({"type": "KEY_VALUE", "schema": ""}, 400),
        ({"type": "KEY_VALUE", "schema": "[]"}, 400),
        ({"type": "KEY_VALUE", "schema": '{"key":""}'}, 400),
        ({"type": "KEY_VALUE", "schema": '{"key":"","value":{}}', "properties": {"value.schema.type": "AVRO"}}, 422),
        (None, 400),
    ],
)
def test_what_is_no_schema_is_refused(body, status):
    with pytest.raises(AdminRefusal) as caught:
        plan_schema(body)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("name", "kind"), [("BYTES", SchemaType.NONE), ("NONE", SchemaType.NONE), ("STRING", SchemaType.STRING)]
)
def test_a_type_has_the_names_that_pulsar_has_for_it(name, kind):
    assert plan_schema({"type": name}).type is kind


def test_both_schemas_of_a_key_value_are_shown():
    data = len(RECORD).to_bytes(4, "big") + RECORD.encode() + (0).to_bytes(4, "big")
    shown = schema_answer(SchemaVersion(0, TopicSchema(SchemaType.KEY_VALUE, data)))
    assert json.loads(shown["data"]) == {"key": json.loads(RECORD), "value": ""}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ('{"a": 1.10, "b": [1E5, -0, 1e400, 12345678901234567890, true, null]}', None),
        (r'{"a":"\u00e9 \u2028 \u2029 \/ \" \u0001 \t"}', '{"a":"\u00e9 \\u2028 \\u2029 / \\" \\u0001 \\t"}'),
        ('{"a":1,"b":2,"a":3}', '{"a":3,"b":2}'),
        ('"text"', '"text"'),
        ("{}", "{}"),
    ],
)
def test_the_parts_of_a_key_value_are_stored_as_pulsars_brokers_store_them(given, stored):
    """What Pulsar 4.2.4 stores for these."""
    part = (given.replace(" ", "") if stored is None else stored).encode()
    schema = plan_schema({"type": "KEY_VALUE", "schema": f'{{"value": {given}, "key": ""}}'})
    assert schema.data == (0).to_bytes(4, "big") + len(part).to_bytes(4, "big") + part


@pytest.mark.parametrize("value", ["NaN", "[Infinity]", "[" * 100_000 + "]" * 100_000])
def test_what_json_does_not_have_is_no_key_value(value):
    with pytest.raises(AdminRefusal) as caught:
        plan_schema({"type": "KEY_VALUE", "schema": f'{{"value": {value}, "key": ""}}'})
    assert caught.value.status == 400


def test_what_clients_have_stored_as_a_key_value_is_shown_as_json():
    for part, shown in ((b"1e400", "1e400"), (b"NaN", '"NaN"'), (b"[" * 100_000, json.dumps("[" * 100_000))):
        data = len(part).to_bytes(4, "big") + part + (0).to_bytes(4, "big")
        found = schema_answer(SchemaVersion(0, TopicSchema(SchemaType.KEY_VALUE, data)))["data"]
        assert found == f'{{"key":{shown},"value":""}}'


def test_a_key_value_is_stored_as_clients_store_it_and_shown_as_it_was_given():
    given = json.dumps({"key": json.loads(RECORD), "value": ""}, separators=(",", ":"))
    types = {"key.schema.type": "JSON", "value.schema.type": "STRING"}
    schema = plan_schema({"type": "KEY_VALUE", "schema": given, "properties": types})
    assert schema.data == len(RECORD).to_bytes(4, "big") + RECORD.encode() + (0).to_bytes(4, "big")
    assert schema_answer(SchemaVersion(0, schema))["data"] == given
