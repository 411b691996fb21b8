"""Avro schemas: what is one, which defaults fit, and which are the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.broker.schemas.avro_schema import InvalidAvroSchema, check_defaults, parse_avro, same_avro


def data(text):
    return json.dumps(text).encode()


def record(*fields, **more):
    return {"type": "record", "name": "R", "fields": list(fields), **more}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("unknown", "names 'unknown' before it defines it"),
        (7, "7 is no Avro schema"),
        ({"type": "record", "name": "R"}, "R of the Avro schema has no fields"),
        ({"type": "record", "fields": []}, "a record of the Avro schema has no name"),
        ({"type": "array"}, "an array of the Avro schema has no items"),
        ({"type": "enum", "name": "E", "symbols": [1]}, "is no list of names"),
        ({"type": "fixed", "name": "F", "size": "2"}, "has size '2'"),
        (["int", "int"], "has a branch twice"),
        (["int", ["string"]], "or a union in it"),
        (record({"type": "int"}), "has a field without a name"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "has a field twice"),
        (record({"name": "a", "type": record()}), "defines R twice"),
    ],
)
def test_what_is_no_schema_is_refused(text, why):
    with pytest.raises(InvalidAvroSchema) as error:
        parse_avro(data(text))
    assert why in str(error.value)


def test_a_schema_that_is_nested_too_deep_is_refused():
    text = "int"
    for _ in range(300):
        text = {"type": "array", "items": text}
    with pytest.raises(InvalidAvroSchema, match="deeper than 100"):
        parse_avro(data(text))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_schema_or_refused(raw):
    try:
        parse_avro(raw)
    except InvalidAvroSchema:
        return


@pytest.mark.parametrize(
    ("kind", "fitting", "not_fitting"),
    [
        ("null", [None], [0]),
        ("boolean", [True], [1, None]),
        ("int", [1, -(2**31)], [2**31, 1.5, True]),
        ("long", [2**31], [2**63]),
        ("double", [1, 1.5], ["1"]),
        ("bytes", ["x"], [1]),
        ({"type": "array", "items": "int"}, [[], [1]], [["x"], 1]),
        ({"type": "map", "values": "int"}, [{}, {"a": 1}], [{"a": "x"}]),
        (["null", "string"], [None, "x"], [1]),
        ({"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}, [{"a": 1}], [{}, {"a": "x"}]),
    ],
)
def test_a_default_is_a_value_of_its_field(kind, fitting, not_fitting):
    for value in fitting:
        check_defaults(parse_avro(data(record({"name": "f", "type": kind, "default": value}))))
    for value in not_fitting:
        with pytest.raises(InvalidAvroSchema, match=r"of field R\.f does not fit it"):
            check_defaults(parse_avro(data(record({"name": "f", "type": kind, "default": value}))))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (record(), record(doc="about it", aliases=["S"]), True),
        ({"type": "record", "name": "a.R", "fields": []}, record(namespace="a"), True),
        ("int", {"type": "int"}, True),
        (record({"name": "a", "type": "int"}), record({"name": "a", "type": "int", "doc": "d"}), True),
        (record({"name": "a", "type": "int"}), record({"name": "a", "type": "int", "default": 0}), False),
        (record({"name": "a", "type": "int"}), record({"name": "a", "type": "long"}), False),
        ("int", {"type": "int", "logicalType": "date"}, False),
    ],
)
def test_documentation_and_the_way_of_writing_names_do_not_matter(one, other, same):
    assert same_avro(data(one), data(other)) is same


def test_what_is_no_json_is_the_same_only_byte_by_byte():
    assert same_avro(b"{", b"{")
    assert not same_avro(b"{", b"{}")


def test_a_default_within_unions_within_unions_takes_no_longer_than_its_parts():
    """With 25 levels each of the two branches of each union took minutes together."""
    inner = {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["A", "B"]}]}
    outer = {"type": "record", "name": "A", "fields": [{"name": "x", "type": ["A", inner]}]}
    default = 5
    for _ in range(200):
        default = {"x": default}
    fields = {"name": "a", "type": outer}, {"name": "f", "type": ["A", "B"], "default": default}
    with pytest.raises(InvalidAvroSchema, match=r"of field R\.f does not fit it"):
        check_defaults(parse_avro(data(record(*fields))))


def test_defaults_that_take_too_many_comparisons_are_refused():
    field = {
        "name": "f",
        "type": {"type": "array", "items": "string"},
        "default": [str(each) for each in range(200_000)],
    }
    with pytest.raises(InvalidAvroSchema, match="more than 100000 comparisons"):
        check_defaults(parse_avro(data(record(field))))
