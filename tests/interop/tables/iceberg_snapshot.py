"""Run by test_iceberg_snapshots.py on the Spark that Iceberg supports: what Iceberg reports of a directory's tables."""

import json
import sys

NAMES = ("part", "whole")


def main(to: str) -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.catalog.mledger": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.mledger.type": "jdbc",
        "spark.sql.catalog.mledger.uri": f"jdbc:sqlite:{to}/_iceberg/catalog.db",
        "spark.sql.catalog.mledger.warehouse": f"{to}/_iceberg",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    tables = [row["tableName"] for row in spark.sql("show tables in mledger.pulsar").collect()]

    def counts(version: str) -> dict[str, int]:
        each = [f"select '{name}' as name, count(*) as count from mledger.pulsar.{name} {version}" for name in tables]
        return {row["name"]: row["count"] for row in spark.sql(" union all ".join(each)).collect()}

    def topics(name: str) -> list[list[object]]:
        found = spark.sql(f"select topic, entries from mledger.pulsar.topics version as of '{name}' order by topic")
        return [list(row) for row in found.collect()]

    times = spark.sql("select cast(made_current_at as string) from mledger.pulsar.topics.history order by 1").collect()
    earlier = spark.sql(f"select distinct snapshot from mledger.pulsar.topics timestamp as of '{times[0][0]}'")
    answered = {
        "rows": {name: counts(f"version as of '{name}'") for name in NAMES},
        "topics": {name: topics(name) for name in NAMES},
        "current": counts(""),
        "earlier": [row[0] for row in earlier.collect()],
        "columns": spark.table("mledger.pulsar.topics").columns,
    }
    print(json.dumps(answered))


if __name__ == "__main__":
    main(*sys.argv[1:])
