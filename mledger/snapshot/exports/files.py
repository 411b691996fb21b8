"""Parquet files of tables: written batch by batch in bounded memory, and renamed once they are complete."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mledger.snapshot.exports.destination import CHUNK, Destination
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.tables.row_builder import TABLES, Batch
from mledger.snapshot.zookeeper_files.file_systems import FAILURES, said

ROWS_A_GROUP = 65_536
COMPRESSION = "zstd"


def write_batches(batches: Iterable[Batch], directory: Path, part: str) -> list[tuple[str, FileRecord]]:
    """Write these rows to `directory`/TABLE/`part`.parquet; returns the table and record of each file. OSError."""
    writers: dict[str, TableFile] = {}
    try:
        for table, batch in batches:
            if table not in writers:
                writers[table] = TableFile(directory, table, part)
            writers[table].add(batch)
        return [(table, writer.finish()) for table, writer in writers.items()]
    finally:
        for writer in writers.values():
            writer.abandon()


def write_empty(directory: Path, table: str) -> tuple[str, FileRecord]:
    """Write a file without rows for an empty table, so that readers find its columns."""
    return table, TableFile(directory, table, "part-empty").finish()


class TableFile:
    """A file that is being written."""

    def __init__(self, directory: Path, table: str, part: str) -> None:
        self._directory = directory
        self._name = f"{table}/{part}.parquet"
        path = directory / self._name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = path.with_name(f".{part}.{os.getpid()}.tmp")
        self._schema = TABLES[table].schema
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(
            self._temporary, self._schema, compression=COMPRESSION, coerce_timestamps="us"
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; at most one row group of them is held in memory."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._rows += batch.num_rows
        if self._waiting_rows >= ROWS_A_GROUP:
            self._flush()

    def finish(self) -> FileRecord:
        """Finish the file and rename it; its contents are on disk on return."""
        assert self._writer is not None
        self._flush()
        self._writer.close()
        self._writer = None
        record = record_of(self._temporary, self._name, self._rows)
        os.replace(self._temporary, self._directory / self._name)
        return record

    def abandon(self) -> None:
        """Remove an unfinished file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._temporary.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            assert self._writer is not None
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._waiting_rows = [], 0


def is_data(path: str) -> bool:
    """Whether the file at this path in a snapshot holds rows; files of a Delta log do not."""
    return path.endswith(".parquet") and "/_delta_log/" not in path


def record_of(path: Path, name: str, rows: int) -> FileRecord:
    """The record of a complete file; the file is on disk on return."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
        return FileRecord(name, rows, stream.tell(), digest)


def problem_of(place: Destination, record: FileRecord) -> str | None:
    """What is wrong with a file, None if it matches its record."""
    try:
        with place.open(record.path) as stream:
            size = stream.seek(0, os.SEEK_END)
            if size != record.bytes:
                return f"it has {size} bytes, not {record.bytes}"
            stream.seek(0)
            digest = hashlib.sha256()
            while piece := stream.read(CHUNK):
                digest.update(piece)
    except FileNotFoundError:
        return "it is not there"
    except FAILURES as error:
        return f"it cannot be read: {said(error)}"
    return None if digest.hexdigest() == record.sha256 else "its SHA-256 digest differs from the manifest's"
