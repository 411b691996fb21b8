"""The metadata store that a server process keeps in RocksDB, reached through the socket in its directory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Self

from mledger.metastore.errors import NodeNotFound, StoreUnavailable
from mledger.metastore.records.node_path import check_path, check_request
from mledger.metastore.records.pb import MetadataStore_pb2 as pb
from mledger.metastore.rocksdb import wire
from mledger.metastore.rocksdb.client_connection import ClientConnection, ConnectionGone
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import SESSION_TIMEOUT_S, SessionReader, WatchedChanges
from mledger.metastore.store import (
    ANY_VERSION,
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

PATHS_A_REQUEST = 2_000
REQUESTS_AT_ONCE = 4
"""Limit for one read of many nodes: the server disconnects a client that leaves more than a few answers unread."""


class RocksDbReader(SessionReader):
    """Reads the tree of a server; opened by `open`. The server keeps no session for it that could expire."""

    _only_reads = True

    def __init__(self, connection: ClientConnection, timeout: float) -> None:
        """Use `open`."""
        self._connection = connection
        self._session = connection.session
        self._timeout = timeout

    @classmethod
    async def open(cls, directory: str, *, session_timeout: float = SESSION_TIMEOUT_S, timeout: float = 10.0) -> Self:
        """Connect to the server of `directory`; see `mledger.metastore.url.open_store`."""
        connection = ClientConnection(directory, session_timeout, only_reads=cls._only_reads)
        await connection.open(timeout)
        return cls(connection, timeout)

    async def sync(self) -> None:
        """Do nothing: one server has the only state, and answers from it."""
        self._session.check()

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        (found,) = await self._read(pb.Read.DATA, [path])
        return _node(_there(found, path))

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none; thousands in one request."""
        found = await self._read(pb.Read.DATA, paths)
        return [_node(each) if each.HasField("stat") else None for each in found]

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        (found,) = await self._read(pb.Read.STAT, [path])
        return wire.stat_of(found.stat) if found.HasField("stat") else None

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        (found,) = await self._read(pb.Read.CHILDREN, [path])
        return list(_there(found, path).children)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node; thousands in one request."""
        found = await self._read(pb.Read.CHILDREN, paths)
        return [list(each.children) if each.HasField("stat") else None for each in found]

    @asynccontextmanager
    async def watch(self, path: str, *, children: bool = False) -> AsyncIterator[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        self._session.check()
        changes = WatchedChanges(self._session)
        async with self._in_time(path):
            subscription = await self._connection.watch(check_path(path), children, changes.add)
        self._session.listen(changes.state_changed)
        changes.state_changed(self._session.state)
        try:
            yield changes.taken()
        finally:
            self._session.unlisten(changes.state_changed)
            self._connection.unwatch(subscription)

    async def close(self) -> None:
        """End the session; ephemeral nodes go. A second call does nothing."""
        await self._connection.close()

    async def _read(self, want: "pb.Read.Want.ValueType", paths: Sequence[str]) -> list[pb.FoundNode]:
        """Read each path; the results are in the same order."""
        self._session.check()
        for path in paths:
            check_path(path)
        if not paths:
            return []
        places = asyncio.Semaphore(REQUESTS_AT_ONCE)
        starts = range(0, len(paths), PATHS_A_REQUEST)
        parts = await asyncio.gather(
            *(self._read_part(want, paths[start : start + PATHS_A_REQUEST], places) for start in starts)
        )
        return [found for part in parts for found in part]

    async def _read_part(
        self, want: "pb.Read.Want.ValueType", paths: Sequence[str], places: asyncio.Semaphore
    ) -> list[pb.FoundNode]:
        """Read in as many requests as needed, each with the whole time-out."""
        found: list[pb.FoundNode] = []
        while len(found) < len(paths):
            request = pb.Request(read=pb.Read(want=want, paths=paths[len(found) :]))
            async with places, self._in_time(paths[0]):
                found += (await self._connection.ask(request, again=True)).found.nodes
        return found

    @asynccontextmanager
    async def _in_time(self, path: str) -> AsyncIterator[None]:
        try:
            async with TimeLimit(self._timeout):
                yield
        except TimeoutError:
            raise StoreUnavailable(
                f"{path}: no answer from the metadata server of {self._connection.directory} within "
                f"{self._timeout:g} s (session {self._session.state.value}): check that it runs",
                path,
            ) from None
        except ConnectionGone:
            raise StoreUnavailable(
                f"{path}: the connection to the metadata server of {self._connection.directory} was lost; whether a "
                "write was carried out is not known: read back",
                path,
            ) from None


class RocksDbStore(RocksDbReader, MetadataStore):
    """Reads and writes the tree of a server; opened by `open`."""

    _only_reads = False

    @property
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of this session."""
        return self._connection.session_id

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        (created,) = await self._write([Create(path, data, ephemeral, sequential)], with_parents=parents)
        return str(created)

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version. BadVersion, NodeNotFound."""
        (new_version,) = await self._write([Put(path, data, version)])
        assert isinstance(new_version, int)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`. BadVersion, NodeNotFound, NodeNotEmpty."""
        await self._write([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none. Raises what the first failing one would raise alone, with its path."""
        return await self._write(operations)

    async def _write(self, operations: Sequence[Operation], *, with_parents: bool = False) -> list[Result]:
        """Send operations at most once, and return their results."""
        self._session.check()
        check_request(operations)
        if not operations:
            return []
        request = wire.write_of(operations, with_parents=with_parents)
        async with self._in_time(operations[0].path):
            answer = await self._connection.ask(request, again=False)
        return wire.results_of(answer.written)


def _there(found: pb.FoundNode, path: str) -> pb.FoundNode:
    if not found.HasField("stat"):
        raise NodeNotFound(f"{path} does not exist", path)
    return found


def _node(found: pb.FoundNode) -> Node:
    return Node(found.data, wire.stat_of(found.stat))
