"""One of the simulated metadata servers: it follows the leader with a lag of its own."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from mledger.metastore.store import Node, NodeChange, Stat

if TYPE_CHECKING:
    from tests.sim.system.metadata import SimEnsemble

LATENCY_S = 0.0005
State = tuple[bytes, int, int, int, int, int]
"""A node's data, then its stat. It becomes a Node when somebody reads it: most are never read."""
Change = tuple[str, NodeChange, State | None]
"""A path, what changed, and the node as it is since; None: there is none."""
Watcher = Callable[[NodeChange], None]


def state_of(node: Any) -> State | None:
    """A node of the leader's tree as it is now."""
    if node is None:
        return None
    return node.data, node.version, node.created_ms, node.modified_ms, len(node.children), node.owner


class FollowedTree:
    """The leader's nodes, as far as a server has followed."""

    def __init__(self) -> None:
        self._nodes: dict[str, State] = {"/": (b"", 0, 0, 0, 0, 0)}
        self._children: dict[str, set[str]] = {}
        self._watchers: dict[tuple[str, bool], list[Watcher]] = {}

    def node(self, path: str) -> Node | None:
        """The node at `path`, None if there is none."""
        state = self._nodes.get(path)
        return None if state is None else Node(state[0], Stat(*state[1:]))

    def children(self, path: str) -> list[str] | None:
        """The sorted names of the children of `path`, None if there is no such node."""
        return sorted(self._children.get(path, ())) if path in self._nodes else None

    def watch(self, path: str, children: bool, watcher: Watcher) -> None:
        """Call `watcher` with every change of the node, or of its list of children, until `unwatch`."""
        self._watchers.setdefault((path, children), []).append(watcher)

    def unwatch(self, path: str, children: bool, watcher: Watcher) -> None:
        """Undo `watch`."""
        self._watchers[path, children].remove(watcher)

    def apply(self, changes: Sequence[Change]) -> None:
        """Take over what the leader changed at once."""
        nodes = self._nodes
        for path, change, node in changes:
            if node is None:
                nodes.pop(path, None)
            else:
                nodes[path] = node
            if change is NodeChange.CREATED or change is NodeChange.DELETED:
                parent, _, name = path.rpartition("/")
                names = self._children.setdefault(parent or "/", set())
                (names.add if change is NodeChange.CREATED else names.discard)(name)
        if self._watchers:
            for path, change, _ in changes:
                self._tell(path, change)

    def _tell(self, path: str, change: NodeChange) -> None:
        for watcher in list(self._watchers.get((path, change is NodeChange.CHILDREN), ())):
            watcher(change)
        if change in (NodeChange.CREATED, NodeChange.DELETED):
            for watcher in list(self._watchers.get((path, True), ())):
                watcher(change)


class SimServer:
    """One follower: its tree, and how far it has followed."""

    def __init__(self, ensemble: "SimEnsemble", number: int) -> None:
        self.ensemble, self.number = ensemble, number
        self.tree = FollowedTree()
        self.applied = 0
        self.lag_s = 0.0
        self.stopped = False
        """Whether it follows no more for now: a long lag."""
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        self._rng = Random(f"{ensemble.loop.seed}/metadata server {number}")
        self._last = 0.0

    def follow(self) -> None:
        """Hear of the leader's newest entry, in order."""
        loop = self.ensemble.loop
        at = max(self._last, loop.now + LATENCY_S * self._rng.random() + self.lag_s * self._rng.random())
        self._last = at
        loop.later_as(loop.world, at - loop.now, self.catch_up, len(self.ensemble.log))

    def catch_up(self, to: int) -> None:
        """Apply the leader's log up to its entry `to`."""
        if self.stopped:
            return
        while self.applied < to:
            self.tree.apply(self.ensemble.log[self.applied])
            self.applied += 1
        if not self._waiters:
            return
        ready = [call for zxid, call in self._waiters if zxid <= self.applied]
        self._waiters = [each for each in self._waiters if each[0] > self.applied]
        for call in ready:
            call()

    def when_at(self, zxid: int, call: Callable[[], None]) -> None:
        """Call once it has applied so many entries."""
        if self.applied >= zxid:
            call()
        else:
            self._waiters.append((zxid, call))
