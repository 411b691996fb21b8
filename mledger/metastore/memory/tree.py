"""A tree of nodes in this process, by ZooKeeper's rules: versions, sequence numbers, ephemerals, atomic multis."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from mledger.metastore.errors import (
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NodeNotEmpty,
    NodeNotFound,
)
from mledger.metastore.records.node_path import check_path, check_request, parent_of
from mledger.metastore.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    NodeChange,
    Operation,
    Put,
    Result,
    Stat,
)

Watcher = Callable[[NodeChange], None]
Event = tuple[str, NodeChange]
Undo = Callable[[], None]
Listener = Callable[[str, NodeChange], None]

_NO_CHILDREN: AbstractSet[str] = frozenset()  # shared: most nodes have none, and an empty set takes 216 bytes


class NodeRecord(Struct, frozen=True):
    """A node as it is stored outside the tree; `children_created` counts all children it ever had."""

    path: str
    data: bytes
    version: int
    created_ms: int
    modified_ms: int
    ephemeral_owner: int
    children_created: int


class _Entry(Struct):
    data: bytes = b""
    version: int = 0
    created_ms: int = 0
    modified_ms: int = 0
    owner: int = 0
    children: AbstractSet[str] = _NO_CHILDREN
    children_created: int = 0  # ever: the next sequential child's number

    def add_child(self, name: str) -> None:
        if isinstance(self.children, set):
            self.children.add(name)
        else:
            self.children = {name}

    def remove_child(self, name: str) -> None:
        assert isinstance(self.children, set)
        self.children.remove(name)

    def stat(self) -> Stat:
        return Stat(self.version, self.created_ms, self.modified_ms, len(self.children), self.owner)


class MemoryTree:
    """The nodes and their watchers. No call waits."""

    def __init__(self, listener: Listener | None = None) -> None:
        """Create a tree that has only its root; `listener` is told of every change before the watchers are."""
        self._entries = {"/": _Entry()}
        self._owned: dict[int, set[str]] = {}
        self._watchers: dict[tuple[str, bool], list[Watcher]] = {}
        self._listener = listener
        self._session_ids = itertools.count(1)

    def new_session(self) -> int:
        """Draw an id for a session that will own ephemeral nodes."""
        return next(self._session_ids)

    def end_session(self, session_id: int) -> None:
        """Delete the ephemeral nodes of `session_id`."""
        for path in sorted(self._owned.get(session_id, ())):
            self.apply([Delete(path)], session_id)

    def record(self, path: str) -> NodeRecord | None:
        """The node at `path` with all that the tree knows of it, None if there is none."""
        entry = self._entries.get(path)
        if entry is None:
            return None
        return NodeRecord(
            path, entry.data, entry.version, entry.created_ms, entry.modified_ms, entry.owner, entry.children_created
        )

    def restore(self, records: Iterable[NodeRecord]) -> None:
        """Put stored nodes back, parents before their children, without calling watchers. NodeNotFound: no parent."""
        for kept in records:
            entry = _Entry(kept.data, kept.version, kept.created_ms, kept.modified_ms, kept.ephemeral_owner)
            entry.children_created = kept.children_created
            if kept.path != "/":
                self._entry(parent_of(kept.path)).add_child(kept.path.rpartition("/")[2])
            self._entries[kept.path] = entry
            self._own(kept.path, entry)

    def node(self, path: str) -> Node | None:
        """The node at `path`, None if there is none."""
        entry = self._entries.get(check_path(path))
        return None if entry is None else Node(entry.data, entry.stat())

    def children(self, path: str) -> list[str] | None:
        """The sorted names of the children of `path`, None if there is no such node."""
        entry = self._entries.get(check_path(path))
        return None if entry is None else sorted(entry.children)

    def watch(self, path: str, children: bool, watcher: Watcher) -> None:
        """Call `watcher` with every change of the node, or of its list of children, until `unwatch`."""
        self._watchers.setdefault((check_path(path), children), []).append(watcher)

    def unwatch(self, path: str, children: bool, watcher: Watcher) -> None:
        """Undo `watch`."""
        watchers = self._watchers[path, children]
        watchers.remove(watcher)
        if not watchers:
            del self._watchers[path, children]

    def apply(self, operations: Sequence[Operation], session_id: int) -> list[Result]:
        """Carry out all `operations` for a session, or none; raises what the first failing operation raises."""
        check_request(operations)
        undos: list[Undo] = []
        events: list[Event] = []
        try:
            results = [self._apply_one(operation, session_id, undos, events) for operation in operations]
        except Exception:
            for undo in reversed(undos):
                undo()
            raise
        self._tell(events)
        return results

    def _apply_one(self, operation: Operation, session_id: int, undos: list[Undo], events: list[Event]) -> Result:
        match operation:
            case Create():
                return self._create(operation, session_id, undos, events)
            case Put():
                return self._put(operation, undos, events)
            case Delete():
                self._delete(operation, undos, events)
            case Check(path, version):
                self._at_version(path, version)
        return None

    def _create(self, create: Create, session_id: int, undos: list[Undo], events: list[Event]) -> str:
        path = create.path
        parent_path = parent_of(path)
        parent = self._entries.get(parent_path)
        if parent is None:
            raise NodeNotFound(f"{path} cannot be created: its parent does not exist", path)
        if create.sequential:
            path = f"{path}{parent.children_created:010d}"
        if path in self._entries:
            raise NodeExists(f"{path} exists already", path)
        if parent.owner:
            raise NoChildrenForEphemerals(f"{path} cannot be created: its parent is ephemeral", path)
        name = path.rpartition("/")[2]
        now = _now_ms()
        entry = _Entry(create.data, 0, now, now, session_id if create.ephemeral else 0)
        self._entries[path] = entry
        self._own(path, entry)
        parent.add_child(name)
        parent.children_created += 1
        events += [(path, NodeChange.CREATED), (parent_path, NodeChange.CHILDREN)]

        def undo() -> None:
            del self._entries[path]
            self._disown(path, entry)
            parent.remove_child(name)
            parent.children_created -= 1

        undos.append(undo)
        return path

    def _put(self, put: Put, undos: list[Undo], events: list[Event]) -> int:
        entry = self._at_version(put.path, put.version)
        before = entry.data, entry.version, entry.modified_ms
        entry.data, entry.version, entry.modified_ms = put.data, entry.version + 1, _now_ms()
        events.append((put.path, NodeChange.CHANGED))

        def undo() -> None:
            entry.data, entry.version, entry.modified_ms = before

        undos.append(undo)
        return entry.version

    def _delete(self, delete: Delete, undos: list[Undo], events: list[Event]) -> None:
        path = delete.path
        entry = self._at_version(path, delete.version)
        if entry.children:
            raise NodeNotEmpty(f"{path} has children: delete them first", path)
        parent_path, name = parent_of(path), path.rpartition("/")[2]
        parent = self._entries[parent_path]
        del self._entries[path]
        self._disown(path, entry)
        parent.remove_child(name)
        events += [(path, NodeChange.DELETED), (parent_path, NodeChange.CHILDREN)]

        def undo() -> None:
            self._entries[path] = entry
            self._own(path, entry)
            parent.add_child(name)

        undos.append(undo)

    def _own(self, path: str, entry: _Entry) -> None:
        if entry.owner:
            self._owned.setdefault(entry.owner, set()).add(path)

    def _disown(self, path: str, entry: _Entry) -> None:
        if entry.owner:
            owned = self._owned[entry.owner]
            owned.remove(path)
            if not owned:
                del self._owned[entry.owner]

    def _entry(self, path: str) -> _Entry:
        entry = self._entries.get(path)
        if entry is None:
            raise NodeNotFound(f"{path} does not exist", path)
        return entry

    def _at_version(self, path: str, version: int) -> _Entry:
        entry = self._entry(path)
        if version not in (ANY_VERSION, entry.version):
            raise BadVersion(f"{path} is at version {entry.version}, not {version}: somebody else changed it", path)
        return entry

    def _tell(self, events: Iterable[Event]) -> None:
        for path, change in events:
            if self._listener is not None:
                self._listener(path, change)
        for path, change in events:
            for watcher in list(self._watchers.get((path, change is NodeChange.CHILDREN), ())):
                watcher(change)
            if change in (NodeChange.CREATED, NodeChange.DELETED):
                for watcher in list(self._watchers.get((path, True), ())):
                    watcher(change)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
