"""Delta tables over a directory's partitioned tables: each snapshot is a commit that replaces the one before.

The log of a table names the Parquet files that the export has written; nothing is written twice. A version holds one
snapshot, so that a version or a time names a snapshot in every table. The manifest records the versions.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa

from mledger.snapshot.exports.destination import Destination
from mledger.snapshot.exports.errors import ExportError, FormatNotInstalled
from mledger.snapshot.exports.manifest import DELTA, Manifest, TableRecord
from mledger.snapshot.tables.row_builder import TABLES
from mledger.snapshot.zookeeper_files.file_access.file_systems import arrow_uri, said

if TYPE_CHECKING:
    from deltalake import DeltaTable, PostCommitHookProperties, Schema
    from deltalake.transaction import AddAction

COLUMN = "snapshot"
_LOG = "_delta_log"
COMMITTED = "mledger.snapshot"
"""The key of a commit's snapshot in its metadata."""
FINISHED = "mledger.finished_ms"
"""The key of the time when the snapshot's export ended: a later snapshot may have the name of a removed one."""
_TEMPORARY = re.compile(r"(?P<commit>\d{20}\.json)#\d+|(\d{20}\.checkpoint\.parquet|_last_checkpoint)#\d+", re.ASCII)
"""The names under which deltalake writes a file of a log on this machine, before it has its own."""
_NOT_IN_PATHS = "%\\"
_RECENT = 100
"""In so many versions a commit is looked for that was cut off: the next export completes it, after cut-off removals."""


def check_delta(there: Destination) -> None:
    """Raise FormatNotInstalled without the package that writes Delta's logs, ExportError for a path that it changes."""
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise FormatNotInstalled("--format delta needs the package deltalake: pip install 'mledger[delta]'") from None
    if there.local is not None and (any(each in there.path for each in _NOT_IN_PATHS) or not there.path.isprintable()):
        raise ExportError(
            f"{there}: --format delta needs a path without %, backslashes and control characters, which deltalake "
            "takes for other paths; name another directory"
        )


def check_delta_tables(there: Destination) -> None:
    """Look whether the Delta tables in `there` can take a snapshot.

    Raises:
        FormatNotInstalled: deltalake is missing.
        ExportError: deltalake changes the path, or a table is of something else or cannot be read.
    """
    check_delta(there)
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    options = storage_options(there.uri)
    for name in TABLES:
        uri = table_uri(there, name)
        try:
            if not DeltaTable.is_deltatable(uri, options):
                continue
            table = DeltaTable(uri, storage_options=options)
            wrong = _why_not_ours(table, name)
        except (DeltaError, OSError, ValueError) as error:
            raise ExportError(f"the Delta table {there}/{name} cannot be read: {said(error)}") from None
        if wrong:
            raise ExportError(
                f"{there}/{name} is a Delta table of something else: {wrong}; move it away, or name another directory"
            )


def _why_not_ours(table: "DeltaTable", name: str) -> str:
    """What a table has that no export gave it; empty if it is ours. Columns may be more or fewer."""
    if table.metadata().partition_columns != [COLUMN]:
        return f"it is not partitioned by {COLUMN} alone"
    theirs, ours = (
        {column["name"]: column["type"] for column in json.loads(schema.to_json())["fields"]}
        for schema in (table.schema(), _schema(name))
    )
    other = [each for each in ours if theirs.get(each, ours[each]) != ours[each]]
    if other:
        return f"its column {other[0]} has another type"
    marked = (COMMITTED in entry for limit in (1, _RECENT, None) for entry in table.history(limit))
    return "" if any(marked) else "no export has committed to it"


def commit_to_delta(there: Destination, manifest: Manifest) -> Manifest:
    """Commit a snapshot's files to the Delta tables in `there`; returns the manifest with the versions.

    A table that has the snapshot already keeps its version. Raises ExportError.
    """
    from deltalake.exceptions import DeltaError

    check_delta(there)
    tables = {}
    for name, record in manifest.tables.items():
        try:
            tables[name] = replace(record, version=_commit(there, name, record, manifest))
            if there.local is not None:
                log = there.below(name, _LOG)
                for left in plan_leftovers(log.names()):
                    log.remove_file(left)
        except (DeltaError, OSError, ValueError) as error:
            raise ExportError(f"the Delta table {there}/{name} cannot be written: {said(error)}") from None
    return replace(manifest, tables=tables)


