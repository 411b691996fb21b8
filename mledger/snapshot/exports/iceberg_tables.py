"""Iceberg tables over a directory's partitioned tables: each snapshot is a commit that replaces the one before.

`_iceberg/catalog.db` is the catalog, a SQLite file; `_iceberg/TABLE/metadata` holds a table's metadata. It names the
Parquet files that the export has written; nothing is written twice. A version holds one snapshot, and a tag of the
snapshot's name keeps it. No version descends from another: they share no files, and each can be removed alone. The
manifest records the versions.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import DestinationNotLocal, ExportError, FormatNotInstalled
from mledger.snapshot.exports.iceberg_files import entries_name, list_name, metadata_files, remove_leftovers
from mledger.snapshot.exports.manifest import FileRecord, Manifest, TableRecord
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_access.file_systems import said

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

HOME = "_iceberg"
CATALOG_FILE = "catalog.db"
CATALOG = "mledger"
NAMESPACE = "pulsar"
COLUMN = "snapshot"
COMMITTED = "mledger.snapshot"
"""The key of a version's snapshot in its summary."""
FINISHED = "mledger.finished_ms"
"""The key of the time when the snapshot's export ended: a later snapshot may have the name of a removed one."""

_MAPPING = "schema.name-mapping.default"
_LOGS_SHORT = "write.metadata.delete-after-commit.enabled"
_TABLE = "mledger.table"
"""The property that tells our tables from others: which of ours it is."""
_MAIN = "main"
_COMPRESSION = "deflate"
_NOT_IN_PATHS = "#?"
"""What no path of Iceberg's may have: its readers take it for a part of a URI."""


def check_iceberg(there: Destination) -> None:
    """Raise FormatNotInstalled without the package that writes Iceberg's metadata, DestinationNotLocal for a URI."""
    try:
        import pyiceberg.catalog.sql  # noqa: F401
    except ImportError:
        raise FormatNotInstalled("Iceberg tables need the package pyiceberg: pip install 'mledger[iceberg]'") from None
    if there.local is None:
        raise DestinationNotLocal(
            f"{there}: --format iceberg keeps its catalog in a SQLite file, which needs a directory on this machine; "
            "export to one, or with --format delta"
        )
    if any(each in there.path for each in _NOT_IN_PATHS):
        raise DestinationNotLocal(f"{there}: --format iceberg needs a path without # and ?; name another directory")


def check_iceberg_tables(there: Destination) -> None:
    """Look whether the tables of the catalog in `there` can take a snapshot; nothing is changed.

    Raises:
        FormatNotInstalled: pyiceberg is missing.
        DestinationNotLocal: no catalog can be in `there`.
        ExportError: a table is of something else, or cannot be read.
    """
    check_iceberg(there)
    if not has_iceberg(there):
        return
    with _looked_at(there) as catalog:
        for name in TABLES if _has_begun(catalog) else ():
            wrong = _why_not_ours(_load(catalog, there, name), name) if _exists(catalog, name) else ""
            if wrong:
                raise ExportError(
                    f"the Iceberg table {NAMESPACE}.{name} in {there.below(HOME)} is of something else: {wrong}; drop "
                    "it there, or name another directory"
                )


def _why_not_ours(table: "Table", name: str) -> str:
    """What a table has that no export gave it; empty if it is ours. Columns may be more or fewer."""
    if [each.name for each in table.spec().fields] != [COLUMN]:
        return f"it is not partitioned by {COLUMN} alone"
    theirs = {each.name: each.field_type for each in table.schema().fields}
    ours = [each for each in _schema(name) if each.name in theirs]
    other = [each.name for each in ours if _type_in(table, each) != theirs[each.name]]
    if other:
        return f"its column {other[0]} has another type"
    return "" if _is_marked(table, name) else "no export has created it"


def _is_marked(table: "Table", name: str) -> bool:
    """Whether a table says that it is ours, or one of its versions does.

    So does one without versions that has our other settings: before there was the mark, a killed export left such.
    """
    if table.properties.get(_TABLE) == name:
        return True
    if not table.metadata.snapshots:
        return all(each in table.properties for each in (_MAPPING, _LOGS_SHORT))
    summaries = (each.summary for each in table.metadata.snapshots)
    return any(each is not None and COMMITTED in each.additional_properties for each in summaries)


