"""The options for reading tables, parsed from strings as Spark and commands pass them; pure."""

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
    "metadata": "what to read: `zk://host:port,…/chroot`, `rocksdb:DIR`, or the directory of ZooKeeper's own files"
    " or of a backup of them: `file:///path`, `hdfs://…`, `s3://…`",
    "tenant": "only this tenant",
    "namespace": "only this namespace, `tenant/namespace`",
    "topic": "only this topic, with its partitions",
    "state": "`stored` (default): what the znodes say; `recovered`: what opening each topic would find, read from the"
    " bookies without fencing",
    "rate": "the most znodes per second that all tasks together read; default: no limit",
    "partitions": "how many tasks share the topics, ledgers or files; default: by size and by the cores of the"
    " planning process, 2 with a rate",
    "zxid": "files only: the tree after this transaction (`0x…` or decimal); default: the newest",
    "time": "files only: the tree after the last transaction at or before this time: ISO 8601, or ms since 1970",
    "after": "`changes` only: transactions after this zxid; default: all that the logs hold",
    "logs": "files only: the directory of the transaction logs (`dataLogDir`), if it is a different one",
    "chroot": "files only: the cluster's chroot",
    "verifyDigests": "files only: compare the tree with the digests that ZooKeeper recorded; default true",
    "ledgersRoot": "the node of BookKeeper's ledgers; default `/ledgers`",
    "password": "the cluster's managedLedgerPassword, for `state=recovered`; default: what each ledger's metadata has",
}
"""Every option with its meaning."""

FILES_ONLY = ("zxid", "time", "after", "logs", "chroot", "verifydigests")
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
    after: int | None = None
    logs: str | None = None
    chroot: str = ""
    verify_digests: bool = True
    ledgers_root: str = LEDGERS
    password: bytes = field(default=b"", repr=False)

    def within(self, scope: TopicScope) -> "ReadOptions":
        """The same options, limited to what `scope` admits as well."""
        narrowed = self.scope.narrowed(tenants=scope.tenants, namespaces=scope.namespaces, topics=scope.topics)
        return replace(self, scope=narrowed)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """The parsed options; names are case-insensitive. InvalidOption, InvalidMetadataUrl."""
    given = {name.lower(): value for name, value in options.items() if value != ""}
    unknown = [name for name in options if name.lower() not in _BY_LOWER]
    if unknown:
        raise InvalidOption(f"there is no option {', '.join(sorted(unknown))}: the options are {', '.join(OPTIONS)}")
    metadata = given.get("metadata", "")
    if not metadata:
        raise InvalidOption("the option metadata is missing: set it to what to read, for example zk://127.0.0.1:2181")
    files = is_files(metadata)
    misplaced = [_BY_LOWER[name] for name in FILES_ONLY if name in given and not files]
    if misplaced:
        raise InvalidOption(
            f"{', '.join(misplaced)}: only for ZooKeeper's own files, but metadata names a running store"
        )
    if not files:
        parse_url(metadata)
    state = given.get("state", "stored")
    if state not in ("stored", "recovered"):
        raise InvalidOption(f"state {state!r}: it must be stored or recovered")
    if files and (state == "recovered" or "rate" in given):
        raise InvalidOption("state=recovered and rate are for a running cluster, but metadata names files")
    if "zxid" in given and "time" in given:
        raise InvalidOption("zxid and time: set one of them, not both")
    return ReadOptions(
        metadata=metadata,
        files=files,
        scope=parse_scope(given.get("tenant"), given.get("namespace"), given.get("topic")),
        state="recovered" if state == "recovered" else "stored",
        rate=_positive(given, "rate"),
        partitions=_count(given, "partitions"),
        zxid=_zxid("zxid", given),
        after=_zxid("after", given),
        time_ms=_time(given.get("time")),
        logs=given.get("logs"),
        chroot=_node(given, "chroot", ""),
        verify_digests=_flag(given.get("verifydigests"), default=True),
        ledgers_root=_node(given, "ledgersroot", LEDGERS),
        password=given.get("password", "").encode(),
    )


def is_files(metadata: str) -> bool:
    """Whether `metadata` names ZooKeeper's files, not a running store."""
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
        raise InvalidOption(f"{name} {given[name]!r}: it must be a number above 0")
    return value


def _count(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", given[name]):
        raise InvalidOption(f"{name} {given[name]!r}: it must be a whole number from 1 to 999999")
    return int(given[name])


def _flag(text: str | None, *, default: bool) -> bool:
    if text is None:
        return default
    if text.lower() not in (*_TRUE, *_FALSE):
        raise InvalidOption(f"verifyDigests {text!r}: it must be true or false")
    return text.lower() in _TRUE


def _node(given: Mapping[str, str], name: str, default: str) -> str:
    path = given.get(name, default).rstrip("/")
    if default and not path:
        raise InvalidOption(f"{_BY_LOWER[name]} {given[name]!r}: it must be a node below the root, such as {default}")
    try:
        return check_path(path) if path else path
    except InvalidName as error:
        raise InvalidOption(f"{_BY_LOWER[name]}: {error}") from None


def _zxid(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        zxid = int(text, 0)
    except ValueError:
        zxid = -1
    if not 0 <= zxid < 1 << 63:
        raise InvalidOption(f"{name} {text!r}: write it as 0x… or as a decimal number")
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
