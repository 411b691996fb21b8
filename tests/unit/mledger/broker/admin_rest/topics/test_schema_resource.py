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
        ({"type": "STRING", "schema": "", "properties": {"a": 1}}, 400),
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


def test_both_schemas_of_a_key_value_are_shown():
    data = len(RECORD).to_bytes(4, "big") + RECORD.encode() + (0).to_bytes(4, "big")
    shown = schema_answer(SchemaVersion(0, TopicSchema(SchemaType.KEY_VALUE, data)))
    assert json.loads(shown["data"]) == {"key": json.loads(RECORD), "value": ""}


def test_a_key_value_is_stored_as_clients_store_it_and_shown_as_it_was_given():
    given = json.dumps({"key": json.loads(RECORD), "value": ""}, separators=(",", ":"))
    types = {"key.schema.type": "JSON", "value.schema.type": "STRING"}
    schema = plan_schema({"type": "KEY_VALUE", "schema": given, "properties": types})
    assert schema.data == len(RECORD).to_bytes(4, "big") + RECORD.encode() + (0).to_bytes(4, "big")
    assert schema_answer(SchemaVersion(0, schema))["data"] == given