def _type_in(table: "Table", column: pa.Field) -> Any:
    """The type of one of our columns, with the field ids that a table has for it; None if it has other fields in it."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    try:
        (found,) = pyarrow_to_schema(pa.schema([column]), table.schema().name_mapping).fields
    except (ValueError, StopIteration):
        return None
    return found.field_type


def _settings(name: str) -> dict[str, str]:
    return {_LOGS_SHORT: "true", _TABLE: name}


def _schema(name: str) -> pa.Schema:
    return TABLES[name].schema.append(pa.field(COLUMN, pa.string()))


def _exists(catalog: "SqlCatalog", name: str) -> bool:
    return bool(catalog.table_exists((NAMESPACE, name)))


def commit_to_iceberg(there: Destination, manifest: Manifest) -> Manifest:
    """Commit a snapshot's files to the Iceberg tables in `there`; returns the manifest with the versions.

    A table that has the snapshot already keeps its version. Raises ExportError.
    """
    check_iceberg(there)
    with _opened(there) as catalog:
        tables = {
            name: replace(record, version=_commit(catalog, there, name, record, manifest))
            for name, record in manifest.tables.items()
        }
        for name in tables:
            remove_leftovers(partial(_load, catalog, there, name))
    return replace(manifest, tables=tables)


def forget_in_iceberg(there: Destination, name: str) -> None:
    """Remove the versions of a snapshot, if there are Iceberg tables. ExportError, FormatNotInstalled.

    The current version of a table is then the newest one that is left; a table without any is removed.
    """
    if has_iceberg(there):
        check_iceberg(there)
        with _opened(there) as catalog:
            for identifier in catalog.list_tables(NAMESPACE):
                if identifier[-1] in TABLES:  # others are not ours
                    _forget(catalog, there, identifier[-1], name)


def iceberg_problems(there: Destination, manifest: Manifest) -> list[tuple[str, str]]:
    """The tables whose versions of a snapshot do not have its files, and what is wrong; nothing is changed.

    Raises:
        FormatNotInstalled: pyiceberg is missing.
        DestinationNotLocal: no catalog can be in `there`.
        ExportError: the tables were removed, as those of a copy have to be.
    """
    check_iceberg(there)
    home = there.below(HOME)
    if not home.is_there():
        raise ExportError(f"{home} was removed; the next export with --format iceberg creates the tables anew")
    if not has_iceberg(there):
        return [(f"{HOME}/{CATALOG_FILE}", "it is not there, so that no table has the snapshot")]
    try:
        with closing(open_catalog(there, create=False)) as catalog:
            catalog.list_tables(NAMESPACE)
            found = {name: _why_not_whole(catalog, there, name, record) for name, record in manifest.tables.items()}
    except _failures() as error:
        return [(f"{HOME}/{CATALOG_FILE}", f"it cannot be read: {_told(error)}")]
    return [(f"{HOME}/{name}", wrong) for name, wrong in found.items() if wrong]


def _why_not_whole(catalog: "SqlCatalog", there: Destination, name: str, record: TableRecord) -> str:
    """What is wrong with a snapshot's version of a table; empty if it has the snapshot's files alone."""
    try:
        table = _load(catalog, there, name)
        files = _files_of(table, record.version)
    except _failures() as error:
        return f"its version {record.version} cannot be read: {_told(error)}"
    whole = files == {_uri(table, file) for file in record.files}
    return "" if whole else f"its version {record.version} has other files"


def _files_of(table: "Table", version: int | None) -> set[str]:
    """The URIs of a version's files; ValueError if there is no such version, or its metadata is damaged."""
    snapshot = None if version is None else table.snapshot_by_id(version)
    if snapshot is None:
        raise ValueError("there is no such version")
    try:
        manifests = snapshot.manifests(table.io)
        return {entry.data_file.file_path for each in manifests for entry in each.fetch_manifest_entry(table.io)}
    except _failures():
        raise
    except Exception as error:  # pyiceberg raises anything for other bytes: zlib.error, KeyError, SystemError
        raise ValueError(f"{type(error).__name__}: {error}") from None


def has_iceberg(there: Destination) -> bool:
    """Whether there are Iceberg tables."""
    return there.local is not None and there.below(HOME).holds(CATALOG_FILE)


