"""Snapshots for tests: a cluster with nodes of every kind on a real server, exports of it, and their rows."""

import contextlib
import os
import subprocess
import sys
import time

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from mledger.metastore.url import open_store
from mledger.snapshot.exports.directory import SnapshotDirectory, find_snapshot
from mledger.snapshot.exports.files import is_data, write_batches, write_empty
from mledger.snapshot.exports.manifest import PARQUET, Manifest, encode_manifest, request_of, tables_of
from mledger.snapshot.exports.steps import Steps
from mledger.snapshot.tables.row_builder import TABLES
from tests.support.aio import HANG_S, run
from tests.support.cli import ROOT
from tests.support.snapshots import tables, varied_cluster


def write_varied_cluster(url: str) -> None:
    """Nodes of every kind below the chroot of `url`."""

    async def main():
        async with await open_store(url, create_chroot=True) as store:
            await tables.create_all(store, varied_cluster.nodes())

    run(main())


def rows_of(path, table):
    """The rows of a table of the snapshot at `path`, ordered by their keys."""
    place, manifest = find_snapshot(str(path))
    return rows_in([place.open(file.path) for file in manifest.tables[table].files if is_data(file.path)], table)


def rows_in(files, table):
    """The rows of a table in Parquet files, ordered by their keys."""
    found = [
        row for file in files for row in pq.read_table(file, partitioning=None).cast(TABLES[table].schema).to_pylist()
    ]
    return sorted(found, key=lambda row: [row[column] for column in tables.KEYS[table] if column in row])


def all_rows(path):
    """The rows of all tables by table."""
    return {table: rows_of(path, table) for table in TABLES}


def write_snapshot(to, name, time, *, file_format=PARQUET, **rows):
    """Write a snapshot of these rows, by table, as dicts of some columns; `time` is a datetime. Returns its path."""
    directory = SnapshotDirectory(to)
    place = Steps(directory.unfinished(name)).tables
    files = []
    for table, known in TABLES.items():
        batches = pa.Table.from_pylist(rows.get(table, []), schema=known.schema).to_batches()
        written = write_batches([(table, batch) for batch in batches if batch.num_rows], place, "part-0")
        files += written or [write_empty(place, table)]
    time_ms = int(time.timestamp() * 1000)
    request = request_of({"metadata": "zk://127.0.0.1:1"}, "pyarrow", file_format)
    manifest = Manifest(name, time_ms, None, request, time_ms, time_ms, (), tables_of(files, name))
    directory.publish(name, encode_manifest(manifest))
    return directory.place(name).local


def steps_done(to):
    """The records of the steps that an unfinished export below `to` has completed."""
    return sorted(to.glob("_unfinished/*/steps/*.json"))


@contextlib.contextmanager
def started_export(url, to, *arguments, environment=None):
    """An export in a process of its own, which ends with the context; `environment` replaces this process's."""
    command = [sys.executable, "-m", "mledger.cli.main", "--metadata", url, "snapshot", "export", str(to), *arguments]
    environment = environment or os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until_steps(process, to, count=1):
    """Wait until an export has completed `count` steps. AssertionError shows its output if it ends before that."""

    def there():
        assert process.poll() is None, process.communicate()[1]
        return len(steps_done(to)) >= count

    wait_for(there)


def wait_for(condition):
    """Wait until `condition()` returns something, and return that. Raises AssertionError after HANG_S.

    Asks for at most a tenth of the time: what it waits for needs the processor.
    """
    end = time.monotonic() + HANG_S
    while (asked := time.monotonic()) < end:
        if found := condition():
            return found
        time.sleep(max(0.005, 9 * (time.monotonic() - asked)))
    raise AssertionError("it did not come")


def processes_below(process, word):
    """The processes below one whose command lines contain a word."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [each for each in children if any(word in part for part in _command_line(each))]


def _command_line(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has ended, or is a zombie
        return []