def _commit(there: Destination, name: str, record: TableRecord, manifest: Manifest) -> int:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import create_table_with_add_actions

    uri, options, schema = table_uri(there, name), storage_options(there.uri), _schema(name)
    actions = _actions(record, manifest)
    marks = {COMMITTED: manifest.name, FINISHED: str(manifest.finished_ms)}
    commit = CommitProperties(custom_metadata=marks)
    if not DeltaTable.is_deltatable(uri, options):
        create_table_with_add_actions(
            uri,
            schema,
            actions,
            "error",
            [COLUMN],
            name=name,
            storage_options=options,
            commit_properties=commit,
            post_commithook_properties=_all_logs_kept(),
        )
        return 0
    table = DeltaTable(uri, storage_options=options)
    for entry in table.history(_RECENT):
        if marks.items() <= entry.items():
            return int(entry["version"])
    table.create_write_transaction(
        actions, "overwrite", schema, [COLUMN], commit_properties=commit, post_commithook_properties=_all_logs_kept()
    )
    return int(DeltaTable(uri, storage_options=options).version())


def plan_leftovers(names: Collection[str]) -> list[str]:
    """The temporary files that killed exports left in a log, by its files' `names`; pure.

    One for a commit that is not there stays: another program may be about to make it.
    """
    found = {name: _TEMPORARY.fullmatch(name) for name in names}
    return [name for name, match in found.items() if match and (match["commit"] is None or match["commit"] in found)]


def _schema(name: str) -> "Schema":
    from deltalake import Schema

    return Schema.from_arrow(TABLES[name].schema.append(pa.field(COLUMN, pa.string())))


def _actions(record: TableRecord, manifest: Manifest) -> list["AddAction"]:
    from deltalake.transaction import AddAction

    return [
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


def delta_problems(there: Destination, manifest: Manifest) -> list[tuple[str, str]]:
    """The logs of tables whose versions of a snapshot do not have its files, and what is wrong.

    Raises:
        FormatNotInstalled: deltalake is missing.
        ExportError: deltalake changes the path.
    """
    check_delta(there)
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    options, found = storage_options(there.uri), []
    for name, record in manifest.tables.items():
        try:
            uris = DeltaTable(table_uri(there, name), version=record.version, storage_options=options).file_uris()
        except (DeltaError, OSError, ValueError) as error:
            found.append((f"{name}/{_LOG}", f"its version {record.version} cannot be read: {said(error)}"))
            continue
        if {"/".join([name, *unquote(uri).split("/")[-2:]]) for uri in uris} != {file.path for file in record.files}:
            found.append((f"{name}/{_LOG}", f"its version {record.version} has other files"))
    return found


def has_delta(there: Destination, tables: Iterable[str]) -> bool:
    """Whether one of these tables is a Delta table."""
    return any(there.below(table, _LOG).is_there() for table in tables)


def forget_in_delta(there: Destination, tables: Collection[str], name: str, left: Iterable[Manifest]) -> None:
    """Where a removed snapshot is the newest version of a table, commit the newest one in `left`, or no rows.

    Raises ExportError, FormatNotInstalled.
    """
    if not has_delta(there, tables):
        return
    check_delta(there)
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    committed = [each for each in left if each.request.file_format == DELTA]
    for table in tables:
        uri, options = table_uri(there, table), storage_options(there.uri)
        try:
            if table in TABLES and DeltaTable.is_deltatable(uri, options):
                _replace_head(DeltaTable(uri, storage_options=options), table, name, committed)
        except (DeltaError, OSError, ValueError) as error:
            raise ExportError(f"the Delta table {there}/{table} cannot be written: {said(error)}") from None


def _replace_head(table: "DeltaTable", name: str, removed: str, committed: Sequence[Manifest]) -> None:
    if {COLUMN: removed} not in table.partitions():
        return
    versions = {each.tables[name].version: each for each in committed if name in each.tables}
    newest = max((version for version in versions if version is not None), default=None)
    actions = [] if newest is None else _actions(versions[newest].tables[name], versions[newest])
    table.create_write_transaction(
        actions, "overwrite", _schema(name), [COLUMN], post_commithook_properties=_all_logs_kept()
    )


def _all_logs_kept() -> "PostCommitHookProperties":
    """So that old versions can be read: deltalake would remove logs of a month ago with each checkpoint."""
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(cleanup_expired_logs=False)


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
