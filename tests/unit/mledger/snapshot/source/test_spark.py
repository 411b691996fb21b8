"""How Spark's reader treats filters and schemas, without a Spark."""

import pickle

import pytest
from pyspark.sql.datasource import EqualNullSafe, EqualTo, GreaterThan, In, IsNotNull, Not
from pyspark.sql.types import LongType, StringType, StructField, StructType

from mledger.snapshot.source.options import parse_options
from mledger.snapshot.source.spark import FilteringReader, TableReader, check_columns, scope_of
from mledger.snapshot.tables.scope import TopicScope
from mledger.snapshot.zookeeper_files.errors import UnknownColumn, UnknownTable
from pyspark_mledger import DefaultSource

ZK = {"metadata": "zk://127.0.0.1:2181"}


def test_filters_on_names_narrow_what_is_read():
    filters = [
        IsNotNull(("tenant",)),
        EqualTo(("tenant",), "t"),
        In(("namespace",), ("t/a", "t/b")),
        EqualNullSafe(("topic",), "persistent://t/a/x"),
        GreaterThan(("ledgers",), 3),
    ]
    assert scope_of(filters) == TopicScope(
        frozenset(["t"]), frozenset(["t/a", "t/b"]), frozenset(["persistent://t/a/x"])
    )


@pytest.mark.parametrize(
    "each",
    [
        Not(EqualTo(("tenant",), "t")),
        GreaterThan(("tenant",), "t"),
        EqualTo(("properties", "tenant"), "t"),
        EqualTo(("tenant",), None),
        In(("tenant",), ("t", None)),
    ],
)
def test_other_filters_narrow_nothing(each):
    assert scope_of([each]) == TopicScope()


def test_two_filters_on_a_name_leave_what_both_admit():
    assert scope_of([In(("tenant",), ("t", "u")), EqualTo(("tenant",), "u")]).tenants == frozenset(["u"])


def test_filters_are_handed_back_and_narrow_the_options_given():
    reader = FilteringReader(parse_options({**ZK, "tenant": "t"}), "topics", ["topic"])
    filters = [EqualTo(("namespace",), "t/a")]
    assert list(reader.pushFilters(filters)) == filters
    assert reader.read_options.scope == TopicScope(frozenset(["t"]), frozenset(["t/a"]), None)
    assert pickle.loads(pickle.dumps(reader)).read_options == reader.read_options


def test_a_reader_accepts_filters_only_if_spark_asks_for_them():
    source = DefaultSource({**ZK, "path": "topics"})
    reader = source.reader(StructType([StructField("topic", StringType())]))
    assert type(reader) is TableReader
    assert reader.columns == ("topic",)


def test_a_column_must_be_nullable_and_of_its_type():
    assert check_columns("topics", StructType([StructField("size", LongType())])) == ["size"]
    with pytest.raises(UnknownColumn, match="may be null"):
        check_columns("topics", StructType([StructField("size", LongType(), False)]))
    with pytest.raises(UnknownColumn, match="has the type bigint, not string"):
        check_columns("topics", StructType([StructField("size", StringType())]))


def test_a_table_must_be_named():
    with pytest.raises(UnknownTable, match="no table given"):
        DefaultSource(ZK).schema()


def test_a_share_that_spark_invented_has_no_rows():
    from pyspark.sql.datasource import InputPartition

    assert list(TableReader(parse_options(ZK), "topics", ["topic"]).read(InputPartition(None))) == []
