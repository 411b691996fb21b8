"""The metadata store as its users see it: a tree of small versioned nodes, as ZooKeeper has it.

`MetadataReader` has no method that writes: what only looks at a cluster is given one (rule M9).
Paths are absolute within the store's chroot. Times are ms since 1970.
"""

import enum
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Self

from msgspec import Struct

ANY_VERSION = -1
MAX_REQUEST_BYTES = 1_048_575  # ZooKeeper's default limit (jute.maxbuffer), kept by every store


class SessionState(enum.Enum):
    """What is known of this client's session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no server reached; ephemeral nodes still stand
    EXPIRED = "expired"  # ended at the server; for good
    CLOSED = "closed"  # ended by this program


class NodeChange(enum.Enum):
    """What a watch saw."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"
    UNKNOWN = "unknown"  # the connection was away: anything may have happened, look again


class Stat(Struct, frozen=True):
    """A node without its data; `czxid` and `mzxid` are 0 in stores that have no zxids."""

    version: int
    created_ms: int
    modified_ms: int
    num_children: int
    ephemeral_owner: int  # session id, 0 for a persistent node
    czxid: int = 0
    mzxid: int = 0


class Node(Struct, frozen=True):
    """A node's data and stat."""

    data: bytes
    stat: Stat

    @property
    def version(self) -> int:
        """The data version to hand to `put` or `delete`."""
        return self.stat.version


class Create(Struct, frozen=True):
    """Create `path`; its parent must exist. Result: the path created (a sequential one has its number at the end).

    `acl` are entries `scheme:id:permissions` of its access control list, none: what the store gives new nodes. Stores
    without such lists leave it out.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    acl: tuple[str, ...] = ()


class Put(Struct, frozen=True):
    """Set the data of `path` if it is at `version`. Result: the new version."""

    path: str
    data: bytes
    version: int


class Delete(Struct, frozen=True):
    """Delete `path` if it is at `version` (ANY_VERSION: whatever it is). Result: None."""

    path: str
    version: int = ANY_VERSION


class Check(Struct, frozen=True):
    """Fail the multi unless `path` is at `version`. Result: None."""

    path: str
    version: int


Operation = Create | Put | Delete | Check
Result = str | int | None


class MetadataReader(ABC):
    """Looks, and cannot change anything.

    Raises:
        StoreUnavailable: no server answers in time; of every method.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL this store was opened with, credentials left out."""

    @property
    @abstractmethod
    def session_state(self) -> SessionState:
        """The session as last heard of."""

    @abstractmethod
    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when the session is in `state`.

        Raises:
            TimeoutError: it was not within `timeout` seconds.
        """

    @abstractmethod
    async def sync(self) -> None:
        """Have every read that begins after this returns answered from a state not older than this call (Q9).

        A server of an ensemble may lag behind the others: a plain read shows what it knows. Nothing is written.
        """

    @abstractmethod
    async def get(self, path: str) -> Node:
        """The node at `path`.

        Raises:
            NodeNotFound: there is none.
        """

    @abstractmethod
    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, in that order, None where there is none; in few round trips."""

    @abstractmethod
    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the children of `path`, sorted.

        Raises:
            NodeNotFound: there is no such node.
        """

    @abstractmethod
    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node; in few round trips."""

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths` as `Create` takes it; empty where there is no node, or no list."""
        return [()] * len(paths)

    @abstractmethod
    def watch(self, path: str, *, children: bool = False) -> AbstractAsyncContextManager[AsyncIterator[NodeChange]]:
        """Changes of the node at `path` (of its list of children with `children`), from entering the context on.

        Entering returns once the watch is set; the node need not exist. Several changes may come as one, and what
        cancels out (a node created and deleted) not at all; after a lost connection comes NodeChange.UNKNOWN.

        Raises:
            SessionExpired, StoreClosed: the session ended, and the watch with it.
        """

    async def watch_tree(self, path: str, changed: Callable[[str], None], lost: Callable[[], None]) -> bool:
        """Have `changed` called with each node at or below `path` that is created, changed or deleted from now on.

        It is called before a read returns that shows the change, so that after a `sync` all earlier changes have been
        told. Changes of access control are not told, nor nodes that this client may not read. `lost` is called when no
        more changes are told, because the connection was lost: watch the tree again, and read it anew. False: this
        store cannot tell.
        """
        return False

    @abstractmethod
    async def close(self) -> None:
        """End the session; ephemeral nodes go. A second call does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class MetadataStore(MetadataReader):
    """A store that can also write.

    Raises:
        StoreUnavailable: no server answers in time. The write may have been carried out: read back (M7).
    """

    @property
    @abstractmethod
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of this session."""

    def owner_at(self, path: str) -> int:
        """The same for a node at `path`: of two stores that are joined each has a session of its own."""
        return self.session_id

    @abstractmethod
    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path; with `parents`, missing ancestors first.

        A sequential node's path gets the parent's next number, 10 digits, at its end.

        Raises:
            NodeExists: there is a node already.
            NodeNotFound: there is no parent.
            NoChildrenForEphemerals: the parent is ephemeral.
        """

    @abstractmethod
    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version.

        Raises:
            BadVersion: it is at another.
            NodeNotFound: there is none.
        """

    @abstractmethod
    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`.

        Raises:
            BadVersion: it is at another.
            NodeNotFound: there is none.
            NodeNotEmpty: it has children.
        """

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none.

        Raises:
            MetadataError: what the first failing one would raise alone, with its path.
        """
