"""What a snapshot on disk says of itself: `manifest.json`, and the names of snapshots; pure.

A snapshot is the directory `snapshot=NAME` with a manifest in it, and a directory of files for each table. The manifest
is complete: what it does not name does not belong to the snapshot.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from mledger.metastore.runtime.times import utc_text
from mledger.snapshot.exports.errors import InvalidManifest, InvalidSnapshotName
from mledger.snapshot.tables.row_builder import TABLES

FORMAT = 1
SCHEMA_VERSION = 1
"""Of the tables' columns: raised when one is removed or changes its meaning."""

PREFIX = "snapshot="
MANIFEST = "manifest.json"
UNTOLD = ("rate", "partitions", "password", "verifydigests")
"""Options that do not change what is exported, or are nobody's business."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of a table: its path in the snapshot, rows, size in bytes, and SHA-256 in hexadecimal."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TableRecord:
    """A table of a snapshot: its schema as SQL writes it, and its files."""

    schema: str
    files: tuple[FileRecord, ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """How much its files hold."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be exported: two exports of equal requests are tries at the same thing.

    `source` is without credentials, `options` are those of the reading that change what is read, sorted.
    """

    source: str
    options: tuple[tuple[str, str], ...]
    engine: str
    file_format: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A snapshot. Times in ms since 1970: `time_ms` is what it stands for, of a running store when reading it began."""

    name: str
    time_ms: int
    zxid: int | None
    request: Request
    started_ms: int
    finished_ms: int
    warnings: tuple[str, ...]
    tables: Mapping[str, TableRecord]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(table.bytes for table in self.tables.values())

    @property
    def paths(self) -> set[str]:
        """Every file that belongs to it, but for the manifest."""
        return {file.path for table in self.tables.values() for file in table.files}


def check_name(name: str) -> str:
    """The name if a snapshot may have it; InvalidSnapshotName."""
    if not _NAME.fullmatch(name):
        raise InvalidSnapshotName(f"{name!r} cannot name a snapshot: use letters, digits, dots, dashes, at most 100")
    return name


def default_name(time_ms: int | None, zxid: int | None) -> str:
    """The name of what stands for this time and transaction; of the same point always the same."""
    parts = [] if time_ms is None else [_compact(time_ms)]
    parts += [] if zxid is None else [f"zxid{zxid:x}"]
    return "-".join(parts)


def request_of(options: Mapping[str, str], engine: str, file_format: str) -> Request:
    """The request that these options of a reading make."""
    kept = {name.lower(): value for name, value in options.items() if value != ""}
    source = re.sub(r"[^/]*@", "", kept["metadata"])  # credentials
    told = sorted((name, value) for name, value in kept.items() if name not in (*UNTOLD, "metadata"))
    return Request(source, tuple(told), engine, file_format)


def fingerprint(request: Request) -> str:
    """What tells requests apart, the tables' columns included."""
    schemas = {name: table.ddl for name, table in TABLES.items()}
    text = json.dumps([asdict(request), SCHEMA_VERSION, schemas], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tables_of(files: Iterable[tuple[str, FileRecord]]) -> dict[str, TableRecord]:
    """The records of all tables, of files given with their table's name."""
    found: dict[str, list[FileRecord]] = {name: [] for name in TABLES}
    for name, file in files:
        found[name].append(file)
    return {
        name: TableRecord(TABLES[name].ddl, tuple(sorted(records, key=lambda file: file.path)))
        for name, records in found.items()
    }


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as JSON; its keys are stable, new ones may come."""
    request = manifest.request
    document = {
        "format": FORMAT,
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
        "tables": {
            name: {
                "rows": table.rows,
                "bytes": table.bytes,
                "schema": table.schema,
                "files": [asdict(file) for file in table.files],
            }
            for name, table in manifest.tables.items()
        },
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode_manifest(data: bytes, where: str) -> Manifest:
    """The manifest; InvalidManifest names `where` it lies."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT or document["schema_version"] > SCHEMA_VERSION:
            raise InvalidManifest(
                f"{where} is of format {document['format']}, schema version {document['schema_version']}: "
                "read it by a newer version of this program"
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
                name: TableRecord(table["schema"], tuple(FileRecord(**file) for file in table["files"]))
                for name, table in document["tables"].items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidManifest(
            f"{where} is no manifest of a snapshot ({type(error).__name__}: {error}): export it again"
        ) from None


def plan_retention(manifests: Iterable[Manifest], keep: int, coming: str | None = None) -> tuple[Manifest, ...]:
    """The snapshots to remove so that the newest `keep` stay, oldest first; `coming` is one yet to be written.

    The one that is coming stays, whatever time it stands for.
    """
    others = sorted((each for each in manifests if each.name != coming), key=lambda each: (each.time_ms, each.name))
    stay = keep - (coming is not None)
    return tuple(others[: max(0, len(others) - stay)])


def _compact(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y%m%dT%H%M%S}.{time_ms % 1000:03d}Z"