def open_catalog(there: Destination, *, create: bool = True) -> "SqlCatalog":
    """The catalog of the Iceberg tables in `there`, whose namespace `pulsar` has a table for each of ours.

    With `create` a file without the tables of a catalog becomes one.
    """
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.engine import URL

    home = there.below(HOME)
    uri = URL.create("sqlite", database=f"{home.path}/{CATALOG_FILE}").render_as_string()
    properties = {"uri": uri, "warehouse": f"file://{home.path}", "init_catalog_tables": str(create).lower()}
    return SqlCatalog(CATALOG, **properties)


def _has_begun(catalog: "SqlCatalog") -> bool:
    """Whether its file is a catalog yet: an export that was killed may leave an empty one."""
    from sqlalchemy import inspect

    return bool(inspect(catalog.engine).has_table("iceberg_tables"))


def _failures() -> tuple[type[Exception], ...]:
    """What the catalog and its tables raise."""
    from pyiceberg import exceptions
    from sqlalchemy.exc import SQLAlchemyError

    return (
        exceptions.CommitFailedException,
        exceptions.NoSuchNamespaceError,
        exceptions.NoSuchPropertyException,
        exceptions.NoSuchTableError,
        exceptions.ResolveError,
        exceptions.ValidationError,
        SQLAlchemyError,
        EOFError,
        OSError,
        ValueError,
    )


def _told(error: Exception) -> str:
    """What an error of the catalog or its tables says, in one line and without SQL."""
    return said(getattr(error, "orig", None) or error)


@contextmanager
def _looked_at(there: Destination) -> Iterator["SqlCatalog"]:
    """The catalog to be read, in which nothing is created; ExportError if it or a table cannot be read."""
    home = there.below(HOME)
    try:
        with closing(open_catalog(there, create=False)) as catalog:
            yield catalog
    except _failures() as error:
        raise ExportError(
            f"the Iceberg tables in {home} cannot be read: {_told(error)}; restore them, or if the directory was moved "
            f"or copied, remove {home}: the next export creates the tables anew"
        ) from None


@contextmanager
def _opened(there: Destination) -> Iterator["SqlCatalog"]:
    home = there.below(HOME)
    home.create_directory()
    try:
        catalog = open_catalog(there)
        try:
            catalog.create_namespace_if_not_exists(NAMESPACE)
            yield catalog
        finally:
            catalog.close()
    except _failures() as error:
        raise ExportError(
            f"the Iceberg tables in {home} cannot be written: {_told(error)}; "
            f"if the directory was moved or copied, remove {home}: the next export creates the tables anew"
        ) from None


def _commit(catalog: "SqlCatalog", there: Destination, name: str, record: TableRecord, manifest: Manifest) -> int:
    from pyiceberg.table.refs import SnapshotRefType
    from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate

    snapshot = manifest.name
    table = _with_columns(catalog, there, name)
    if (there_already := _version_of(table, snapshot, manifest.finished_ms)) is not None:
        return there_already
    if _version_of(table, snapshot) is not None:
        _forget(catalog, there, name, snapshot)  # of a snapshot that somebody removed by hand
        table = _with_columns(catalog, there, name)
    added = _write_version(table, record, manifest)
    version = added.snapshot_id
    # By Table.transaction, each change would copy the table's whole history many times.
    named = [(_MAIN, SnapshotRefType.BRANCH), *([(snapshot, SnapshotRefType.TAG)] if snapshot != _MAIN else [])]
    references = (SetSnapshotRefUpdate(ref_name=each, type=kind, snapshot_id=version) for each, kind in named)
    updates = (AddSnapshotUpdate(snapshot=added), *references)
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), updates)
    return int(version)


def _with_columns(catalog: "SqlCatalog", there: Destination, name: str) -> "Table":
    """The table with all columns that it has now; a new one if there is none."""
    schema = _schema(name)
    if not _exists(catalog, name):
        changing = catalog.create_table_transaction(
            (NAMESPACE, name), schema, _location(there, name), properties=_settings(name)
        )
        with changing.update_spec() as partitions:
            partitions.add_identity(COLUMN)
    else:
        table = _load(catalog, there, name)
        if set(schema.names) <= set(table.schema().column_names):
            return table
        changing = table.transaction()
        with changing.update_schema() as columns:
            columns.union_by_name(schema)
    changing.set_properties({_MAPPING: changing.table_metadata.schema().name_mapping.model_dump_json()})
    return changing.commit_transaction()


