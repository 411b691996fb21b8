"""A simulated ensemble of metadata servers with ZooKeeper's promises, and no more than those.

Writes are carried out by the leader, one after another. A client talks to one server, which follows the leader with a
lag of its own: reads are answered from what that server knows, a client never sees an earlier state than it has seen,
and the answer to its own write comes after its server has it. An answer may be lost, before or after the write. A
session without contact for its time-out ends at the leader, and the client learns of it when it reaches a server again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from math import log
from random import Random
from typing import Any, TypeVar

from mledger.metastore.errors import MetadataError, NodeExists, NodeNotFound, NodeTooLarge, StoreUnavailable
from mledger.metastore.memory.tree import MemoryTree
from mledger.metastore.records.node_path import ancestors_of, check_path
from mledger.metastore.session import ENDED, Session, SessionReader
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
from tests.sim.system.loop import Process, SimLoop
from tests.sim.system.metadata_server import LATENCY_S, Change, FollowedTree, SimServer, state_of

T = TypeVar("T")

_OPERATION_BYTES = 40


class SimEnsemble:
    """The leader, its log and its followers."""

    def __init__(self, loop: SimLoop, servers: int = 2) -> None:
        self.loop = loop
        self.leader = MemoryTree(self._changed)
        self.log: list[Sequence[Change]] = []
        self._changes: list[tuple[str, NodeChange]] = []
        self.servers = [SimServer(self, number) for number in range(servers)]
        self.sessions: dict[int, SimStore] = {}
        self.writers: dict[str, list[Process]] = {}
        """Who has put each node, in order."""
        self.ended: set[int] = set()
        self.blocked: set[str] = set()
        """Names of processes that reach no server."""
        self.request_bytes = 0
        """The most bytes of a request; 0: no limit."""
        self._opened = 0

    def clock_ms(self) -> int:
        """The leader's time."""
        return int(self.loop.now * 1000)

    def apply(self, operations: Sequence[Operation], session: int) -> list[Result]:
        """Carry out a write at the leader; MetadataError as it says."""
        results = self.leader.apply(operations, session)
        for operation in operations:
            if type(operation) is Put:
                self.writers.setdefault(operation.path, []).append(self.sessions[session].process)
        self._log()
        return results

    def end_session(self, session: int) -> None:
        """End a session: its ephemeral nodes go."""
        if session in self.ended:
            return
        self.ended.add(session)
        self.leader.end_session(session)
        self._log()

    def delete(self, path: str) -> None:
        """An operator deletes a node, if it is there."""
        with suppress(NodeNotFound):
            self.leader.apply([Delete(path)], 0)
        self._log()

    def _changed(self, path: str, change: NodeChange) -> None:
        self._changes.append((path, change))

    def _log(self) -> None:
        """Have the servers follow."""
        changes, self._changes = self._changes, []
        nodes = self.leader._entries
        self.log.append([(path, change, state_of(nodes.get(path))) for path, change in changes])
        for server in self.servers:
            server.follow()

    def catch_up(self) -> None:
        """Let every server follow again, at once."""
        for server in self.servers:
            server.stopped, server.lag_s = False, 0.0
            server.catch_up(len(self.log))

    async def open(self, process: Process, session_timeout: float) -> "SimStore":
        """A session of a process. StoreUnavailable when no server can be reached."""
        self._opened += 1
        store = SimStore(self, process, session_timeout, self._opened)
        await store.begin()
        return store


