"""Which Avro schema reads which: what Avro's own validator in Java says (tests/golden/schemas), and why not."""

import json

import pytest

from mledger.broker.schemas.avro_resolution import unreadable
from mledger.broker.schemas.avro_schema import parse_avro
from tests.support.recordings import golden

CASES = golden.load("schemas/avro-reads.json")["cases"]


def schema(text):
    return parse_avro(json.dumps(text).encode())


def record(*fields, name="R"):
    return schema({"type": "record", "name": name, "fields": list(fields)})


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_what_java_reads_is_readable(case):
    assert (unreadable(schema(case["writer"]), schema(case["reader"])) == "") is case["reads"]


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        ("string", "int", "the schema is string, which cannot be read as int"),
        ("int", ["null", "string"], "the schema is int, which no branch of the reader's union is"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2}},
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 3}},
            "[] has 2 bytes, and 3 for the reader",
        ),
    ],
)
def test_the_reason_names_the_place(writer, reader, why):
    assert unreadable(schema(writer), schema(reader)) == why


def test_a_missing_field_is_named_with_its_path():
    inner = {"type": "record", "name": "I", "fields": [{"name": "a", "type": "int"}]}
    more = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "int"}]}
    why = unreadable(record({"name": "x", "type": inner}), record({"name": "x", "type": more}))
    assert why == "field x.b is not written, and has no default"


def test_records_that_branch_again_and_again_are_compared_once_each():
    def nested(depth, tag):
        text = "int"
        for level in range(depth):
            one = {"type": "record", "name": f"{tag}{level}", "fields": [{"name": "a", "type": text}]}
            text = ["null", one]
        return schema(text)

    assert unreadable(nested(30, "W"), nested(30, "R")) == ""


def test_a_chain_of_records_that_is_too_long_is_not_readable():
    def chain(tag):
        fields = [{"name": "f0", "type": {"type": "record", "name": f"{tag}0", "fields": []}}]
        for number in range(1, 2000):
            inner = [{"name": "a", "type": f"{tag}{number - 1}"}]
            fields.append({"name": f"f{number}", "type": {"type": "record", "name": f"{tag}{number}", "fields": inner}})
        return schema({"type": "record", "name": tag, "fields": fields})

    writer, reader = chain("W"), chain("R")
    reader.fields.reverse()  # the last one first, which leads through all the others
    assert unreadable(writer, reader) == "the schema is nested too deep"


def test_unions_of_too_many_records_are_not_compared_one_by_one():
    """Each of ten thousand records of the one with each of the other's would take an hour, and all memory."""
    found = [
        schema([{"type": "record", "name": f"{each}{number}", "fields": []} for number in range(2_000)])
        for each in ("Old", "New")
    ]
    assert unreadable(*found) == "the schemas take more than 100000 comparisons"