def _write_version(table: "Table", record: TableRecord, snapshot: Manifest) -> "Snapshot":
    """Write the metadata of a version of these files alone, which descends from no other."""
    from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest, write_manifest_list
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary

    metadata, at = table.metadata, table.location_provider()
    version, format_version = metadata.new_snapshot_id(), metadata.format_version
    manifest = table.io.new_output(at.new_metadata_location(entries_name(version)))
    with write_manifest(format_version, metadata.spec(), metadata.schema(), manifest, version, _COMPRESSION) as entries:
        for file in record.files:
            data = _data_file(table, file, snapshot.name)
            entries.add(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=version, data_file=data))
    manifest_list = at.new_metadata_location(list_name(version))
    sequence = metadata.next_sequence_number()
    with write_manifest_list(
        format_version, table.io.new_output(manifest_list), version, None, sequence, _COMPRESSION
    ) as manifests:
        manifests.add_manifests([entries.to_manifest_file()])
    counts = {"data-files": len(record.files), "records": record.rows, "files-size": record.bytes}
    summary = {f"{kind}-{what}": str(count) for what, count in counts.items() for kind in ("added", "total")}
    marks = {COMMITTED: snapshot.name, FINISHED: str(snapshot.finished_ms)}
    return Snapshot(
        snapshot_id=version,
        sequence_number=sequence,
        manifest_list=manifest_list,
        summary=Summary(Operation.APPEND, **summary, **marks),
        schema_id=metadata.current_schema_id,
    )


def _data_file(table: "Table", file: FileRecord, snapshot: str) -> Any:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=_uri(table, file),
        file_format=FileFormat.PARQUET,
        partition=Record(snapshot),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
    )
    found.spec_id = table.metadata.default_spec_id
    return found


def _uri(table: "Table", file: FileRecord) -> str:
    """A file's URI, by the path at which the table was created: links give a directory several."""
    return f"{table.location().removesuffix(f'/{HOME}/{table.name()[-1]}')}/{file.path}"


def _location(there: Destination, name: str) -> str:
    return f"file://{there.path}/{HOME}/{name}"


def _load(catalog: "SqlCatalog", there: Destination, name: str) -> "Table":
    """A table; ValueError if its metadata is elsewhere, as in a copy of a directory."""
    table = catalog.load_table((NAMESPACE, name))
    if _resolved(table.location()) != _resolved(_location(there, name)):
        raise ValueError(f"the catalog names {table.location()}")
    return table


def _resolved(uri: str) -> str:
    return os.path.realpath(uri.removeprefix("file://"))


def _version_of(table: "Table", snapshot: str, finished_ms: int | None = None) -> int | None:
    """The version of a snapshot; with `finished_ms` only if its export ended then."""
    marks = {COMMITTED: snapshot} | ({} if finished_ms is None else {FINISHED: str(finished_ms)})
    for each in table.metadata.snapshots:
        if each.summary is not None and marks.items() <= each.summary.additional_properties.items():
            return int(each.snapshot_id)
    return None


def _forget(catalog: "SqlCatalog", there: Destination, name: str, snapshot: str) -> None:
    from pyiceberg.table.refs import SnapshotRefType
    from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotsUpdate, SetSnapshotRefUpdate

    table = _load(catalog, there, name)
    version = _version_of(table, snapshot)
    if version is None:
        return
    others = [each for each in table.metadata.snapshots if each.snapshot_id != version]
    if not others:
        catalog.drop_table((NAMESPACE, name))
        shutil.rmtree(f"{there.path}/{HOME}/{name}", ignore_errors=True)
        return
    own = metadata_files(table, version)
    updates: list[Any] = []
    if table.metadata.current_snapshot_id == version:
        newest = max(others, key=lambda each: each.sequence_number).snapshot_id
        updates.append(SetSnapshotRefUpdate(ref_name=_MAIN, type=SnapshotRefType.BRANCH, snapshot_id=newest))
    updates.append(RemoveSnapshotsUpdate(snapshot_ids=[version]))
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), tuple(updates))
    for path in own:
        path.unlink(missing_ok=True)
