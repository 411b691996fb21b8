"""Run by test_iceberg_snapshots.py on a DuckDB with its Iceberg extension: what it reports of a directory."""

import json
import os
import sys
from pathlib import Path

NAMES = ("part", "whole")


def main(to: str) -> None:
    import duckdb

    connection = duckdb.connect()
    for path in os.environ["DUCKDB_EXTENSIONS"].split(os.pathsep):
        connection.load_extension(path)

    def ask(query: str) -> list[tuple[object, ...]]:
        return connection.execute(query).fetchall()

    rows: dict[str, dict[str, object]] = {name: {} for name in NAMES}
    topics: dict[str, list[list[object]]] = {}
    for table in sorted(path.parent for path in Path(to).glob("_iceberg/*/metadata")):
        metadata = max((table / "metadata").glob("*.metadata.json"))
        versions = ask(f"select snapshot_id from iceberg_snapshots('{metadata}') order by sequence_number")
        for name, (version,) in zip(NAMES, versions, strict=True):
            source = f"iceberg_scan('{metadata}', snapshot_from_id = {version})"
            ((count, other),) = ask(f"select count(*), count(*) filter (snapshot <> '{name}') from {source}")
            assert other == 0
            rows[name][table.name] = count
            if table.name == "topics":
                topics[name] = [list(row) for row in ask(f"select topic, entries from {source} order by topic")]
    print(json.dumps({"rows": rows, "topics": topics}))


if __name__ == "__main__":
    main(*sys.argv[1:])
