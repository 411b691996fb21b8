"""Two metadata stores as one: the ledgers in BookKeeper's own, everything else in the topics'.

Paths below `/ledgers` belong to the ledgers' store, below its root; all others to the topics' store. A request within
one store stays atomic. A multi that spans both cannot be: its part in the topics' store is carried out first, then the
ledgers' part. R10 needs that order, because such a multi creates a ledger with its pending record: a crash in between
leaves a record without a ledger, which a replay removes, never a ledger without a record. (One case is weaker than in
one store: if an owner stalls in between and its ledgers' part arrives after the next owner's replay, a ledger remains
that no list names.) If the ledgers' part is refused, the topics' part is undone; it may therefore only create nodes,
and anything else is refused before anything is written.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, TypeVar

from msgspec.structs import replace

from mledger.metastore.errors import MetadataAccessDenied, MetadataError, NodeExists, NodeNotFound, StoreUnavailable
from mledger.metastore.records.node_path import check_path
from mledger.metastore.records.paths import LEDGERS
from mledger.metastore.store import (
    ANY_VERSION,
    Create,
    MetadataReader,
    MetadataStore,
    Node,
    NodeChange,
    Operation,
    Result,
    SessionState,
    Stat,
)

R = TypeVar("R", bound=MetadataReader)
T = TypeVar("T")

_WORST_FIRST = (SessionState.CLOSED, SessionState.EXPIRED, SessionState.SUSPENDED, SessionState.CONNECTED)


class SplitReader(MetadataReader, Generic[R]):
    """Reads both stores; closing it closes both."""

    def __init__(self, url: str, topics: R, ledgers: R, root: str) -> None:
        """`root`: where `ledgers` has what is `/ledgers` here."""
        self._url = url
        self._topics = topics
        self._ledgers = ledgers
        self._root = root

    @property
    def url(self) -> str:
        """The URL of both."""
        return self._url

    @property
    def session_state(self) -> SessionState:
        """The state of the session that is worse off."""
        states = (self._topics.session_state, self._ledgers.session_state)
        return next(state for state in _WORST_FIRST if state in states)

    async def wait_for_session(self, state: SessionState, timeout: float) -> None:
        """Return when both sessions are in `state` (CONNECTED), or one is (any other); TimeoutError."""
        waits = [asyncio.ensure_future(each.wait_for_session(state, timeout)) for each in (self._topics, self._ledgers)]
        every = state is SessionState.CONNECTED
        try:
            await asyncio.wait(waits, return_when=asyncio.ALL_COMPLETED if every else asyncio.FIRST_COMPLETED)
            for wait in waits:
                if every or wait.done():
                    wait.result()
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def sync(self) -> None:
        """As `MetadataReader.sync`, of both."""
        with self._as_asked():
            await asyncio.gather(self._topics.sync(), self._ledgers.sync())

    async def get(self, path: str) -> Node:
        """The node at `path`; NodeNotFound."""
        with self._as_asked():
            store, there = self._place(path)
            return await store.get(there)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes at `paths`, None where there is none."""
        places, topics, ledgers = self._split(paths)
        with self._as_asked():
            found = await asyncio.gather(self._topics.get_many(topics), self._ledgers.get_many(ledgers))
        return _merged(places, *found)

    async def exists(self, path: str) -> Stat | None:
        """The stat of `path`, None if there is no such node."""
        with self._as_asked():
            store, there = self._place(path)
            return await store.exists(there)

    async def children(self, path: str) -> list[str]:
        """The names of the children of `path`, sorted; NodeNotFound."""
        (names,) = await self.children_many([path])
        if names is None:
            raise NodeNotFound(f"{path} does not exist ({self._url})", path)
        return names

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """The children of each of `paths`, None where there is no such node."""
        places, topics, ledgers = self._split(paths)
        with self._as_asked():
            found = await asyncio.gather(self._topics.children_many(topics), self._ledgers.children_many(ledgers))
            names = _merged(places, *found)
            if "/" in paths and await self._ledgers.exists(self._root) is not None:
                own = LEDGERS.removeprefix("/")
                names = [
                    sorted({*each, own}) if path == "/" and each is not None else each
                    for path, each in zip(paths, names, strict=True)
                ]
        return names

    async def acl_many(self, paths: Sequence[str]) -> list[tuple[str, ...]]:
        """The access control list of each of `paths`, empty where there is no node, or no list."""
        places, topics, ledgers = self._split(paths)
        with self._as_asked():
            found = await asyncio.gather(self._topics.acl_many(topics), self._ledgers.acl_many(ledgers))
        return _merged(places, *found)

    def watch(self, path: str, *, children: bool = False) -> AbstractAsyncContextManager[AsyncIterator[NodeChange]]:
        """Changes of a node or of its list of children, as `MetadataReader.watch`."""
        return self._watch(path, children)

    @asynccontextmanager
    async def _watch(self, path: str, children: bool) -> AsyncIterator[AsyncIterator[NodeChange]]:
        store, there = self._place(path)
        async with store.watch(there, children=children) as changes:
            yield changes

    async def watch_tree(self, path: str, changed: Callable[[str], None], lost: Callable[[], None]) -> bool:
        """As `MetadataReader.watch_tree`, of what the topics' store has, its root excepted."""
        store, there = self._place(path)
        return store is self._topics and there != "/" and await store.watch_tree(there, changed, lost)

    async def close(self) -> None:
        """End both sessions; ephemeral nodes go. A second call does nothing."""
        await asyncio.gather(self._topics.close(), self._ledgers.close())

    def _place(self, path: str) -> tuple[R, str]:
        """The store that has `path`, and its path there."""
        check_path(path)
        if _is_below(path, LEDGERS):
            return self._ledgers, self._root + path.removeprefix(LEDGERS)
        return self._topics, path

    def _split(self, paths: Sequence[str]) -> tuple[list[bool], list[str], list[str]]:
        """Whether each of `paths` is the ledgers', and the paths in either store."""
        places = [self._place(path) for path in paths]
        in_ledgers = [store is self._ledgers for store, _ in places]
        topics = [there for store, there in places if store is not self._ledgers]
        return in_ledgers, topics, [there for store, there in places if store is self._ledgers]

    @contextlib.contextmanager
    def _as_asked(self) -> Iterator[None]:
        """Make errors name the paths that the caller used."""
        try:
            yield
        except MetadataError as error:
            error.path = self._asked(error.path)
            if isinstance(error, MetadataAccessDenied):
                error.closed = frozenset(map(self._asked, error.closed))
            raise

    def _asked(self, path: str) -> str:
        if self._root != LEDGERS and _is_below(path, self._root):
            return LEDGERS + path.removeprefix(self._root)
        return path


