"""The metadata store in this process's memory: for tests and trials; its data is lost when the process ends."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from mledger.metastore.errors import NodeExists, NodeNotFound
from mledger.metastore.memory.tree import MemoryTree
from mledger.metastore.records.node_path import ancestors_of, check_path
from mledger.metastore.session import Session, SessionReader, WatchedChanges
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
    SessionState,
    Stat,
)

T = TypeVar("T")

_trees: dict[str, MemoryTree] = {}


def _tree(name: str) -> MemoryTree:
    return _trees.setdefault(name, MemoryTree()) if name else MemoryTree()


class MemoryReader(SessionReader):
    """Reads the tree called `name` of this process."""

    def __init__(self, name: str = "") -> None:
        """Open the tree `name`, which the first opening creates; the empty name is a new tree each time."""
        self._tree = _tree(name)
        self._session = Session(f"memory:{name}", SessionState.CONNECTED)
        self._session_id = self._tree.new_session()

    async def sync(self) -> None:
        """Do nothing: there is only one state."""
        self._session.check()

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        self._session.check()
        return _found(self._tree.node(path), path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none."""
        self._session.check()
        return [self._tree.node(path) for path in paths]

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        self._session.check()
        node = self._tree.node(path)
        return None if node is None else node.stat

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        self._session.check()
        return _found(self._tree.children(path), path)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node."""
        self._session.check()
        return [self._tree.children(path) for path in paths]

    @asynccontextmanager
    async def watch(self, path: str, *, children: bool = False) -> AsyncIterator[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        self._session.check()
        changes = WatchedChanges(self._session)
        self._session.listen(changes.state_changed)
        self._tree.watch(path, children, changes.add)
        try:
            yield changes.taken()
        finally:
            self._tree.unwatch(path, children, changes.add)
            self._session.unlisten(changes.state_changed)

    async def close(self) -> None:
        """End the session; ephemeral nodes go. A second call does nothing."""
        self._end(SessionState.CLOSED)

    def expire(self) -> None:
        """End the session as a server does when it has not heard from its client for too long."""
        self._end(SessionState.EXPIRED)

    def _end(self, state: SessionState) -> None:
        if self._session.ended() is None:
            self._session.change(state)
            self._tree.end_session(self._session_id)


class MemoryStore(MemoryReader, MetadataStore):
    """Reads and writes the tree called `name` of this process."""

    @property
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of this session."""
        return self._session_id

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        if parents:
            for ancestor in ancestors_of(check_path(path)):
                with suppress(NodeExists):
                    self._apply(Create(ancestor))
        return str(self._apply(Create(path, data, ephemeral, sequential)))

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version. BadVersion, NodeNotFound."""
        new_version = self._apply(Put(path, data, version))
        assert isinstance(new_version, int)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`. BadVersion, NodeNotFound, NodeNotEmpty."""
        self._apply(Delete(path, version))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none. Raises what the first failing one would raise alone, with its path."""
        self._session.check()
        return self._tree.apply(operations, self._session_id)

    def _apply(self, operation: Operation) -> Result:
        self._session.check()
        return self._tree.apply([operation], self._session_id)[0]


def _found(found: T | None, path: str) -> T:
    if found is None:
        raise NodeNotFound(f"{path} does not exist", path)
    return found
