"""Partitioned topics: names as Pulsar reads them, and the node's JSON as Pulsar 4.2.4 writes it."""

import pytest

from mledger.metastore.errors import RecordError
from mledger.metastore.records.partitioned_topic import (
    PartitionedTopic,
    decode_partitioned_topic,
    encode_partitioned_topic,
)
from mledger.metastore.records.paths import TopicName

RECORDS = [
    (b'{"partitions":4,"deleted":false}', PartitionedTopic(4)),
    (b'{"partitions":4,"deleted":false,"properties":{}}', PartitionedTopic(4, properties=())),
    (
        '{"partitions":4,"deleted":true,"properties":{"a":"b\u00e9\\"x","c":"d"}}'.encode(),
        PartitionedTopic(4, True, (("a", 'b\u00e9"x'), ("c", "d"))),
    ),
]


@pytest.mark.parametrize(("data", "record"), RECORDS)
def test_a_record_is_written_as_pulsar_writes_it_and_read_back(data, record) -> None:
    assert encode_partitioned_topic(record) == data
    assert decode_partitioned_topic(data) == record


def test_missing_fields_have_pulsar_s_defaults() -> None:
    assert decode_partitioned_topic(b'{"partitions":3}') == PartitionedTopic(3)
    assert decode_partitioned_topic(b"{}") == PartitionedTopic(0)


def test_fields_of_other_versions_are_written_back() -> None:
    data = b'{"partitions":3,"deleted":false,"later":{"x":[1]}}'
    assert decode_partitioned_topic(encode_partitioned_topic(decode_partitioned_topic(data))) == (
        decode_partitioned_topic(data)
    )
    assert b"later" in encode_partitioned_topic(decode_partitioned_topic(data))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"4", b"{", b'{"partitions":"4"}', b'{"partitions":-1}', b'{"properties":{"a":1}}', b"\xff"]
)
def test_an_invalid_record_is_refused_with_its_path(data) -> None:
    with pytest.raises(RecordError, match="/admin/there"):
        decode_partitioned_topic(data, "/admin/there")


@pytest.mark.parametrize("number", [2**31 - 1, 2**63])
def test_a_number_of_partitions_that_nobody_could_look_at_is_refused(number) -> None:
    """`topics describe` took 12 GB of memory, and a broker would for each topic beside such a `__change_events`."""
    with pytest.raises(RecordError, match=f"it says {number:,} partitions"):
        decode_partitioned_topic(b'{"partitions":%d}' % number, "/admin/there")


@pytest.mark.parametrize(
    ("name", "index", "partitioned"),
    [
        ("x-partition-0", 0, "x"),
        ("x-partition-01", None, "x-partition-01"),
        ("x-partition--1", None, "x-partition--1"),
        ("x-partition-5-partition-7", 7, "x-partition-5"),
        ("x-partition-2147483648", None, "x-partition-2147483648"),
        ("x-partition-", None, "x-partition-"),
        ("x-partition-+4", None, "x-partition-+4"),
        ("a b~-partition-2", 2, "a b~"),
        ("x", None, "x"),
    ],
)
def test_the_partition_in_a_name_is_read_as_pulsar_reads_it(name, index, partitioned) -> None:
    topic = TopicName("t", "n", name)
    assert topic.partition_index == index
    assert topic.partitioned == TopicName("t", "n", partitioned)


def test_a_partition_is_a_topic_and_the_partitioned_topics_node_is_beside_pulsars_policies() -> None:
    topic = TopicName("t", "n", "a b~")
    assert str(topic.partition(3)) == "persistent://t/n/a b~-partition-3"
    assert topic.partition(3).managed_ledger_name == "t/n/persistent/a+b%7E-partition-3"
    assert topic.partitioned_topic_path == "/admin/partitioned-topics/t/n/persistent/a+b%7E"
    assert TopicName("t", "n", "x", cluster="c").partitioned_topic_path.endswith("/t/c/n/persistent/x")
