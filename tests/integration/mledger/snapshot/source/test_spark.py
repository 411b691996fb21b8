"""Spark reads the same tables with `format("mledger")` as a reader without Spark."""

from pathlib import Path
from urllib.parse import quote

import pytest
from pyspark.errors import PySparkException

from mledger.metastore.url import open_store
from mledger.metastore.zookeeper.launcher import ZooKeeperServer
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.aio import run
from tests.support.snapshots import tables, varied_cluster
from tests.support.snapshots.s3 import BUCKET, s3_server
from tests.support.snapshots.spark import spark

__all__ = ["s3_server", "spark"]

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The URL of a cluster, and the options that name its files."""
    directory = tmp_path_factory.mktemp("varied-for-spark")
    with ZooKeeperServer.start(directory, sync=False) as server:
        url = f"{server.url}/pulsar"

        async def main():
            async with await open_store(url, create_chroot=True) as store:
                await tables.create_all(store, varied_cluster.nodes())

        run(main())
        yield url, {"metadata": f"file://{directory}/data", "chroot": "/pulsar"}


def load(spark, table, **options):
    return spark.read.format("mledger").options(**options).load(table)


def rows(frame, table):
    found = [plain(row.asDict(recursive=True)) for row in frame.collect()]
    return sorted(found, key=lambda row: [row[column] for column in tables.KEYS[table] if column in row])


def plain(row):
    """Times without a zone (the session's is UTC), maps as dicts, bytes as bytes."""
    return {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.items()}


def expected(options, table):
    maps = [column.name for column in TABLES[table].columns if column.sql_type.startswith("map")]
    times = [column.name for column in TABLES[table].columns if column.sql_type == "timestamp"]
    found = tables.read(options, table)[table]
    for row in found:
        row |= {name: dict(row[name]) for name in maps if row[name] is not None}
        row |= {name: row[name].astimezone().replace(tzinfo=None) for name in times if row[name] is not None}
    return found


@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_found_without_registration_and_has_all_rows(spark, cluster, table):
    url, _ = cluster
    frame = load(spark, table, metadata=url, partitions="3")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        (column.name, column.sql_type) for column in TABLES[table].columns
    ]
    assert rows(frame, table) == expected({"metadata": url}, table)


@pytest.mark.parametrize("table", ["cursors", "bookies", "errors"])
def test_files_give_the_same(spark, cluster, table):
    url, files = cluster
    assert rows(load(spark, table, **files), table) == expected({"metadata": url}, table)


def test_files_in_a_bucket_are_read_by_the_workers(spark, cluster, s3_server):
    url, files = cluster
    s3_server.put(Path(files["metadata"].removeprefix("file://")), "zookeeper")
    endpoint = quote(s3_server.endpoint.removeprefix("http://"), safe="")
    there = f"s3a://key:secret@{BUCKET}/zookeeper?scheme=http&endpoint_override={endpoint}"
    assert rows(load(spark, "cursors", **files | {"metadata": there}), "cursors") == expected(
        {"metadata": url}, "cursors"
    )


def test_a_given_schema_limits_the_columns(spark, cluster):
    url, _ = cluster
    schema = "cursor string, holes int, properties map<string,bigint>, managed_ledger string"
    frame = spark.read.format("mledger").schema(schema).option("metadata", url).load("cursors")
    found = rows(frame, "cursors")
    assert found == [
        {name: row[name] for name in ("cursor", "holes", "properties", "managed_ledger")}
        for row in expected({"metadata": url}, "cursors")
    ]


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_a_query_with_filters_is_right_whether_or_not_spark_pushes_them_down(spark, cluster, pushdown):
    url, _ = cluster
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        frame = load(spark, "topics", metadata=url).where("namespace = 'golden/names' and ledgers >= 0")
        found = frame.select("topic", "namespace").orderBy("topic").collect()
    finally:
        spark.conf.set(PUSHDOWN, before)
    assert [row.topic for row in found] == [
        row["topic"]
        for row in sorted(expected({"metadata": url}, "topics"), key=lambda row: row["topic"])
        if row["namespace"] == "golden/names"
    ]


def test_options_prune(spark, cluster):
    url, _ = cluster
    found = load(spark, "topics", metadata=url, namespace="golden/parts").select("topic").collect()
    assert sorted(row.topic for row in found) == [
        "persistent://golden/parts/o r-partition-0",
        "persistent://golden/parts/o r-partition-2",
    ]


def test_tables_join(spark, cluster):
    """Ledgers that no topic and no cursor names."""
    url, _ = cluster
    for table in ("ledgers", "topic_ledgers", "cursors"):
        load(spark, table, metadata=url).createOrReplaceTempView(table)
    found = spark.sql(
        "select ledger_id from ledgers left anti join topic_ledgers using (ledger_id)"
        " left anti join cursors on ledgers.ledger_id = cursors.cursor_ledger_id"
    ).collect()
    read = tables.read({"metadata": url}, "ledgers", "topic_ledgers", "cursors")
    named = {row["ledger_id"] for row in read["topic_ledgers"]} | {row["cursor_ledger_id"] for row in read["cursors"]}
    assert {row.ledger_id for row in found} == {row["ledger_id"] for row in read["ledgers"]} - named


@pytest.mark.parametrize(
    ("table", "options", "schema", "words"),
    [
        ("topic", {}, None, "UnknownTable: there is no table 'topic': load one of topics"),
        ("topics", {"tenent": "t"}, None, "InvalidOption: there is no option tenent"),
        ("topics", {"metadata": "memory:x"}, None, "workers cannot reach it"),
        ("topics", {}, "nothing string", "UnknownColumn: the table topics has no column nothing"),
        ("topics", {}, "ledgers string", "UnknownColumn: topics.ledgers has the type int, not string"),
        ("topics", {"metadata": "file:///nowhere"}, None, "FileNotReadable: /nowhere cannot be read"),
        ("topics", {"chroot": "/nowhere"}, None, "ChrootNotFound: the tree in"),
    ],
)
def test_bad_input_is_refused_in_one_line(spark, cluster, table, options, schema, words):
    url, files = cluster
    given = {"metadata": url, **(files if "chroot" in options else {}), **options}
    reader = spark.read.format("mledger").options(**given)
    with pytest.raises(PySparkException) as raised:
        (reader.schema(schema) if schema else reader).load(table).count()
    assert any(words in line for line in str(raised.value).splitlines())