class SimStore(SessionReader, MetadataStore):
    """One process's session with the ensemble."""

    def __init__(self, ensemble: SimEnsemble, process: Process, timeout_s: float, number: int) -> None:
        self._ensemble, self.process, self._timeout_s = ensemble, process, timeout_s
        self._session = Session("sim://metadata", SessionState.SUSPENDED)
        self._id = 0
        self._number = number
        self._rng = Random(f"{ensemble.loop.seed}/session {number} of {process.name}")
        self._random = self._rng.random
        self._server = self._rng.choice(ensemble.servers)
        self._seen = 0
        self._last_arrival = 0.0
        self.reachable = True
        self.lose: str = ""
        """What happens to the next write: "before" it is carried out the connection breaks, or "after"."""
        self.lose_s: float | None = None
        """How long the connection is away then; None: not long."""
        self._ending: Any = None
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._requests = 0
        self._watches: dict[Callable[[NodeChange], None], tuple[SimServer, str, bool]] = {}

    async def begin(self) -> None:
        """Open the session."""
        await asyncio.sleep(self._delay())
        if not self._ensemble_reachable():
            await asyncio.sleep(0.1)
            raise StoreUnavailable("sim://metadata: no server answers")
        self._id = self._ensemble.leader.new_session()
        self._ensemble.sessions[self._id] = self
        self._session.change(SessionState.CONNECTED)
        self.process.on_death.append(self._process_died)

    def _ensemble_reachable(self) -> bool:
        return self.process.name not in self._ensemble.blocked

    @property
    def session_id(self) -> int:
        """This session's id."""
        return self._id

    # Requests

    def _delay(self) -> float:
        return LATENCY_S * (0.3 - log(1.0 - self._random()))

    def _unavailable(self) -> StoreUnavailable:
        return StoreUnavailable("sim://metadata: the connection was lost; whether a write was carried out is not known")

    def _check(self) -> None:
        if self._session.state is not SessionState.CONNECTED:
            self._session.check()
            raise self._unavailable()

    def _ask(self, arrive: Callable[..., None], *what: Any) -> asyncio.Future[Any]:
        """Send a request to the server, after the ones before it, which has `arrive` called; its answer."""
        self._check()
        loop = self._ensemble.loop
        self._requests = request = self._requests + 1
        future = self._pending[request] = loop.create_future()
        now, at = loop.now, loop.now + self._delay()
        at = self._last_arrival = max(self._last_arrival, at)
        loop.later_as(loop.world, at - now, self._arrived, arrive, request, what)
        return future

    def _arrived(self, arrive: Callable[..., None], request: int, what: tuple[Any, ...]) -> None:
        if self.reachable and self._id not in self._ensemble.ended:
            arrive(request, *what)

    def _answer(self, request: int, result: Any, error: Exception | None = None) -> None:
        """Send an answer back to the process."""
        applied = self._server.applied
        if applied > self._seen:
            self._seen = applied
        self._ensemble.loop.later_as(self.process, self._delay(), self._answered, request, result, error)

    def _answered(self, request: int, result: Any, error: Exception | None) -> None:
        future = self._pending.pop(request, None) if self.reachable else None
        if future is None or future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _read(self, look: Callable[[FollowedTree], Any]) -> asyncio.Future[Any]:
        return self._ask(self._look, look)

    def _look(self, request: int, look: Callable[[FollowedTree], Any]) -> None:
        server = self._server
        if server.applied >= self._seen:
            self._answer(request, look(server.tree))
        else:
            server.when_at(self._seen, lambda: self._answer(request, look(server.tree)))

    def _write(self, operations: Sequence[Operation]) -> asyncio.Future[Any]:
        self._check()
        self._check_size(operations)
        lose, self.lose = self.lose, ""
        return self._ask(self._carry_out, operations, lose)

    def _carry_out(self, request: int, operations: Sequence[Operation], lose: str) -> None:
        if lose == "before":
            self.disconnect(self.lose_s)
            return
        try:
            results = self._ensemble.apply(operations, self._id)
        except MetadataError as error:
            refusal = error  # the leader has numbered it, and a server answers in the order of the numbers
            self._server.when_at(len(self._ensemble.log), lambda: self._answer(request, None, refusal))
            return
        if lose == "after":
            self.disconnect(self.lose_s)
            return
        self._server.when_at(len(self._ensemble.log), lambda: self._answer(request, results))

    def _check_size(self, operations: Sequence[Operation]) -> None:
        most = self._ensemble.request_bytes
        if not most:
            return
        size = sum(_OPERATION_BYTES + len(each.path) + len(getattr(each, "data", b"")) for each in operations)
        if size > most:
            raise NodeTooLarge(f"{operations[0].path}: a write of {size} bytes passes the limit of {most}")

    # The connection

    def disconnect(self, for_s: float | None = None) -> None:
        """Lose the connection; requests that wait fail, and the client reconnects after a time."""
        loop = self._ensemble.loop
        if not self.reachable or self._session.state in ENDED:
            return
        self.reachable = False
        loop.run_as(self.process, self._suspended)
        self._ending = loop.later_as(loop.world, self._timeout_s, self._ensemble.end_session, self._id)
        loop.later_as(loop.world, self._delay() * 20 if for_s is None else for_s, self.reconnect)

    def _suspended(self) -> None:
        if self.reachable:
            return
        self._session.change(SessionState.SUSPENDED)
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(self._unavailable())
        self._tell_watches(NodeChange.UNKNOWN)

    def reconnect(self) -> None:
        """Reach a server again, perhaps another one."""
        if self.reachable or self._session.state in ENDED:
            return
        if not self._ensemble_reachable():
            self._ensemble.loop.later_as(self._ensemble.loop.world, 0.05, self.reconnect)
            return
        self.reachable = True
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        candidates = [each for each in self._ensemble.servers if each.applied >= self._seen] or [self._server]
        self._move_watches(self._rng.choice(candidates))
        state = SessionState.EXPIRED if self._id in self._ensemble.ended else SessionState.CONNECTED
        self._ensemble.loop.run_as(self.process, self._change, state)

    def _change(self, state: SessionState) -> None:
        self._session.change(state)

    def expire(self) -> None:
        """The session ends at the servers."""
        self._ensemble.end_session(self._id)
        if self._session.state in ENDED:
            return
        self.reachable = False
        self._ensemble.loop.run_as(self.process, self._expired)

    def _expired(self) -> None:
        pending, self._pending = self._pending, {}
        self._session.change(SessionState.EXPIRED)
        for future in pending.values():
            if not future.done():
                error = self._session.ended()
                assert error is not None
                future.set_exception(error)

    def _process_died(self) -> None:
        if self._session.state not in ENDED and self._id not in self._ensemble.ended:
            loop = self._ensemble.loop
            loop.later_as(loop.world, self._timeout_s, self._ensemble.end_session, self._id)

    async def close(self) -> None:
        """End the session."""
        if self._session.state in ENDED:
            return
        if self.reachable:
            self._ensemble.end_session(self._id)
        self._session.change(SessionState.CLOSED)
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                error = self._session.ended()
                assert error is not None
                future.set_exception(error)
        if self.process.alive and self._process_died in self.process.on_death:
            self.process.on_death.remove(self._process_died)

    # Reading

    async def sync(self) -> None:
        """The server follows up to what the leader has now."""

        await self._ask(self._follow)

    def _follow(self, request: int) -> None:
        self._server.when_at(len(self._ensemble.log), lambda: self._answer(request, None))

    async def get(self, path: str) -> Node:
        """As MetadataReader."""
        return _found(await self._read(lambda tree: tree.node(path)), path)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """As MetadataReader."""
        asked = list(paths)
        return list(await self._read(lambda tree: [tree.node(path) for path in asked]))

    async def exists(self, path: str) -> Stat | None:
        """As MetadataReader."""
        node = await self._read(lambda tree: tree.node(path))
        return None if node is None else node.stat

    async def children(self, path: str) -> list[str]:
        """As MetadataReader."""
        return _found(await self._read(lambda tree: tree.children(path)), path)

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """As MetadataReader."""
        asked = list(paths)
        return list(await self._read(lambda tree: [tree.children(path) for path in asked]))

    @asynccontextmanager
    async def watch(self, path: str, *, children: bool = False) -> AsyncIterator[AsyncIterator[NodeChange]]:
        """As MetadataReader: changes as the client's server learns of them."""
        self._check()
        changes: asyncio.Queue[NodeChange | None] = asyncio.Queue()
        loop = self._ensemble.loop

        def put(change: NodeChange) -> None:
            loop.later_as(self.process, self._delay(), changes.put_nowait, change)

        def session_changed(state: SessionState) -> None:
            if state in ENDED:
                changes.put_nowait(None)

        await self._read(lambda tree: None)
        self._session.listen(session_changed)
        server = self._server
        server.tree.watch(path, children, put)
        self._watches[put] = server, path, children
        try:
            yield self._changes(changes)
        finally:
            server, path, children = self._watches.pop(put)
            server.tree.unwatch(path, children, put)
            self._session.unlisten(session_changed)

    async def _changes(self, changes: asyncio.Queue[NodeChange | None]) -> AsyncIterator[NodeChange]:
        while (change := await changes.get()) is not None:
            yield change
        self._session.check()

    def _tell_watches(self, change: NodeChange) -> None:
        for put in list(self._watches):
            put(change)

    def _move_watches(self, server: SimServer) -> None:
        for put, (before, path, children) in list(self._watches.items()):
            before.tree.unwatch(path, children, put)
            server.tree.watch(path, children, put)
            self._watches[put] = server, path, children
        self._server = server

    # Writing

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """As MetadataStore."""
        if parents:
            for ancestor in ancestors_of(check_path(path)):
                with suppress(NodeExists):
                    await self._write([Create(ancestor)])
        return str((await self._write([Create(path, data, ephemeral, sequential)]))[0])

    async def put(self, path: str, data: bytes, version: int) -> int:
        """As MetadataStore."""
        (result,) = await self._write([Put(path, data, version)])
        assert isinstance(result, int)
        return result

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """As MetadataStore."""
        await self._write([Delete(path, version)])

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """As MetadataStore."""
        return list(await self._write(list(operations)))


def _found(found: T | None, path: str) -> T:
    if found is None:
        raise NodeNotFound(f"{path} does not exist", path)
    return found
