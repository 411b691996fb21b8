"""The manifest of a snapshot on disk, `manifest.json`, and the names of snapshots; pure.

A snapshot NAME is `snapshot=NAME/manifest.json` and a partition `TABLE/snapshot=NAME` of each table, in one directory.
The manifest is complete: a file that it does not name does not belong to the snapshot. Format 1 had the tables inside
of `snapshot=NAME`; it can be read.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.exports.errors import InvalidManifest, InvalidSnapshotName
from mledger.snapshot.source.options import is_files
from mledger.snapshot.tables.row_builder import TABLES

FORMAT = 2
INSIDE = 1
"""The format whose paths begin in the snapshot's own directory; those of newer ones begin in the directory above."""
SCHEMA_VERSION = 1
"""The version of the tables' columns: it increases when a column is removed or changes its meaning."""

PREFIX = "snapshot="
MANIFEST = "manifest.json"
PARQUET = "parquet"
DELTA = "delta"
ICEBERG = "iceberg"
NOT_RECORDED = ("rate", "partitions", "password", "verifydigests")
"""Options that are secret or do not change what is exported."""
SCOPE = ("tenant", "namespace", "topic")
"""Options that say which part of a cluster is exported."""
POINT = ("zxid", "time", "after")
"""Options that name a moment."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a table: its path in the snapshot, its rows, size in bytes, and SHA-256 digest in hexadecimal."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of a snapshot: its schema in SQL, its files, and its version in a Delta or an Iceberg table."""

    schema: str
    files: tuple[FileRecord, ...]
    version: int | None = None

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Request:
    """What an export reads and writes: exports with equal requests have the same contents.

    `source` is without credentials, `options` are the read options that change what is read, sorted.
    """

    source: str
    options: tuple[tuple[str, str], ...]
    engine: str
    file_format: str

    @property
    def origin(self) -> tuple[str | None, ...]:
        """The places of what is read: the metadata, ZooKeeper's logs if they are elsewhere, and the chroot."""
        options = dict(self.options)
        return self.source, options.get("logs"), options.get("chroot")

    @property
    def scope(self) -> tuple[tuple[str, str], ...]:
        """The part of the cluster that is read."""
        return tuple(each for each in self.options if each[0] in SCOPE)

    @property
    def series(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What is read, whenever it is: an export of a series has what the older ones of it had, at a later moment."""
        return self.source, tuple(each for each in self.options if each[0] not in POINT)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot. Times in ms since 1970: `time_ms` is its point in time, or when reading a running store began.

    `since` names the snapshot that its export continued. `cluster` is the instance id in the bookies' cookies, since
    places of different machines may have the same name; None if there are none, as in a part of a cluster.
    """

    name: str
    time_ms: int
    zxid: int | None
    request: Request
    started_ms: int
    finished_ms: int
    warnings: tuple[str, ...]
    tables: Mapping[str, TableRecord]
    format: int = FORMAT
    since: str | None = None
    cluster: str | None = None

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def transaction_ms(self) -> int | None:
        """The time of the transaction `zxid`; None if no log had it, and `time_ms` is when the export started."""
        return None if self.zxid is None or self.time_ms == self.started_ms else self.time_ms

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(table.bytes for table in self.tables.values())

    @property
    def paths(self) -> set[str]:
        """The paths of all its files except the manifest."""
        return {file.path for table in self.tables.values() for file in table.files}


def check_name(name: str) -> str:
    """Return `name` if a snapshot may have it; InvalidSnapshotName."""
    if not _NAME.fullmatch(name):
        raise InvalidSnapshotName(
            f"{name!r} is not a valid snapshot name: use at most 100 letters, digits, dots, dashes and underscores"
        )
    return name


def default_name(time_ms: int | None, zxid: int | None) -> str:
    """The default name of a snapshot of this time and transaction; the same point always has the same name."""
    parts = [] if time_ms is None else [_compact(time_ms)]
    parts += [] if zxid is None else [f"zxid{zxid:x}"]
    return "-".join(parts)


def request_of(options: Mapping[str, str], engine: str, file_format: str) -> Request:
    """The request for these read options."""
    kept = {name.lower(): value for name, value in options.items() if value != ""}
    kept |= {name: _without_credentials(kept[name]) for name in ("metadata", "logs") if name in kept}
    recorded = sorted((name, value) for name, value in kept.items() if name not in (*NOT_RECORDED, "metadata"))
    return Request(kept["metadata"], tuple(recorded), engine, file_format)


def _without_credentials(place: str) -> str:
    """A path or URL, without who logs in; that of a file system also without its query: endpoints, and some keys."""
    bare = re.sub(r"(?<=://)[^/]*@", "", place)
    return bare.partition("?")[0] if "://" in bare and is_files(bare) else bare


def fingerprint(request: Request) -> str:
    """A digest that differs between requests, and between versions of the tables' columns."""
    schemas = {name: table.ddl for name, table in TABLES.items()}
    text = json.dumps([asdict(request), SCHEMA_VERSION, schemas], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def partition(table: str, name: str) -> str:
    """The directory of a table's partition, a snapshot."""
    return f"{table}/{PREFIX}{name}"


def tables_of(files: Iterable[tuple[str, FileRecord]], name: str) -> dict[str, TableRecord]:
    """The records of all tables of the snapshot `name`, from files given with their table's name."""
    found: dict[str, list[FileRecord]] = {table: [] for table in TABLES}
    for table, file in files:
        path = f"{partition(table, name)}/{file.path.rpartition('/')[2]}"
        found[table].append(replace(file, path=path))
    return {
        name: TableRecord(TABLES[name].ddl, tuple(sorted(records, key=lambda file: file.path)))
        for name, records in found.items()
    }


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as JSON; its keys are stable, but new ones may be added."""
    request = manifest.request
    document = {
        "format": manifest.format,
        "schema_version": SCHEMA_VERSION,
        "name": manifest.name,
        "time": utc_text(manifest.time_ms),
        "time_ms": manifest.time_ms,
        "zxid": None if manifest.zxid is None else f"0x{manifest.zxid:x}",
        "source": request.source,
        "options": dict(request.options),
        "engine": request.engine,
        "file_format": request.file_format,
        "started_ms": manifest.started_ms,
        "finished_ms": manifest.finished_ms,
        "warnings": list(manifest.warnings),
        **({} if manifest.since is None else {"since": manifest.since}),
        **({} if manifest.cluster is None else {"cluster": manifest.cluster}),
        "tables": {
            name: {
                "rows": table.rows,
                "bytes": table.bytes,
                "schema": table.schema,
                "files": [asdict(file) for file in table.files],
                **({} if table.version is None else {"version": table.version}),
            }
            for name, table in manifest.tables.items()
        },
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode_manifest(data: bytes, where: str) -> Manifest:
    """The manifest; `where` is its path for InvalidManifest."""
    try:
        document = json.loads(data)
        if document["format"] not in (INSIDE, FORMAT) or document["schema_version"] > SCHEMA_VERSION:
            raise InvalidManifest(
                f"{where} has format {document['format']}, schema version {document['schema_version']}: "
                "read it with a newer version of mledger"
            )
        request = Request(
            document["source"],
            tuple(sorted(document["options"].items())),
            document["engine"],
            document["file_format"],
        )
        return Manifest(
            document["name"],
            document["time_ms"],
            None if document["zxid"] is None else int(document["zxid"], 16),
            request,
            document["started_ms"],
            document["finished_ms"],
            tuple(document["warnings"]),
            {
                name: TableRecord(
                    table["schema"], tuple(FileRecord(**file) for file in table["files"]), table.get("version")
                )
                for name, table in document["tables"].items()
            },
            document["format"],
            document.get("since"),
            document.get("cluster"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidManifest(
            f"{where} is not the manifest of a snapshot ({type(error).__name__}: {error}): remove it, and export again"
        ) from None


def encode_removal(tables: Iterable[str]) -> bytes:
    """What is written down before a snapshot's removal: the tables that have a partition of it."""
    return json.dumps({"tables": sorted(tables)}).encode()


def decode_removal(data: bytes) -> list[str]:
    """The tables with a partition of a snapshot that is removed; all, if an earlier release did not say which."""
    try:
        return [str(each) for each in json.loads(data)["tables"]]
    except (ValueError, KeyError, TypeError):
        return list(TABLES)


def _compact(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{time_ms % 1000:03d}Z"
