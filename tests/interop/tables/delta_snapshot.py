"""Run by test_delta_snapshots.py on the Spark that delta-spark supports: what Delta reports of a directory's tables."""

import json
import sys
from pathlib import Path

EARLIER = ("cursors", "ledgers", "topics")
"""The tables whose first version is read too."""


def main(to: str) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    paths = {each.parent.name: str(each.parent) for each in Path(to).glob("*/_delta_log")}
    assert all(DeltaTable.isDeltaTable(spark, path) for path in paths.values())
    # One query for each version, and the first version of few tables: slow jobs compute each table's state.
    rows = []
    for version, names in enumerate((EARLIER, sorted(paths))):
        counts = [
            f"select '{name}' as name, count(*) as count from delta.`{paths[name]}` version as of {version}"
            for name in names
        ]
        rows.append({row["name"]: row["count"] for row in spark.sql(" union all ".join(counts)).collect()})
    topics = spark.read.format("delta").load(paths["topics"])
    print(json.dumps({"rows": rows, "columns": topics.columns}))


if __name__ == "__main__":
    main(*sys.argv[1:])
