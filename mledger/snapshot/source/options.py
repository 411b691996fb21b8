"""What a reading of tables can be told, parsed from texts as Spark and commands hand them over; pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import urlsplit

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.node_path import check_path
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.url import parse_url
from mledger.snapshot.tables.scope import TopicScope, parse_scope
from mledger.snapshot.zookeeper_files.errors import InvalidOption

State = Literal["stored", "recovered"]

_STORES = ("zk", "rocksdb", "memory")
_TRUE, _FALSE = ("true", "yes", "1"), ("false", "no", "0")

OPTIONS: Mapping[str, str] = {
    "metadata": "where to read: `zk://host:port,…/chroot`, `rocksdb:DIR`, or the directory of ZooKeeper's own files"
    " or of a backup of them: `file:///path`, `hdfs://…`, `s3://…`",
    "tenant": "only this tenant",
    "namespace": "only this namespace, `tenant/namespace`",
    "topic": "only this topic, with its partitions",
    "state": "`stored` (default): what the znodes say; `recovered`: what opening each topic would find, asked of the"
    " bookies without fencing",
    "rate": "znodes a second that are read at most, by all tasks together; default: no limit",
    "partitions": "how many tasks to split topics, ledgers, or files among; default: by size, 2 for files or with a"
    " rate",
    "zxid": "files only: the tree after this transaction (`0x…` or decimal); default: the newest",
    "time": "files only: the tree after the last transaction made by then: ISO 8601, or ms since 1970",
    "logs": "files only: the directory of the transaction logs (`dataLogDir`), where it is another",
    "chroot": "files only: the node below which the cluster is",
    "verifyDigests": "files only: compare the tree with ZooKeeper's digests of it; default true",
    "ledgersRoot": "where BookKeeper's ledgers are; default `/ledgers`",
    "password": "managedLedgerPassword of the cluster, where it has one; for `state=recovered`",
}
"""Every option and what it means."""

FILES_ONLY = ("zxid", "time", "logs", "chroot", "verifydigests")
_BY_LOWER = {name.lower(): name for name in OPTIONS}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read tables. `files`: `metadata` names ZooKeeper's own files. Times in ms since 1970, rate in znodes/s."""

    metadata: str
    files: bool = False
    scope: TopicScope = field(default_factory=TopicScope)
    state: State = "stored"
    rate: float | None = None
    partitions: int | None = None
    zxid: int | None = None
    time_ms: int | None = None
    logs: str | None = None
    chroot: str = ""
    verify_digests: bool = True
    ledgers_root: str = LEDGERS
    password: bytes = field(default=b"", repr=False)

    def within(self, scope: TopicScope) -> "ReadOptions":
        """The same, and only what `scope` admits too."""
        narrowed = self.scope.narrowed(tenants=scope.tenants, namespaces=scope.namespaces, topics=scope.topics)
        return replace(self, scope=narrowed)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """The options, whose names are read in any case; InvalidOption, InvalidMetadataUrl."""
    given = {name.lower(): value for name, value in options.items() if value != ""}
    unknown = [name for name in options if name.lower() not in _BY_LOWER]
    if unknown:
        raise InvalidOption(f"there is no option {', '.join(sorted(unknown))}: there are {', '.join(OPTIONS)}")
    metadata = given.get("metadata", "")
    if not metadata:
        raise InvalidOption("the option metadata is missing: where to read, for example zk://127.0.0.1:2181")
    files = is_files(metadata)
    misplaced = [_BY_LOWER[name] for name in FILES_ONLY if name in given and not files]
    if misplaced:
        raise InvalidOption(
            f"{', '.join(misplaced)}: only for ZooKeeper's own files, and metadata names a running store"
        )
    if not files:
        parse_url(metadata)
    state = given.get("state", "stored")
    if state not in ("stored", "recovered"):
        raise InvalidOption(f"state {state!r}: it is stored or recovered")
    if files and (state == "recovered" or "rate" in given):
        raise InvalidOption("state=recovered and rate are for a running cluster, and metadata names files")
    if "zxid" in given and "time" in given:
        raise InvalidOption("zxid and time: name one of them, not both")
    return ReadOptions(
        metadata=metadata,
        files=files,
        scope=parse_scope(given.get("tenant"), given.get("namespace"), given.get("topic")),
        state="recovered" if state == "recovered" else "stored",
        rate=_positive(given, "rate"),
        partitions=_count(given, "partitions"),
        zxid=_zxid(given.get("zxid")),
        time_ms=_time(given.get("time")),
        logs=given.get("logs"),
        chroot=_node(given, "chroot", ""),
        verify_digests=_flag(given.get("verifydigests"), default=True),
        ledgers_root=_node(given, "ledgersroot", LEDGERS),
        password=given.get("password", "").encode(),
    )


def is_files(metadata: str) -> bool:
    """Whether `metadata` names files of ZooKeeper, not a store that runs."""
    scheme = urlsplit(metadata).scheme.lower()
    return (
        metadata.startswith("/")
        or ("://" in metadata and scheme not in (*_STORES, "etcd", "oxia"))
        or (scheme == "file")
    )


def _positive(given: Mapping[str, str], name: str) -> float | None:
    if name not in given:
        return None
    try:
        value = float(given[name])
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise InvalidOption(f"{name} {given[name]!r}: it is a number above 0")
    return value


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", given[name]):
        raise InvalidOption(f"{name} {given[name]!r}: it is a whole number above 0")
    return int(given[name])


def _flag(text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in (*_TRUE, *_FALSE):
        raise InvalidOption(f"verifyDigests {text!r}: it is true or false")
    return text.lower() in _TRUE


def _node(given: Mapping[str, str], name: str, default: str) -> str:
    path = given.get(name, default).rstrip("/")
    try:
        return check_path(path) if path else path
    except InvalidName as error:
        raise InvalidOption(f"{_BY_LOWER[name]}: {error}") from None


def _zxid(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        zxid = int(text, 0)
    except ValueError:
        zxid = -1
    if not 0 <= zxid < 1 << 63:
        raise InvalidOption(f"zxid {text!r}: write it as 0x… or as a decimal number")
    return zxid


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidOption(f"time {text!r}: write it as 2026-01-31T12:00:00Z, or in ms since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
