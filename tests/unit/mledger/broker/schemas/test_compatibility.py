"""Pulsar's compatibility strategies, type by type."""

import json

import pytest

from mledger.broker.schemas.compatibility import (
    CompatibilityStrategy,
    IncompatibleSchema,
    SchemaMissing,
    check_compatible,
    check_consumer,
    check_valid,
    find_version,
)
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema

S = CompatibilityStrategy


def fields(*names, default=()):
    """A record with int fields; those named in `default` have one."""
    texts = [{"name": name, "type": "int"} | ({"default": 0} if name in default else {}) for name in names]
    return {"type": "record", "name": "R", "fields": texts}


def avro(text, kind=SchemaType.AVRO):
    return TopicSchema(kind, json.dumps(text).encode())


A = avro(fields("a"))
AB = avro(fields("a", "b"))
AB_DEFAULT = avro(fields("a", "b", default="b"))
B = avro(fields("b"))


def fits(existing, new, strategy):
    try:
        check_compatible(existing, new, strategy)
    except IncompatibleSchema:
        return False
    return True


@pytest.mark.parametrize(
    ("old", "new", "strategies"),
    [
        (A, AB_DEFAULT, {S.BACKWARD, S.FORWARD, S.FULL}),
        (A, AB, {S.FORWARD}),
        (AB, A, {S.BACKWARD}),
        (A, B, set()),
    ],
)
@pytest.mark.parametrize("strategy", [S.BACKWARD, S.FORWARD, S.FULL])
def test_the_strategy_says_who_must_read_whom(old, new, strategies, strategy):
    assert fits([old], new, strategy) is (strategy in strategies)
    assert fits([old], new, S[f"{strategy.name}_TRANSITIVE"]) is (strategy in strategies)


def test_a_transitive_strategy_asks_all_versions():
    first, second, third = avro(fields("a")), avro(fields()), avro(fields("a"))
    assert fits([first, second], avro(fields("a", default="a")), S.BACKWARD_TRANSITIVE)
    assert fits([AB, A], avro({"type": "record", "name": "R", "fields": []}), S.BACKWARD_TRANSITIVE)
    text = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string", "default": ""}]}
    assert fits([first, second], avro(text), S.BACKWARD)
    assert not fits([first, second], avro(text), S.BACKWARD_TRANSITIVE)
    assert not fits([second], third, S.BACKWARD)


@pytest.mark.parametrize("strategy", list(S))
def test_the_same_bytes_and_what_always_or_never_fits(strategy):
    assert fits([A], B, S.ALWAYS_COMPATIBLE)
    assert not fits([A], AB_DEFAULT, S.ALWAYS_INCOMPATIBLE)
    assert not fits([A], AB_DEFAULT, S.UNDEFINED)
    if not strategy.transitive:
        assert fits([A], A, strategy)


@pytest.mark.parametrize("strategy", [S.FULL, S.ALWAYS_INCOMPATIBLE, S.BACKWARD_TRANSITIVE])
def test_the_type_never_changes_but_where_everything_fits(strategy):
    text, number = TopicSchema(SchemaType.STRING, b""), TopicSchema(SchemaType.INT32, b"")
    assert not fits([text], number, strategy)
    assert fits([text], number, S.ALWAYS_COMPATIBLE)


def test_primitives_of_one_type_fit():
    assert fits([TopicSchema(SchemaType.INT64, b"")], TopicSchema(SchemaType.INT64, b""), S.FULL_TRANSITIVE)


def test_json_schemas_are_compared_in_avro_s_notation():
    old, new = avro(fields("a"), SchemaType.JSON), avro(fields("a", "b"), SchemaType.JSON)
    assert fits([old], new, S.FORWARD)
    assert not fits([old], new, S.BACKWARD)
    with pytest.raises(IncompatibleSchema, match="of type JSON is not in Avro's notation"):
        check_compatible([TopicSchema(SchemaType.JSON, b'{"type": "object"}')], new, S.FULL)


