"""Delta tables over a directory's partitioned tables: each snapshot is a commit that replaces the one before.

The log of a table names the Parquet files that the export has written; nothing is written twice. A version holds one
snapshot, so that a version or a time names a snapshot in every table. The manifest records the versions.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled
from mledger.snapshot.exports.manifest import Manifest, TableRecord
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_systems import arrow_uri, said

COLUMN = "snapshot"
COMMITTED = "mledger.snapshot"
"""The key of a commit's snapshot in its metadata."""


def check_installed() -> None:
    """Raise FormatNotInstalled without the package that writes Delta's logs."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise FormatNotInstalled("--format delta needs the package deltalake: pip install 'mledger[delta]'") from None


def commit_to_delta(there: Destination, manifest: Manifest) -> Manifest:
    """Commit a snapshot's files to the Delta tables in `there`; returns the manifest with the versions.

    A table that has the snapshot already keeps its version. Raises ExportError.
    """
    from deltalake.exceptions import DeltaError

    check_installed()
    tables = {}
    for name, record in manifest.tables.items():
        try:
            tables[name] = replace(record, version=_commit(there, name, record, manifest))
        except (DeltaError, OSError, ValueError) as error:
            raise ExportError(f"the Delta table {there}/{name} cannot be written: {said(error)}") from None
    return replace(manifest, tables=tables)


def _commit(there: Destination, name: str, record: TableRecord, manifest: Manifest) -> int:
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions

    uri, options = table_uri(there, name), storage_options(there.uri)
    schema = Schema.from_arrow(TABLES[name].schema.append(pa.field(COLUMN, pa.string())))
    actions = [
        AddAction(
            path=file.path.partition("/")[2],
            size=file.bytes,
            partition_values={COLUMN: manifest.name},
            modification_time=manifest.finished_ms,
            data_change=True,
            stats=json.dumps({"numRecords": file.rows}),
        )
        for file in record.files
    ]
    commit = CommitProperties(custom_metadata={COMMITTED: manifest.name})
    if not DeltaTable.is_deltatable(uri, options):
        create_table_with_add_actions(
            uri, schema, actions, "error", [COLUMN], name=name, storage_options=options, commit_properties=commit
        )
        return 0
    table = DeltaTable(uri, storage_options=options)
    for entry in table.history():
        if entry.get(COMMITTED) == manifest.name:
            return int(entry["version"])
    table.create_write_transaction(actions, "overwrite", schema, [COLUMN], commit_properties=commit)
    return int(DeltaTable(uri, storage_options=options).version())


def table_uri(there: Destination, name: str) -> str:
    """The URI of a table for deltalake; a path on this machine."""
    if there.local is not None:
        return f"{there.path}/{name}"
    return f"{arrow_uri(there.text)}/{name}"


def storage_options(uri: str) -> Mapping[str, Any]:
    """What a URI says of keys and endpoints, under deltalake's names; it reads the environment by itself."""
    parts = urlsplit(uri)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    key, _, secret = parts.netloc.rpartition("@")[0].partition(":")
    scheme = given.get("scheme", "https")
    endpoint = given.get("endpoint_override")
    found = {
        "AWS_ACCESS_KEY_ID": unquote(key),
        "AWS_SECRET_ACCESS_KEY": unquote(secret),
        "AWS_REGION": given.get("region", ""),
        "AWS_ENDPOINT_URL": f"{scheme}://{endpoint}" if endpoint else "",
        "AWS_ALLOW_HTTP": "true" if scheme == "http" else "",
    }
    return {name: value for name, value in found.items() if value}
