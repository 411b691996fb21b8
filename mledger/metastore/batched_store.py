"""Combines the requests of one turn of the event loop: one process may own ten thousand topics.

Reads asked for in the same turn become one multiRead, and writes one multi (architecture, Concurrency): alone, each
would cost the store and the client as much as many together. Writes stay independent: where the store refuses one of a
multi it carries out none, and each is then sent alone. A request that is alone in its turn is sent as it is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from mledger.metastore.errors import MetadataError, NodeNotFound, StoreUnavailable
from mledger.metastore.split_store import SplitStore
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

MOST_OPERATIONS = 200  # in one multi
MOST_BYTES = 256 * 1024  # of data in one multi
NODE_BYTES = 100  # about what an operation takes besides its data

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
Waiting = tuple[Asked, asyncio.Future[Answer]]


class RequestBatcher(Generic[Asked, Answer]):
    """Collects the requests of one turn of the loop and has `carry_out` answer them.

    `carry_out` gets the requests that still have a waiter, and sets their futures. Its error goes to every
    future that has no result yet. It is cancelled when nobody waits for any of its requests any more.
    """

    def __init__(self, carry_out: Callable[[Sequence[Waiting[Asked, Answer]]], Awaitable[None]]) -> None:
        self._carry_out = carry_out
        self._waiting: list[Waiting[Asked, Answer]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, what: Asked) -> "asyncio.Future[Answer]":
        """The answer to `what`."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._begin)
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((what, future))
        return future

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        wanted = [each for each in waiting if not each[1].done()]
        if not wanted:
            return
        task = asyncio.get_running_loop().create_task(self._run(wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        left = len(wanted)

        def answered(_: "asyncio.Future[Answer]") -> None:
            nonlocal left
            left -= 1
            if not left:
                task.cancel()

        for _, future in wanted:
            future.add_done_callback(answered)

    async def _run(self, wanted: Sequence[Waiting[Asked, Answer]]) -> None:
        try:
            await self._carry_out(wanted)
        except Exception as error:
            for _, future in wanted:
                if not future.done():
                    future.set_exception(error)


class BatchedStore(MetadataStore):
    """A store that sends the requests of one turn together to `inner`; closing it closes `inner`."""

    def __init__(self, inner: MetadataStore) -> None:
        self._inner = inner
        self._nodes: RequestBatcher[Sequence[str], Sequence[Node | None]] = RequestBatcher(self._read_nodes)
        self._children: RequestBatcher[Sequence[str], Sequence[list[str] | None]] = RequestBatcher(self._read_children)
        self._writes: RequestBatcher[Sequence[Operation], list[Result]] = RequestBatcher(self._write)

    @property
    def url(self) -> str:
        """The URL of the store."""
        return self._inner.url

    @property
    def session_state(self) -> SessionState:
        """The session's last known state."""
        return self._inner.session_state

    @property
    def session_id(self) -> int:
        """What `Stat.ephemeral_owner` holds for ephemeral nodes of this session."""
        return self._inner.session_id

    def owner_at(self, path: str) -> int:
        """The session's owner id for a node at `path`, as `MetadataStore.owner_at`."""
        return self._inner.owner_at(path)

    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when the session is in `state`; TimeoutError after `timeout` seconds."""
        await self._inner.wait_for_session(state, timeout)

    async def sync(self) -> None:
        """As `MetadataReader.sync`."""
        await self._inner.sync()

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        (node,) = await self._nodes.ask((path,))
        if node is None:
            raise self._not_found(path)
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none."""
        return list(await self._nodes.ask(paths)) if paths else []

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        (node,) = await self._nodes.ask((path,))
        return None if node is None else node.stat

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        (names,) = await self._children.ask((path,))
        if names is None:
            raise self._not_found(path)
        return names

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node."""
        return list(await self._children.ask(paths)) if paths else []

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths`."""
        return await self._inner.acl_many(paths)

    def watch(self, path: str, *, children: bool = False) -> AbstractAsyncContextManager[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        return self._inner.watch(path, children=children)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        try:
            (created,) = await self._writes.ask((Create(path, data, ephemeral, sequential),))
        except NodeNotFound:
            if not parents:
                raise
            return await self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential, parents=True)
        assert isinstance(created, str)
        return created

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version. BadVersion, NodeNotFound."""
        (new_version,) = await self._writes.ask((Put(path, data, version),))
        assert isinstance(new_version, int)
        return new_version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`. BadVersion, NodeNotFound, NodeNotEmpty."""
        await self._writes.ask((Delete(path, version),))

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none. Raises what the first failing one would raise alone, with its path."""
        return await self._writes.ask(operations) if operations else []

    async def close(self) -> None:
        """End the session; ephemeral nodes go. A second call does nothing."""
        await self._inner.close()

    def _not_found(self, path: str) -> NodeNotFound:
        return NodeNotFound(f"{path} does not exist ({self.url})", path)

    async def _read_nodes(self, waiting: Sequence[Waiting[Sequence[str], Sequence[Node | None]]]) -> None:
        await _read_together(self._inner.get_many, waiting)

    async def _read_children(self, waiting: Sequence[Waiting[Sequence[str], Sequence[list[str] | None]]]) -> None:
        await _read_together(self._inner.children_many, waiting)

    async def _write(self, waiting: Sequence[Waiting[Sequence[Operation], list[Result]]]) -> None:
        parts = list(plan_multis([operations for operations, _ in waiting]))
        await asyncio.gather(*(self._write_part(waiting[part.start : part.stop]) for part in parts))

    async def _write_part(self, waiting: Sequence[Waiting[Sequence[Operation], list[Result]]]) -> None:
        if len(waiting) == 1:
            await self._write_alone(*waiting[0])
            return
        try:
            results = await self._inner.multi([each for operations, _ in waiting for each in operations])
        except StoreUnavailable as error:
            for _, future in waiting:
                _fail(future, error)
        except MetadataError:  # one was refused, so none was carried out
            await asyncio.gather(*(self._write_alone(*each) for each in waiting))
        else:
            start = 0
            for operations, future in waiting:
                _succeed(future, results[start : start + len(operations)])
                start += len(operations)

    async def _write_alone(self, operations: Sequence[Operation], future: "asyncio.Future[list[Result]]") -> None:
        if future.done():  # given up
            return
        try:
            _succeed(future, await self._send(operations))
        except Exception as error:
            _fail(future, error)

    async def _send(self, operations: Sequence[Operation]) -> list[Result]:
        match operations:
            case [Create(path, data, ephemeral, sequential, ())]:
                return [await self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential)]
            case [Put(path, data, version)]:
                return [await self._inner.put(path, data, version)]
            case [Delete(path, version)]:
                await self._inner.delete(path, version)
                return [None]
            case _:
                return await self._inner.multi(operations)


def batched(store: MetadataStore) -> MetadataStore:
    """`store` with its requests batched; a SplitStore is returned as it is: a multi over two stores is not atomic."""
    return store if isinstance(store, SplitStore) else BatchedStore(store)


def plan_multis(groups: Sequence[Sequence[Operation]]) -> Iterator[range]:
    """Indexes of groups that go into one multi, in order; a group is never split."""
    start = operations = size = 0
    for index, group in enumerate(groups):
        bytes_of_group = sum(NODE_BYTES + (len(each.data) if isinstance(each, Create | Put) else 0) for each in group)
        fits = operations + len(group) <= MOST_OPERATIONS and size + bytes_of_group <= MOST_BYTES
        if index > start and not fits:
            yield range(start, index)
            start, operations, size = index, 0, 0
        operations += len(group)
        size += bytes_of_group
    if start < len(groups):
        yield range(start, len(groups))


async def _read_together(
    read: Callable[[Sequence[str]], Awaitable[Sequence[Answer | None]]],
    waiting: Sequence[Waiting[Sequence[str], Sequence[Answer | None]]],
) -> None:
    if len(waiting) == 1:
        paths, future = waiting[0]
        _succeed(future, await read(paths))
        return
    try:
        found = await read([path for paths, _ in waiting for path in paths])
    except StoreUnavailable:
        raise
    except MetadataError:  # one request is refused (access, or an invalid path): the others must not fail with it
        await asyncio.gather(*(_read_alone(read, paths, future) for paths, future in waiting))
        return
    start = 0
    for paths, future in waiting:
        _succeed(future, found[start : start + len(paths)])
        start += len(paths)


async def _read_alone(
    read: Callable[[Sequence[str]], Awaitable[Sequence[Answer | None]]],
    paths: Sequence[str],
    future: "asyncio.Future[Sequence[Answer | None]]",
) -> None:
    try:
        _succeed(future, await read(paths))
    except Exception as error:
        _fail(future, error)


def _succeed(future: "asyncio.Future[Answer]", answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: "asyncio.Future[Answer]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
