"""Run by test_delta_snapshots.py on the Spark that delta-spark supports: an export, and what Delta reports of it."""

import json
import sys
from pathlib import Path


def main(metadata: str, to: str) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

    from mledger.cli.main import run

    export = ["--metadata", metadata, "snapshot", "export", to, "--format", "delta", "-D", "partitions=1"]
    code = run([*export, "--output", "json"])
    spark = SparkSession.getActiveSession()
    if code or spark is None:
        sys.exit(code or 1)
    (place,) = Path(to).glob("snapshot=*")
    paths = {each.name: str(each) for each in place.iterdir() if each.is_dir()}
    assert all(DeltaTable.isDeltaTable(spark, path) for path in paths.values())
    # One query, because slow jobs of its own compute each table's state.
    counts = [f"select '{name}' as name, count(*) as count from delta.`{path}`" for name, path in paths.items()]
    rows = {row["name"]: row["count"] for row in spark.sql(" union all ".join(counts)).collect()}
    first = spark.read.format("delta").option("versionAsOf", 0).load(paths["topics"])
    versions = [row.version for row in DeltaTable.forPath(spark, paths["topics"]).history().collect()]
    print(json.dumps({"rows": rows, "columns": first.columns, "versions": versions}))


if __name__ == "__main__":
    main(*sys.argv[1:])
