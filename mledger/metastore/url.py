"""Metadata URLs, and the stores they name. What a store needs is imported when one is opened: commands start sooner."""

import os
import re
from collections.abc import Coroutine
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mledger.metastore.errors import InvalidMetadataUrl, InvalidName
from mledger.metastore.records.node_path import check_path
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.renewed_reader import RenewedReader
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import MetadataReader, MetadataStore

DEFAULT_PORT = 2181
FORMS = "write it as zk://host:port,host:port/chroot, rocksdb:DIR or memory:name"
CONFIG = "?config="
ELSEWHERE = ("etcd", "oxia")  # Pulsar's other stores

R = TypeVar("R", bound=MetadataReader)

_LEDGERS_PART = re.compile(r"[?&]ledgers=")
_SERVICE_URI = re.compile(r"\Azk\+(?:null|hierarchical):", re.IGNORECASE)
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]/@,]+)(?::(?P<port>\d{1,5}))?")


class ZooKeeperUrl(Struct, frozen=True):
    """An ensemble, the node below which everything is (empty: its root), and the file that says how to log in.

    What the file can say: `mledger.metastore.zookeeper.security`.
    """

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""
    config: str = ""

    @property
    def connect_string(self) -> str:
        """`host:port,host:port`."""
        return ",".join(f"{host}:{port}" for host, port in self.hosts)

    def __str__(self) -> str:
        return f"zk://{self.connect_string}{self.chroot}" + (f"{CONFIG}{self.config}" if self.config else "")


class MemoryUrl(Struct, frozen=True):
    """A tree in this process; the empty name is a new tree each time."""

    name: str = ""

    def __str__(self) -> str:
        return f"memory:{self.name}"


class RocksDbUrl(Struct, frozen=True):
    """The directory, absolute, whose server process keeps the tree."""

    directory: str

    def __str__(self) -> str:
        return f"rocksdb:{self.directory}"


StoreUrl = ZooKeeperUrl | RocksDbUrl | MemoryUrl


class SplitUrl(Struct, frozen=True):
    """Topics in one store, ledgers in another, there below `root`."""

    topics: StoreUrl
    ledgers: StoreUrl
    root: str = LEDGERS

    def __str__(self) -> str:
        separator = "&" if isinstance(self.topics, ZooKeeperUrl) and self.topics.config else "?"
        ledgers = self.ledgers
        if isinstance(ledgers, ZooKeeperUrl):
            ledgers = replace(ledgers, chroot=self.root)
        return f"{self.topics}{separator}ledgers={ledgers}"


def parse_url(url: str) -> StoreUrl | SplitUrl:
    """What `url` names: `zk://host:port,…/chroot`, `zk:host:port,…` as Pulsar writes it, `rocksdb:DIR`, `memory:name`.

    A ZooKeeper URL may end with `?config=FILE`, which says how to log in. Any may end with `?ledgers=URL` (after a
    config: `&ledgers=URL`): where BookKeeper has its ledgers, if not in the same store below `/ledgers`; a path in it
    is that of the ledgers. It may be written as in broker.conf, `zk+hierarchical://host:port;host:port/ledgers`.

    A relative DIR is one below the current directory.

    Raises:
        InvalidMetadataUrl: anything else; says what to write.
    """
    if ledgers := _LEDGERS_PART.search(url):
        return _parse_joined(url[: ledgers.start()], url[ledgers.end() :])
    return _parse_store(url)


def _parse_joined(topics: str, ledgers: str) -> SplitUrl:
    there = _SERVICE_URI.sub("zk:", ledgers.removeprefix("metadata-store:"))
    if there != ledgers:
        there = there.replace(";", ",")
    parsed = _parse_store(there)
    if not isinstance(parsed, ZooKeeperUrl):
        return SplitUrl(_parse_store(topics), parsed)
    return SplitUrl(_parse_store(topics), replace(parsed, chroot=""), parsed.chroot or LEDGERS)


def _parse_store(url: str) -> StoreUrl:
    scheme, separator, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme == "memory" and separator:
        return MemoryUrl(rest)
    if scheme == "zk" and rest:
        return _parse_ensemble(url, rest.removeprefix("//"))
    if scheme == "rocksdb" and rest:
        return _parse_directory(url, rest)
    if scheme in ELSEWHERE:
        raise InvalidMetadataUrl(f"metadata in {scheme} is not supported: {FORMS}")
    raise InvalidMetadataUrl(f"{_without_credentials(url)!r} is not a metadata URL: {FORMS}")


def _parse_ensemble(url: str, rest: str) -> ZooKeeperUrl:
    if "@" in rest:
        raise InvalidMetadataUrl(
            f"{_without_credentials(url)!r} has credentials: put them into a file and write {CONFIG}FILE at the end"
        )
    rest, _, config = rest.partition(CONFIG)
    config = config and os.path.abspath(config)
    names, slash, chroot = rest.partition("/")
    hosts = []
    for name in names.split(","):
        match = _HOST.fullmatch(name.strip())
        port = int(match["port"] or DEFAULT_PORT) if match else 0
        if match is None or not 0 < port < 65536:
            raise InvalidMetadataUrl(f"{name!r} in {url!r} is not a host and port: {FORMS}")
        hosts.append((match["host"], port))
    if not chroot:
        return ZooKeeperUrl(tuple(hosts), config=config)
    try:
        return ZooKeeperUrl(tuple(hosts), check_path(slash + chroot.removesuffix("/")), config)
    except InvalidName:
        raise InvalidMetadataUrl(f"{slash + chroot!r} in {url!r} is not a node's path: {FORMS}") from None


