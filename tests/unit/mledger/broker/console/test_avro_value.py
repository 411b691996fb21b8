"""Avro's bytes are read by their schema, as fastavro writes them; hostile ones are refused."""

import contextlib
import io
import json

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.console.avro_value import decode_avro
from mledger.broker.schemas.avro_schema import parse_avro
from mledger.metastore.errors import RecordError

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "what", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "done", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "next", "type": ["null", "Order"]},
    ],
}
ENDLESS = {"type": "array", "items": "null"}


def node(schema):
    return parse_avro(json.dumps(schema).encode())


def written(schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def order(**values):
    return {
        "number": -5,
        "what": "tea",
        "price": 1.5,
        "tags": ["x", "\u96ea"],
        "counts": {"a": 1},
        "kind": "B",
        "done": True,
        "raw": b"\x00\xff",
        "next": None,
        **values,
    }


@given(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(), st.lists(st.text(), max_size=5))
def test_what_was_written_is_read(number, what, tags):
    value = order(number=number, what=what, tags=tags, next=order())
    shown = decode_avro(node(SCHEMA), written(SCHEMA, value))
    assert shown == {**value, "raw": "0x00ff", "next": order(raw="0x00ff")}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_refused(data):
    with contextlib.suppress(RecordError):
        decode_avro(node(SCHEMA), data)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (ENDLESS, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}, b"\x02" * 100_000),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("long", b"\xff" * 20),
        ("int", b"\x02\x02"),
        ("string", b"\x02\xff"),
        ("string", b""),
    ],
)
def test_hostile_bytes_take_no_time_and_no_stack(schema, data):
    with pytest.raises(RecordError):
        decode_avro(node(schema), data)
