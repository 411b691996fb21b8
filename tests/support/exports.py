"""Snapshots for tests: a cluster of every kind of node on a real server, exports of it, and what they hold."""

import pyarrow.parquet as pq

from metastore.url import open_store
from snapshot.assembling import TABLES
from snapshot.exports.directory import find_snapshot
from tests.support import tables, varied_cluster
from tests.support.aio import run


def write_varied_cluster(url: str) -> None:
    """Nodes of every kind below the chroot of `url`."""

    async def main():
        async with await open_store(url, create_chroot=True) as store:
            await tables.create_all(store, varied_cluster.nodes())

    run(main())


def rows_of(path, table):
    """The rows of a table of the snapshot at `path`, ordered by their keys."""
    place, manifest = find_snapshot(str(path))
    found = [
        row
        for file in manifest.tables[table].files
        for row in pq.ParquetFile(place / file.path).read().cast(TABLES[table].schema).to_pylist()
    ]
    return sorted(found, key=lambda row: [row[column] for column in tables.KEYS[table] if column in row])


def all_rows(path):
    """The rows of all tables by table."""
    return {table: rows_of(path, table) for table in TABLES}