def _parse_directory(url: str, rest: str) -> RocksDbUrl:
    if rest.startswith("//") and not rest.startswith("///"):
        raise InvalidMetadataUrl(f"{url!r} names a host where a directory is meant: {FORMS}")
    if "\0" in rest:
        raise InvalidMetadataUrl(f"{url!r} is no directory's name: {FORMS}")
    return RocksDbUrl(os.path.abspath(rest.removeprefix("//")))


def has_ledgers_apart(url: str) -> bool:
    """Whether `url` names a store of its own for the ledgers: another cluster may have its ledgers there too."""
    return _LEDGERS_PART.search(url) is not None


async def _open_both(opened: Coroutine[Any, Any, R], other: Coroutine[Any, Any, R]) -> tuple[R, R]:
    """Both stores, or neither."""
    try:
        first = await opened
    except BaseException:
        other.close()
        raise
    try:
        return first, await other
    except BaseException:
        await first.close()
        raise


def _without_credentials(url: str) -> str:
    return re.sub(r"[^/]*@", "", url)


async def open_store(
    url: str, *, session_timeout: float = SESSION_TIMEOUT_S, timeout: float = 10.0, create_chroot: bool = False
) -> MetadataStore:
    """Open the store at `url` for reading and writing.

    Args:
        url: see `parse_url`.
        session_timeout: seconds without contact after which the session, and its ephemeral nodes, end.
        timeout: seconds an operation may take, connecting included.
        create_chroot: create the URL's chroot if it is not there.

    Raises:
        InvalidMetadataUrl: not a URL of a store known here.
        StoreUnavailable: nobody answers.
        NodeNotFound: the chroot does not exist.
    """
    parsed = parse_url(url)
    if isinstance(parsed, SplitUrl):
        from mledger.metastore.split_store import SplitStore

        options: dict[str, Any] = {"session_timeout": session_timeout, "timeout": timeout}
        topics = open_store(str(parsed.topics), **options, create_chroot=create_chroot)
        return SplitStore(
            str(parsed), *await _open_both(topics, open_store(str(parsed.ledgers), **options)), parsed.root
        )
    match parsed:
        case ZooKeeperUrl() as ensemble:
            from mledger.metastore.zookeeper.store import ZooKeeperStore

            return await ZooKeeperStore.open(
                ensemble.connect_string,
                ensemble.chroot,
                session_timeout=session_timeout,
                timeout=timeout,
                config=ensemble.config,
                create_chroot=create_chroot,
            )
        case RocksDbUrl(directory):
            from mledger.metastore.rocksdb.store import RocksDbStore

            return await RocksDbStore.open(directory, session_timeout=session_timeout, timeout=timeout)
        case MemoryUrl(name):
            from mledger.metastore.memory.store import MemoryStore

            return MemoryStore(name)


async def open_reader(url: str, *, session_timeout: float = SESSION_TIMEOUT_S, timeout: float = 10.0) -> MetadataReader:
    """Open the store at `url` read-only (M9): the object has no method that writes.

    Raises:
        InvalidMetadataUrl, StoreUnavailable, NodeNotFound: as `open_store`.
    """
    parsed = parse_url(url)
    if isinstance(parsed, SplitUrl):
        from mledger.metastore.split_store import SplitReader

        options: dict[str, Any] = {"session_timeout": session_timeout, "timeout": timeout}
        both = _open_both(open_reader(str(parsed.topics), **options), open_reader(str(parsed.ledgers), **options))
        return SplitReader(str(parsed), *await both, parsed.root)
    match parsed:
        case ZooKeeperUrl() as ensemble:
            from mledger.metastore.zookeeper.store import ZooKeeperReader

            return await ZooKeeperReader.open(
                ensemble.connect_string,
                ensemble.chroot,
                session_timeout=session_timeout,
                timeout=timeout,
                config=ensemble.config,
            )
        case RocksDbUrl(directory):
            from mledger.metastore.rocksdb.store import RocksDbReader

            return await RocksDbReader.open(directory, session_timeout=session_timeout, timeout=timeout)
        case MemoryUrl(name):
            from mledger.metastore.memory.store import MemoryReader

            return MemoryReader(name)


async def open_synced_reader(
    url: str, *, session_timeout: float = SESSION_TIMEOUT_S, timeout: float = 10.0
) -> MetadataReader:
    """As `open_reader`; it shows no state older than this call, also where a server lags (`MetadataReader.sync`).

    ZooKeeper's own sessions begin so, but not local ones (`localSessionsEnabled`).

    Raises:
        InvalidMetadataUrl, StoreUnavailable, NodeNotFound: as `open_store`.
    """
    reader = await open_reader(url, session_timeout=session_timeout, timeout=timeout)
    try:
        await reader.sync()
    except BaseException:
        await reader.close()
        raise
    return reader


async def open_renewed_reader(
    url: str, *, session_timeout: float = SESSION_TIMEOUT_S, timeout: float = 10.0
) -> MetadataReader:
    """As `open_synced_reader`, for a reader that outlives its session: it opens another when the server ends it.

    Raises:
        InvalidMetadataUrl, StoreUnavailable, NodeNotFound: as `open_store`.
    """

    async def open_session() -> MetadataReader:
        return await open_synced_reader(url, session_timeout=session_timeout, timeout=timeout)

    return RenewedReader(await open_session(), open_session, timeout)