class SplitStore(SplitReader[MetadataStore], MetadataStore):
    """Reads and writes both."""

    @property
    def session_id(self) -> int:
        """The owner of ephemeral nodes of this session in the topics' store."""
        return self._topics.session_id

    def owner_at(self, path: str) -> int:
        """The owner of an ephemeral node of this session at `path`, in the store that has it."""
        return self._place(path)[0].session_id

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False, parents: bool = False
    ) -> str:
        """Create a node and return its path, as `MetadataStore.create`."""
        with self._as_asked():
            store, there = self._place(path)
            made = await store.create(there, data, ephemeral=ephemeral, sequential=sequential, parents=parents)
        return self._result(store, made)

    async def put(self, path: str, data: bytes, version: int) -> int:
        """Set the data if the node is at `version`; the new version. BadVersion, NodeNotFound."""
        with self._as_asked():
            store, there = self._place(path)
            return await store.put(there, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node if it is at `version`. BadVersion, NodeNotFound, NodeNotEmpty."""
        with self._as_asked():
            store, there = self._place(path)
            await store.delete(there, version)

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Carry out all operations or none; where they span both stores, in the order that R10 needs (see above).

        MetadataError for operations that span both and do more in the topics' store than create nodes.
        """
        in_ledgers, _, _ = self._split([operation.path for operation in operations])
        here = [operation for operation, is_ledger in zip(operations, in_ledgers, strict=True) if not is_ledger]
        there = [
            replace(operation, path=self._place(operation.path)[1])
            for operation, is_ledger in zip(operations, in_ledgers, strict=True)
            if is_ledger
        ]
        with self._as_asked():
            if not here or not there:
                store = self._ledgers if there else self._topics
                return [self._result(store, result) for result in await store.multi(there or here)]
            topics, ledgers = await self._span(here, there)
        return _merged(in_ledgers, topics, [self._result(self._ledgers, result) for result in ledgers])

    async def _span(self, here: list[Operation], there: list[Operation]) -> tuple[list[Result], list[Result]]:
        records = [operation for operation in here if isinstance(operation, Create) and not operation.sequential]
        if len(records) != len(here):
            raise MetadataError(
                f"{here[0].path}: a change of ledgers and topics at once, which two metadata stores cannot make whole",
                here[0].path,
            )
        made = await self._record(records)
        try:
            return [*(record.path for record in records)], await self._ledgers.multi(there)
        except StoreUnavailable:
            raise  # the ledgers' part may have been carried out: the records have to stay
        except MetadataError:
            for record in made:
                with contextlib.suppress(NodeNotFound):
                    await self._topics.delete(record.path)
            raise

    async def _record(self, records: list[Create]) -> list[Create]:
        """Create `records`, unless they are there with the same data: an attempt before left them. Those made now.

        Only these are taken back: the attempt before may still turn out to have been carried out.
        """
        try:
            await self._topics.multi(records)
        except NodeExists:
            nodes = await self._topics.get_many([record.path for record in records])
            if any(node is None or node.data != record.data for node, record in zip(nodes, records, strict=True)):
                raise
            return []
        return records

    def _result(self, store: MetadataStore, result: T) -> T:
        if isinstance(result, str) and store is self._ledgers:
            return LEDGERS + result.removeprefix(self._root)  # type: ignore[return-value]  # T is str here
        return result


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root}/")


def _merged(in_ledgers: Sequence[bool], topics: Sequence[T], ledgers: Sequence[T]) -> list[T]:
    """Results of either store in the order that was asked for."""
    others, own = iter(topics), iter(ledgers)
    return [next(own if is_ledger else others) for is_ledger in in_ledgers]
