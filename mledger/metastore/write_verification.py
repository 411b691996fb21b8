"""Verifies writes whose answer was lost before they count as failed (rule M7).

After a lost answer, our own bytes one version up are our own write, and a node created with our bytes is ours. Without
one a refusal is final: then others have written these bytes. A multi is carried out as a whole or not at all, so each
of its writes must show that it was carried out. A node that is gone does not tell who deleted it: it counts only where
that does not matter.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence

from mledger.metastore.errors import BadVersion, NodeExists, NodeNotFound, SessionExpired, StoreUnavailable
from mledger.metastore.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    MetadataStore,
    Node,
    Operation,
    Put,
    Result,
    SessionState,
)

ATTEMPTS = 3
"""How often a write that proved not to be carried out is sent."""

RECONNECT_WITHIN = 10.0
"""Seconds to wait for the connection before a lost write is verified."""


async def put_own(store: MetadataStore, path: str, data: bytes, version: int) -> int:
    """Set the data of `path` if it is at `version`; the new version.

    BadVersion when another's write came first, NodeNotFound, StoreUnavailable when nothing could be learned in time.
    """
    (result,) = await multi_own(store, [Put(path, data, version)])
    assert isinstance(result, int)
    return result


async def create_own(store: MetadataStore, path: str, data: bytes = b"") -> None:
    """Create a node, and the folders above it that are missing.

    NodeExists when another has created it first, StoreUnavailable when nothing could be learned in time.
    """
    try:
        await multi_own(store, [Create(path, data)])
    except NodeNotFound:
        with contextlib.suppress(NodeExists):
            await create_own(store, path.rpartition("/")[0])
        await multi_own(store, [Create(path, data)])


async def delete_own(store: MetadataStore, deletions: Sequence[Delete]) -> None:
    """Delete nodes, all or none; after a lost answer nodes that are gone are deleted, whoever did it.

    Raises what `MetadataStore.multi` does.
    """
    await multi_own(store, deletions, gone_is_deleted=True)


async def data_at(store: MetadataStore, path: str, version: int, then: str) -> bytes:
    """The data of `path`, which is to be at `version`, for a write that depends on it. NodeNotFound.

    BadVersion, whose message ends with `then`, where it is at another version for all that the server asked knows.
    """
    node = await store.get(path)
    if node.version != version:
        raise BadVersion(f"{path} is at version {node.version}, not at {version}: {then}", path)
    return node.data


async def multi_own(
    store: MetadataStore,
    operations: Sequence[Operation],
    *,
    gone_is_deleted: bool = False,
    before_again: Callable[[], Awaitable[None]] | None = None,
) -> list[Result]:
    """Carry out all operations or none; the result of each.

    With `gone_is_deleted` the nodes to delete show by themselves, once they are gone, that it was carried out: what was
    written besides may have gone on since. `before_again` is called before the operations are sent once more, and
    raises if they must not be: versions do not tell a node from another one that was created in its place.

    Raises what `MetadataStore.multi` does; after a lost answer only if a look has found our writes not carried out. A
    node created sequentially cannot be looked up: ValueError.
    """
    if any(isinstance(operation, Create) and operation.sequential for operation in operations):
        raise ValueError("a sequential node cannot be told from another's: create it alone")
    lost = False
    for attempt in range(1, ATTEMPTS + 1):
        if lost and before_again is not None:
            await before_again()
        try:
            return await _send(store, operations)
        except SessionExpired:
            raise
        except (BadVersion, NodeExists, NodeNotFound):
            results = await _carried_out(store, operations, gone_is_deleted) if lost else None
            if results is None:
                raise
            return results
        except StoreUnavailable:
            lost = True
            await _reconnected(store)
            results = await _carried_out(store, operations, gone_is_deleted)
            if results is not None:
                return results
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returned or raised")


async def changed_since(store: MetadataStore, path: str, version: int) -> Node | None:
    """The node, if it is not at `version` any more; None while it is. NodeNotFound.

    For writes whose answer was lost: after it, a plain read may be answered by a server that has not heard of the write
    yet. A check is carried out behind all writes before it, wherever those were sent.
    """
    try:
        await store.multi([Check(path, version)])
    except BadVersion:
        return await store.get(path)
    return None


async def is_there(store: MetadataStore, path: str) -> bool:
    """Whether there is a node at `path`, seen as `changed_since` sees it."""
    try:
        await store.multi([Check(path, ANY_VERSION)])
    except NodeNotFound:
        return False
    return True


async def _send(store: MetadataStore, operations: Sequence[Operation]) -> list[Result]:
    match operations:
        case [Put(path, data, version)]:
            return [await store.put(path, data, version)]
        case _:
            return await store.multi(operations)


async def _reconnected(store: MetadataStore) -> None:
    try:
        await store.wait_for_session(SessionState.CONNECTED, RECONNECT_WITHIN)
    except TimeoutError:
        raise StoreUnavailable(
            f"the connection to {store.url} was lost during a write and did not come back within "
            f"{RECONNECT_WITHIN:g} s: whether it was carried out is not known"
        ) from None


async def _carried_out(
    store: MetadataStore, operations: Sequence[Operation], gone_is_deleted: bool
) -> list[Result] | None:
    """The results of the operations if the nodes show that they are carried out, else None."""
    telling = Delete if gone_is_deleted else Create | Put
    if not any(isinstance(operation, telling) for operation in operations):
        return None
    nodes = await store.get_many([operation.path for operation in operations])
    results: list[Result] = []
    for operation, node in zip(operations, nodes, strict=True):
        if not _shows(operation, node) and not (gone_is_deleted and not isinstance(operation, Delete)):
            return None
        match operation:
            case Create(path):
                results.append(path)
            case Put(_, _, version):
                results.append(version + 1)
            case _:
                results.append(None)
    return results


def _shows(operation: Operation, node: Node | None) -> bool:
    match operation:
        case Create(_, data):
            return node is not None and node.data == data
        case Put(_, data, version):
            return node is not None and node.version == version + 1 and node.data == data
        case Delete():
            return node is None
        case Check():
            return True
