"""Records of ledgers between two owners' lists, so that a crash never leaves an orphan (R10).

- `/mledger/pending/<id>` is created with the ledger's metadata and removed by the update that lists the ledger.
- `/mledger/deletions/<id>` is created by the update that drops the ledger and removed once the ledger is deleted.
- Of a ledger recorded so either the deletion goes on or the ledger is listed again, never both: who deletes it claims
  its record first, by a write that takes the record from version 0 to 1; who lists it again (an undo) removes the
  record while it is at version 0. A claim stays: whoever finds it goes on with the deletion.
- `replaying` finishes what a crash leaves recorded.
- `/mledger/kept/<id>` is created by the update after which no cursor names a cursor ledger whose last state could not
  be read (R4, M12). It keeps the ledger from being an orphan, until its topic is deleted or somebody deletes it.
- Records of more ledgers than fit one write are written ahead of the update that they belong to, in pieces (M11): until
  it comes, a replay finds their ledgers listed and removes them.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from mledger.metastore.batched_store import MOST_OPERATIONS, NODE_BYTES, plan_multis
from mledger.metastore.errors import BadVersion, InvalidName, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import (
    DELETIONS,
    KEPT,
    OWNERS,
    PENDING,
    deletion_path,
    kept_path,
    managed_ledger_path,
    pending_path,
)
from mledger.metastore.runtime.logs import get_logger
from mledger.metastore.store import (
    MAX_REQUEST_BYTES,
    Check,
    Create,
    Delete,
    MetadataReader,
    MetadataStore,
    Node,
    Operation,
)
from mledger.metastore.write_verification import multi_own, put_own

log = get_logger(__name__)

RECORD_FOLDERS = (PENDING, DELETIONS, KEPT, OWNERS)
ONE_WRITE_BYTES = MAX_REQUEST_BYTES * 3 // 4
"""Of a record's data, with the records of ledgers beside it: paths and access control lists come on top."""
_UNCLAIMED = 0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A pending or deletion record: the ledger and the managed ledger it belongs, or belonged, to.

    Of a damaged record `managed_ledger` is empty: whose the ledger is cannot be told.
    """

    path: str
    ledger_id: int
    managed_ledger: str


def pending_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a ledger being created."""
    return Create(pending_path(ledger_id), managed_ledger.encode())


def listed(ledger_id: int) -> Delete:
    """The operation that ends a ledger's pending record, in the multi that lists the ledger."""
    return Delete(pending_path(ledger_id))


def deletion_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a ledger to delete, in the multi that drops it from its list."""
    return Create(deletion_path(ledger_id), managed_ledger.encode())


def listed_again(ledger_id: int) -> Delete:
    """The operation that ends a ledger's deletion record, in the multi that lists it again. BadVersion: claimed."""
    return Delete(deletion_path(ledger_id), _UNCLAIMED)


def is_claimed(deletion: Node) -> bool:
    """Whether the ledger of this deletion record is being deleted, or was when somebody died: nobody lists it again."""
    return deletion.version != _UNCLAIMED


async def claim_deletion(store: MetadataStore, ledger_id: int, managed_ledger: str) -> bool:
    """Have nobody list again a ledger that is recorded for deletion; False if it has no such record any more.

    Then it is deleted already, or listed again. StoreUnavailable when that could not be learned in time.
    """
    try:
        with contextlib.suppress(BadVersion):  # somebody has claimed it already
            await put_own(store, deletion_path(ledger_id), managed_ledger.encode(), _UNCLAIMED)
    except NodeNotFound:
        return False
    return True


