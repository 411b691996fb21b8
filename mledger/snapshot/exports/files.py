"""Parquet files of tables: written batch by batch in bounded memory, where they stay, and hashed meanwhile."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import repeat

import pyarrow as pa
import pyarrow.parquet as pq

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import DestinationNotReadable, ExportError, ExportNotWritable
from mledger.snapshot.exports.manifest import FileRecord
from mledger.snapshot.tables.row_builder import TABLES, Batch
from mledger.snapshot.zookeeper_files.file_access.file_systems import FAILURES, said

CHUNK = 8 << 20
ROWS_A_GROUP = 65_536
COMPRESSION = "zstd"


def write_batches(batches: Iterable[Batch], place: Destination, part: str) -> list[tuple[str, FileRecord]]:
    """Write these rows to TABLE/`part`.parquet in `place`; as `write_parts`."""
    return write_parts(zip(repeat(part), batches), place)


def write_parts(parts: Iterable[tuple[str, Batch]], place: Destination) -> list[tuple[str, FileRecord]]:
    """Write each batch to TABLE/PART.parquet in `place`, where PART is before it.

    Returns the table and record of each file. Raises ExportNotWritable, and what `parts` raises; the files are then
    removed.
    """
    writers: dict[tuple[str, str], TableFile] = {}
    try:
        for part, (table, batch) in parts:
            if (table, part) not in writers:
                writers[table, part] = TableFile(place, table, part)
            writers[table, part].add(batch)
        return [(table, writer.finish()) for (table, _), writer in writers.items()]
    finally:
        for writer in writers.values():
            writer.abandon()


def write_empty(place: Destination, table: str) -> tuple[str, FileRecord]:
    """Write a file without rows for an empty table, so that readers find its columns."""
    return table, TableFile(place, table, "part-empty").finish()


class TableFile:
    """A file that is being written.

    With `coded`, the schema of rows that were read as Parquet has them, texts as dictionaries, such rows are written
    without looking up each text again. Readers find the same types as in other files.
    """

    def __init__(self, place: Destination, table: str, part: str, coded: pa.Schema | None = None) -> None:
        self._place = place
        self._name = f"{table}/{part}.parquet"
        self._schema = coded or TABLES[table].schema
        self._stream = place.create(self._name)
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(
            self._stream,
            self._schema,
            compression=COMPRESSION,
            coerce_timestamps="us",
            use_dictionary=text_columns(TABLES[table].schema),
            store_schema=coded is None,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; at most one row group of them is held in memory. ExportNotWritable."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._rows += batch.num_rows
        if self._waiting_rows >= ROWS_A_GROUP:
            self._flush()

    def finish(self) -> FileRecord:
        """Finish the file; its contents are at the destination on return. ExportNotWritable."""
        self._flush()
        assert self._writer is not None
        try:
            self._writer.close()
            self._stream.close()
        except FAILURES as error:
            raise self._failed(error) from None
        self._writer = None
        return FileRecord(self._name, self._rows, self._stream.bytes, self._stream.sha256)

    def abandon(self) -> None:
        """Remove an unfinished file, as far as the destination still allows."""
        if self._writer is not None:
            for leave in (self._writer.close, self._stream.close, lambda: self._place.remove_file(self._name)):
                with suppress(*FAILURES, ExportError):
                    leave()
            self._writer = None

    def _flush(self) -> None:
        if self._waiting:
            assert self._writer is not None
            try:
                self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema).unify_dictionaries())
            except FAILURES as error:
                raise self._failed(error) from None
            self._waiting, self._waiting_rows = [], 0

    def _failed(self, error: BaseException) -> ExportNotWritable:
        return ExportNotWritable(f"{self._place}/{self._name} cannot be written: {said(error)}")


def text_columns(schema: pa.Schema) -> list[str]:
    """The columns of texts by their paths in a Parquet file: those that a dictionary makes smaller.

    Numbers hardly repeat; with dictionaries of them files are half as large again, and take a third longer to write.
    """
    found = []
    for column in schema:
        if column.type == pa.string():
            found.append(column.name)
        elif pa.types.is_list(column.type) and column.type.value_type == pa.string():
            found.append(f"{column.name}.list.element")
        elif pa.types.is_map(column.type):
            inner = {"key": column.type.key_type, "value": column.type.item_type}
            found += [f"{column.name}.key_value.{name}" for name, kind in inner.items() if kind == pa.string()]
    return found


def distinct_texts(place: Destination, records: Iterable[FileRecord], column: str) -> set[str]:
    """The texts in a column of a table's files. DestinationNotReadable."""
    found: set[str] = set()
    for record in records:
        try:
            with place.open(record.path) as stream:
                found.update(filter(None, pq.read_table(stream, columns=[column])[column].to_pylist()))
        except FAILURES as error:
            raise DestinationNotReadable(f"{place}/{record.path} cannot be read: {said(error)}") from None
    return found


def is_data(path: str) -> bool:
    """Whether the file at this path in a snapshot holds rows; files of a Delta log do not."""
    return path.endswith(".parquet") and "/_delta_log/" not in path


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