def test_protobuf_native_keeps_its_root_message():
    def native(name):
        return TopicSchema(SchemaType.PROTOBUF_NATIVE, json.dumps({"rootMessageTypeName": name, "x": name}).encode())

    same = TopicSchema(SchemaType.PROTOBUF_NATIVE, json.dumps({"rootMessageTypeName": "a.M", "x": "more"}).encode())
    assert fits([native("a.M")], same, S.FULL)
    with pytest.raises(IncompatibleSchema, match=r"the root message was a\.M, and is a\.N now"):
        check_compatible([native("a.M")], native("a.N"), S.BACKWARD)


def key_value(key, value, key_type="AVRO", value_type="AVRO"):
    data = b"".join(len(part).to_bytes(4, "big") + part for part in (key.data, value.data))
    return TopicSchema(SchemaType.KEY_VALUE, data, {"key.schema.type": key_type, "value.schema.type": value_type})


def test_key_and_value_each_have_to_fit():
    assert fits([key_value(A, A)], key_value(A, AB), S.FORWARD)
    assert not fits([key_value(A, A)], key_value(AB, A), S.BACKWARD)
    with pytest.raises(IncompatibleSchema, match="the value's schema was AVRO, and is STRING now"):
        check_compatible([key_value(A, A)], key_value(A, TopicSchema(SchemaType.STRING, b""), "AVRO", "STRING"), S.FULL)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (TopicSchema(SchemaType.AVRO, b"{"), "of type AVRO is not in Avro's notation"),
        (TopicSchema(SchemaType.PROTOBUF, b'"nothing"'), "of type PROTOBUF is not in Avro's notation"),
        (TopicSchema(SchemaType.INT8, b"x"), "of type INT8 has no data"),
        (TopicSchema(SchemaType.STRING, b"x"), "of type STRING has no data"),
        (key_value(A, TopicSchema(SchemaType.STRING, b"x"), "AVRO", "STRING"), "of type STRING has no data"),
        (TopicSchema(SchemaType.LOCAL_DATE_TIME, b"x"), "of type LOCAL_DATE_TIME has no data"),
        (TopicSchema(SchemaType.PROTOBUF_NATIVE, b"[]"), "does not name its root message"),
        (TopicSchema(SchemaType.KEY_VALUE, b"\0\0\0\7x"), "ends within its key's schema"),
        (TopicSchema(SchemaType.KEY_VALUE, b"\0\0\0\0"), "ends within its value's schema"),
        (TopicSchema(SchemaType.KEY_VALUE, b"\0" * 8, {"key.schema.type": "X"}), "key of type X, which is unknown"),
    ],
)
def test_what_is_no_schema_of_its_type_is_refused(schema, why):
    with pytest.raises(IncompatibleSchema, match=why):
        check_valid(schema)


def test_valid_schemas_pass():
    for schema in (
        A,
        TopicSchema(SchemaType.STRING, b""),
        TopicSchema(SchemaType.STRING, b"null"),
        TopicSchema(SchemaType.INT8, b""),
        TopicSchema(SchemaType.KEY_VALUE, b"\0" * 8),
        key_value(A, A),
    ):
        check_valid(schema)


@pytest.mark.parametrize(
    ("strategy", "old", "schema", "reads"),
    [
        (S.FORWARD, A, AB, False),  # the latest version is asked, backward
        (S.FULL, AB, A, True),
        (S.FORWARD_TRANSITIVE, AB, A, True),
        (S.BACKWARD_TRANSITIVE, AB, A, True),
        (S.FULL_TRANSITIVE, AB, A, False),
        (S.ALWAYS_COMPATIBLE, A, B, True),
        (S.ALWAYS_INCOMPATIBLE, A, AB_DEFAULT, False),
    ],
)
def test_a_consumer_reads_what_the_topic_has(strategy, old, schema, reads):
    try:
        check_consumer([old], schema, strategy)
    except IncompatibleSchema:
        assert not reads
    else:
        assert reads


def test_a_consumer_of_a_topic_without_schema_is_told_so():
    with pytest.raises(SchemaMissing):
        check_consumer([], A, S.FULL)


def test_a_schema_is_found_by_meaning():
    versions = [SchemaVersion(0, A), SchemaVersion(1, AB)]
    spaced = TopicSchema(SchemaType.AVRO, json.dumps(fields("a", "b"), indent=1).encode())
    assert find_version(versions, spaced) == versions[1]
    assert find_version(versions, B) is None
    assert find_version(versions, TopicSchema(SchemaType.JSON, A.data)) is None
