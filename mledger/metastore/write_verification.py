"""Verifies writes whose answer was lost before they count as failed (rule M7).

After a lost answer, our own bytes one version up are our own write, and a node created with our bytes is ours. Without
one a refusal is final: then others have written these bytes. A multi is carried out as a whole or not at all, so each
of its writes must show that it was carried out.
"""

from collections.abc import Sequence

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


async def data_at(store: MetadataStore, path: str, version: int, then: str) -> bytes:
    """The data of `path`, which is to be at `version`, for a write that depends on it. NodeNotFound.

    BadVersion, whose message ends with `then`, where it is at another version for all that the server asked knows.
    """
    node = await store.get(path)
    if node.version != version:
        raise BadVersion(f"{path} is at version {node.version}, not at {version}: {then}", path)
    return node.data


async def multi_own(store: MetadataStore, operations: Sequence[Operation]) -> list[Result]:
    """Carry out all operations or none; the result of each.

    Raises what `MetadataStore.multi` does; after a lost answer only if a look has found our writes not carried out. A
    node created sequentially cannot be looked up: ValueError.
    """
    if any(isinstance(operation, Create) and operation.sequential for operation in operations):
        raise ValueError("a sequential node cannot be told from another's: create it alone")
    lost = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await _send(store, operations)
        except SessionExpired:
            raise
        except (BadVersion, NodeExists, NodeNotFound):
            results = await _carried_out(store, operations) if lost else None
            if results is None:
                raise
            return results
        except StoreUnavailable:
            lost = True
            await _reconnected(store)
            results = await _carried_out(store, operations)
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


async def _carried_out(store: MetadataStore, operations: Sequence[Operation]) -> list[Result] | None:
    """The results of the operations if the nodes show that they are carried out, else None."""
    if not any(isinstance(operation, Create | Put) for operation in operations):
        return None
    nodes = await store.get_many([operation.path for operation in operations])
    results: list[Result] = []
    for operation, node in zip(operations, nodes, strict=True):
        if not _shows(operation, node):
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
