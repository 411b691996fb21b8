"""The metadata store in ZooKeeper, over kazoo.

Reads that are lost with the connection are sent again within the operation's time-out. Writes never are: whether a lost
write was carried out only its caller can find out, by reading back (M7).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from kazoo.exceptions import (
    EXCEPTIONS,
    BadArgumentsError,
    BadVersionError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnimplementedError,
)
from kazoo.protocol.serialization import (
    CheckVersion,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    SetData,
    Sync,
)
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.security import ACL, Id, Permissions

from mledger.metastore.closed_nodes import all_or_error
from mledger.metastore.errors import (
    BadVersion,
    InvalidName,
    MetadataAccessDenied,
    MetadataError,
    NoChildrenForEphemerals,
    NodeExists,
    NodeNotEmpty,
    NodeNotFound,
    NodeTooLarge,
    StoreUnavailable,
)
from mledger.metastore.records.node_path import ancestors_of, check_operation, check_path
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import SESSION_TIMEOUT_S, SessionReader
from mledger.metastore.store import (
    ANY_VERSION,
    MAX_REQUEST_BYTES,
    Check,
    Create,
    Delete,
    MetadataStore,
    Node,
    NodeChange,
    Operation,
    Put,
    Result,
    Stat,
)
from mledger.metastore.zookeeper import multiread, multiwrite
from mledger.metastore.zookeeper.connection import Withdrawable, ZooKeeperConnection, is_connection_loss
from mledger.metastore.zookeeper.security import AclEntry, Security, parse_acl_entry, read_security
from mledger.metastore.zookeeper.tree_watch import TreeWatch
from mledger.metastore.zookeeper.watch import Watch

_PERMISSIONS = {
    "c": Permissions.CREATE,
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "d": Permissions.DELETE,
    "a": Permissions.ADMIN,
}
RAISED_REQUEST_BYTES = 10_485_760
"""What Pulsar's scripts start servers and brokers with: a node above ZooKeeper's own limit shows that it was raised."""
SINGLE_READS = 1_000  # asked for at once where the server has no multiRead

# Kazoo's error, ours, and what to say of the path.
_Errors = type[Exception] | tuple[type[Exception], ...]
_GIVEN_UP = (OperationTimeoutError, RequestTimeoutError, SessionMovedError, ThrottledOpError)
_ERRORS: tuple[tuple[_Errors, type[MetadataError], str], ...] = (
    (NoNodeError, NodeNotFound, "does not exist, or its parent does not"),
    (NodeExistsError, NodeExists, "exists already"),
    (NotEmptyError, NodeNotEmpty, "has children: delete them first"),
    (BadVersionError, BadVersion, "is not at the version expected: somebody else changed it"),
    (
        NoChildrenForEphemeralsError,
        NoChildrenForEphemerals,
        "would be below an ephemeral node, which can have no children",
    ),
    (
        NoAuthError,
        MetadataAccessDenied,
        "is closed to this client by its access control list: open it, or log in by ?config=FILE in the URL",
    ),
    (BadArgumentsError, InvalidName, "is not a path that ZooKeeper takes"),
    (_GIVEN_UP, StoreUnavailable, "was given up by the server: try again, after a write read back first"),
)


def _acl(entry: AclEntry) -> Any:
    permissions = sum(_PERMISSIONS[letter] for letter in set(entry.permissions))
    return ACL(permissions, Id(entry.scheme, entry.identity))


def _acl_texts(entries: Any) -> tuple[str, ...]:
    """An access control list as `Create` takes it."""
    return tuple(
        f"{entry.id.scheme}:{entry.id.id}:"
        + "".join(letter for letter, bit in _PERMISSIONS.items() if entry.perms & bit)
        for entry in entries
    )


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.ctime, stat.mtime, stat.numChildren, stat.ephemeralOwner, stat.czxid, stat.mzxid)


class ZooKeeperReader(SessionReader):
    """Looks at the tree below a chroot; opened by `open`."""

    def __init__(self, connection: ZooKeeperConnection, chroot: str, timeout: float, security: Security) -> None:
        """Use `open`."""
        self._acl = [_acl(entry) for entry in security.acl]
        self._acl_bytes = multiwrite.write_acl(self._acl)
        self._most_bytes = security.max_request_bytes or MAX_REQUEST_BYTES
        self._learns = not security.max_request_bytes
        self._connection = connection
        self._session = connection.session
        self._chroot = chroot
        self._timeout = timeout
        self._has_multiread = self._has_tree_watch = True
        self._bytes_before: dict[int, int] = {}  # of a node in the last rounds, by kind of read

    @classmethod
    async def open(
        cls,
        hosts: str,
        chroot: str = "",
        *,
        session_timeout: float = SESSION_TIMEOUT_S,
        timeout: float = 10.0,
        config: str = "",
    ) -> Self:
        """Connect to `hosts` (`host:port,…`) as the file `config` says; see `mledger.metastore.url.open_store`."""
        security = read_security(config) if config else Security()
        url = f"zk://{hosts}{chroot}" + (f"?config={config}" if config else "")
        store = cls(ZooKeeperConnection(hosts, url, session_timeout, security), chroot, timeout, security)
        await store._connection.open(timeout)
        try:
            await store._prepare_chroot()
        except BaseException:
            await store.close()
            raise
        return store

    async def sync(self) -> None:
        """Have the server catch up with its leader; it answers later reads of this session from there on.

        When the connection is lost in between, ZooKeeper refuses this session on servers that are behind the answer.
        """
        await self._read(Sync(self._full("/")), "/")

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        data, stat = await self._read(GetData(self._full(path), None), path)
        node = Node(data or b"", _stat(stat))
        self._learn([node])
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none; some hundred in a request."""
        found: list[Node | None] = await self._read_many(multiread.GET_DATA, paths, self._get_or_none)
        self._learn(found)
        return found

    def _learn(self, nodes: Sequence[Node | None]) -> None:
        """A node above the default limit on requests shows that the servers have a higher one."""
        if self._learns and any(node is not None and len(node.data) > MAX_REQUEST_BYTES for node in nodes):
            self._most_bytes, self._learns = RAISED_REQUEST_BYTES, False

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        stat = await self._read(Exists(self._full(path), None), path)
        return None if stat is None else _stat(stat)

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        return sorted(await self._read(GetChildren(self._full(path), None), path))

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node; some hundred in a request."""
        return await self._read_many(multiread.GET_CHILDREN, paths, self._children_or_none)

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths`, empty where there is no node. One read each.

        Who may not administer a node sees digests as `x`.
        """
        found: list[tuple[str, ...]] = []
        for start in range(0, len(paths), SINGLE_READS):
            found += await asyncio.gather(*map(self._acl_or_none, paths[start : start + SINGLE_READS]))
        return found

    @asynccontextmanager
    async def watch(self, path: str, *, children: bool = False) -> AsyncIterator[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        watch = Watch(self._connection, self._full(path), children, lambda request: self._read(request, path))
        try:
            await watch.arm()
            yield watch.changes()
        finally:
            watch.cancel()

    async def watch_tree(self, path: str, changed: Callable[[str], None], lost: Callable[[], None]) -> bool:
        """As `MetadataReader.watch_tree`; False for servers before 3.6."""
        if self._has_tree_watch:
            watch = TreeWatch(self._connection, self._full(path), lambda full: changed(full[len(self._chroot) :]), lost)
            self._has_tree_watch = await watch.arm(lambda request: self._read(request, path))
        return self._has_tree_watch

    async def close(self) -> None:
        """End the session; ephemeral nodes go. A second call does nothing."""
        await self._connection.close()

    async def _prepare_chroot(self) -> None:
        if self._chroot and await self.exists("/") is None:
            raise NodeNotFound(
                f"{self.url} has no node {self._chroot}: correct the URL, or create the node if this is a new cluster",
                self._chroot,
            )

    def _full(self, path: str) -> str:
        check_path(path)
        return (self._chroot if path == "/" else self._chroot + path) or "/"

    async def _read(self, request: Any, path: str) -> Any:
        """The result of a request that changes nothing, sent again when its connection is lost."""
        try:
            async with TimeLimit(self._timeout):
                while True:
                    try:
                        return await self._connection.submit(request)
                    except Exception as error:
                        if not is_connection_loss(error):
                            raise self._error(error, path) from error
        except TimeoutError:
            raise self._unavailable(path) from None

    async def _read_many(self, kind: int, paths: Sequence[str], read_one: Any) -> list[Any]:
        """The results in order: rounds of multiReads, or of `read_one` where the server has none."""
        found: list[Any] = []
        replies: list[multiread.MultiReadReply] = []
        while len(found) < len(paths):
            if not self._has_multiread:
                part = paths[len(found) : len(found) + SINGLE_READS]
                found += all_or_error(await asyncio.gather(*map(read_one, part), return_exceptions=True))
                continue
            count, nodes = multiread.plan_round(len(found), replies, self._bytes_before.get(kind, 0))
            requests = multiread.plan_requests(paths[len(found) : len(found) + count], nodes)
            try:
                replies = await asyncio.gather(*(self._multiread(kind, request) for request in requests))
            except UnimplementedError:
                self._has_multiread = False
                continue
            for reply in replies:
                found += reply.values
        if replies:  # calls for small nodes alternate with calls for large ones: forget a large size slowly
            before = self._bytes_before.get(kind, 0)
            self._bytes_before[kind] = max(multiread.mean_bytes(replies), before * 3 // 4)
        return found

    async def _multiread(self, kind: int, paths: Sequence[str]) -> multiread.MultiReadReply:
        chroot = self._chroot
        full = [chroot + check_path(path) if path != "/" else chroot or path for path in paths]
        reply: multiread.MultiReadReply = await self._read(multiread.MultiRead(kind, full), paths[0])
        all_or_error([self._error(EXCEPTIONS[code](), paths[index]) for index, code in reply.refused])
        return reply

    async def _get_or_none(self, path: str) -> Node | None:
        try:
            return await self.get(path)
        except NodeNotFound:
            return None

    async def _children_or_none(self, path: str) -> list[str] | None:
        try:
            return await self.children(path)
        except NodeNotFound:
            return None

    async def _acl_or_none(self, path: str) -> tuple[str, ...]:
        try:
            entries, _ = await self._read(GetACL(self._full(path)), path)
        except NodeNotFound:
            return ()
        return _acl_texts(entries)

    def _unavailable(self, path: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{path}: no answer from ZooKeeper at {self._connection.hosts} within {self._timeout:g} s "
            f"(session {self._session.state.value}): check that it runs there and can be reached",
            path,
        )

    def _error(self, error: Exception, path: str) -> Exception:
        """Our error for one of kazoo's."""
        if isinstance(error, MetadataError | UnimplementedError):
            return error
        for theirs, ours, words in _ERRORS:
            if isinstance(error, theirs):
                return ours(f"{path} {words} ({self.url})", path)
        if isinstance(error, SessionExpiredError) or is_connection_loss(error):
            return self._session.ended() or StoreUnavailable(
                f"{path}: the connection to ZooKeeper at {self._connection.hosts} was lost; "
                "whether a write was carried out is not known: read back",
                path,
            )
        return MetadataError(f"{path}: ZooKeeper at {self._connection.hosts} answered {error!r}", path)


class ZooKeeperStore(ZooKeeperReader, MetadataStore):
    """Reads and writes the tree below a chroot; opened by `open`."""

    @classmethod
    async def open(
        cls,
        hosts: str,
        chroot: str = "",
        *,
        session_timeout: float = SESSION_TIMEOUT_S,
        timeout: float = 10.0,
        config: str = "",
        create_chroot: bool = False,
    ) -> Self:
        """Connect to `hosts` (`host:port,…`) as the file `config` says; see `mledger.metastore.url.open_store`."""
        if create_chroot and chroot:
            async with await cls.open(hosts, session_timeout=session_timeout, timeout=timeout, config=config) as root:
                await root._ensure(chroot)
        return await super().open(hosts, chroot, session_timeout=session_timeout, timeout=timeout, config=config)

    @property
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of this session."""
        return self._connection.session_id

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        create = Create(path, data, ephemeral, sequential)
        try:
            created: str = await self._write(self._request(create), path)
        except NodeNotFound:
            if not parents:
                raise
            await self._create_ancestors(path)
            created = await self._write(self._request(create), path)
        return created.removeprefix(self._chroot)

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version. BadVersion, NodeNotFound."""
        stat = await self._write(self._request(Put(path, data, version)), path)
        new_version: int = stat.version
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`. BadVersion, NodeNotFound, NodeNotEmpty."""
        await self._write(self._request(Delete(path, version)), path)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none. Raises what the first failing one would raise alone, with its path."""
        if not operations:
            return []
        request = multiwrite.MultiWrite(b"".join(map(self._operation_bytes, operations)))
        results = await self._write(request, operations[0].path)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError):
                raise self._error(result, operation.path)
        return [result.removeprefix(self._chroot) if isinstance(result, str) else result for result in results]

    def _operation_bytes(self, operation: Operation) -> bytes:
        check_operation(operation)
        acl = self._acl_bytes
        if isinstance(operation, Create) and operation.acl:
            acl = multiwrite.write_acl([_acl(parse_acl_entry(text)) for text in operation.acl])
        path = operation.path
        return multiwrite.write_operation(operation, (self._chroot if path == "/" else self._chroot + path) or "/", acl)

    async def _ensure(self, path: str) -> None:
        """Create `path` and its ancestors where they are not there."""
        if path != "/" and await self.exists(path) is None:
            await self._create_ancestors(path)
            await self._create_unless_there(path)

    async def _create_ancestors(self, path: str) -> None:
        ancestors = ancestors_of(path)
        found = await self.get_many(ancestors)
        missing = [ancestor for ancestor, node in zip(ancestors, found, strict=True) if node is None]
        await asyncio.gather(*map(self._create_unless_there, missing))  # sent in this order, top first

    async def _create_unless_there(self, path: str) -> None:
        with suppress(NodeExists):
            await self._write(self._request(Create(path)), path)

    def _request(self, operation: Operation) -> Any:
        check_operation(operation)
        match operation:
            case Create(path, data, ephemeral, sequential, acl):
                flags = multiwrite.EPHEMERAL * ephemeral | multiwrite.SEQUENTIAL * sequential
                entries = [_acl(parse_acl_entry(text)) for text in acl] or self._acl
                return CreateRequest(self._full(path), data, entries, flags)
            case Put(path, data, version):
                return SetData(self._full(path), data, version)
            case Delete(path, version):
                return DeleteRequest(self._full(path), version)
            case Check(path, version):
                return CheckVersion(self._full(path), version)

    async def _write(self, request: Any, path: str) -> Any:
        """The result of a request that is sent at most once."""
        data = bytes(request.serialize())
        size = len(data) + 8  # transaction and operation come before it
        if size > self._most_bytes:
            raise NodeTooLarge(
                f"{path}: a write of {size} bytes passes ZooKeeper's limit of {self._most_bytes} on one request "
                "(jute.maxbuffer; where the servers have another, say so in the file that ?config= names)",
                path,
            )
        try:
            async with TimeLimit(self._timeout):
                return await self._connection.submit(Withdrawable(request, data))
        except TimeoutError:
            raise self._unavailable(path) from None
        except Exception as error:
            raise self._error(error, path) from error