def kept_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a cursor ledger to keep, in the multi after which no cursor names it."""
    return Create(kept_path(ledger_id), managed_ledger.encode())


def fits_one_write(data: bytes, beside: Sequence[Operation]) -> bool:
    """Whether these records of ledgers go into the write of a record of `data`; else they are written ahead of it."""
    return len(beside) <= MOST_OPERATIONS and len(data) + 2 * NODE_BYTES * len(beside) <= ONE_WRITE_BYTES


async def write_ahead(store: MetadataStore, groups: Sequence[Sequence[Operation]], guard: Check | None) -> None:
    """Make and remove records of ledgers, in pieces of which each is carried out if `guard` holds; no group is split.

    What an earlier try has done already is left out. Raises the conflict (BadVersion of `guard`; NodeExists,
    NodeNotFound: somebody else changes them) and StoreUnavailable; pieces before have been carried out then.
    """
    for part in plan_multis(groups):
        operations = [operation for index in part for operation in groups[index]]
        for attempt in range(1, _TRIES + 1):
            nodes = await store.get_many([operation.path for operation in operations])
            left = [each for each, node in zip(operations, nodes, strict=True) if not _is_done(each, node)]
            try:
                if left:
                    await multi_own(store, left if guard is None else [*left, guard])
                break
            except (NodeExists, NodeNotFound) as conflict:
                if attempt == _TRIES or (guard is not None and conflict.path == guard.path):
                    raise


def _is_done(operation: Operation, node: Node | None) -> bool:
    if isinstance(operation, Create):
        return node is not None and node.data == operation.data
    return isinstance(operation, Delete) and node is None


async def ensure_folders(store: MetadataStore) -> None:
    """Create the parents of these records where they are missing."""
    nodes = await store.get_many(RECORD_FOLDERS)
    for path, node in zip(RECORD_FOLDERS, nodes, strict=True):
        if node is None:
            try:
                await store.create(path, parents=True)
            except NodeExists:
                continue


async def read_records(reader: MetadataReader) -> list[PendingRecord]:
    """All pending and deletion records, of every managed ledger, by ledger id."""
    return await _read_folders(reader, (PENDING, DELETIONS))


async def read_kept(reader: MetadataReader) -> list[PendingRecord]:
    """The records of all cursor ledgers that are kept, of every managed ledger, by ledger id."""
    return await _read_folders(reader, (KEPT,))


async def _read_folders(reader: MetadataReader, folders: Sequence[str]) -> list[PendingRecord]:
    found: list[tuple[str, int]] = []
    for folder, names in zip(folders, await reader.children_many(folders), strict=True):
        found += [(f"{folder}/{name}", int(name)) for name in names or () if name.isascii() and name.isdigit()]
    nodes = await reader.get_many([path for path, _ in found])
    records = [
        PendingRecord(path, ledger_id, _managed_ledger_in(path, node.data))
        for (path, ledger_id), node in zip(found, nodes, strict=True)
        if node is not None
    ]
    return sorted(records, key=lambda record: record.ledger_id)


def _managed_ledger_in(path: str, data: bytes) -> str:
    """The managed ledger that the record at `path` names; empty where it names none, which is told (M12)."""
    try:
        name = data.decode()
        managed_ledger_path(name)
    except (UnicodeDecodeError, InvalidName) as error:
        log.warning(
            "pending_record_unreadable", path=path, error=error, hint="it is kept, and the ledger that it is for"
        )
        return ""
    return name


async def giving_up_kept(reader: MetadataReader, managed_ledger: str) -> list[list[Operation]]:
    """What goes with the deletion of a managed ledger: each of its kept cursor ledgers is to be deleted then."""
    return [
        [Delete(record.path), deletion_record(record.ledger_id, managed_ledger)]
        for record in await read_kept(reader)
        if record.managed_ledger == managed_ledger
    ]


async def owned_ledgers(reader: MetadataReader, managed_ledger: str, *, unreadable_cursors: bool = False) -> set[int]:
    """Every ledger that the managed ledger lists: data ledgers and its cursors' ledgers.

    RecordError if a record cannot be read (but with `unreadable_cursors` that of a cursor), NodeNotFound if there is no
    such managed ledger.
    """
    path = managed_ledger_path(managed_ledger)
    node = await reader.get(path)
    owned = {ledger.ledger_id for ledger in decode_managed_ledger_info(node.data, path).value.ledgers}
    paths = [f"{path}/{name}" for name in await reader.children(path)]
    for cursor, found in zip(paths, await reader.get_many(paths), strict=True):
        if found is None:
            continue
        try:
            info = decode_managed_cursor_info(found.data, cursor).value
        except RecordError:
            if not unreadable_cursors:
                raise
            continue
        owned.add(info.cursors_ledger_id)
        if info.last_checkpoint is not None:
            owned.add(info.last_checkpoint.ledger_id)
    return owned


async def remove_record(store: MetadataStore, path: str) -> None:
    """Remove a record if it is there."""
    with contextlib.suppress(NodeNotFound):
        await store.delete(path)
