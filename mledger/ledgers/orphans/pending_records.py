"""Records of ledgers that no list names yet or any more, so that a crash never leaves an orphan (R10).

- `/mledger/pending/<id>` is created with the ledger's metadata and removed by the update that lists
  the ledger.
- `/mledger/deletions/<id>` is created by the update that unlists the ledger and removed once the
  ledger is deleted.
- A ledger with a deletion record is either deleted or listed again, never both. A client that
  deletes it claims the record first, by a write from version 0 to 1. A client that lists it again
  (an undo) removes the record at version 0. A claim is permanent: whoever finds it continues the
  deletion.
- `orphan_cleanup` deletes the ledgers that a crash leaves recorded.
- `/mledger/kept/<id>` is created by the update that unlists a cursor ledger whose last state could
  not be read (R4, M12). With this record the ledger is not an orphan, until its topic is deleted or
  an operator deletes the ledger. So is a data ledger that a command takes from a list, or that a
  restored list does not have: once the list begins above it, it would count as trimmed.
- If the records exceed one write, they are written ahead of the update that they belong to, in
  pieces (M11). Until that update, a replay finds their ledgers listed and removes the records.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from mledger.metastore.batched_store import MOST_OPERATIONS, NODE_BYTES, plan_multis
from mledger.metastore.errors import BadVersion, InvalidName, NodeExists, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import (
    DELETIONS,
    KEPT,
    MAX_LEDGER_ID,
    MLEDGER,
    OWNERS,
    PENDING,
    deletion_path,
    is_possible_ledger,
    kept_path,
    managed_ledger_path,
    pending_path,
)
from mledger.metastore.records.values import COMPACTED_LEDGER, DELAYED_BUCKET
from mledger.metastore.runtime.logs.loggers import get_logger
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
ENSURED_FOLDERS = (MLEDGER, *RECORD_FOLDERS)
"""What `ensure_folders` creates, parents first."""

_NO_DATA: Mapping[str, bytes] = {}
ONE_WRITE_BYTES = MAX_REQUEST_BYTES * 3 // 4
"""The limit of one write's data; paths and access control lists are not counted."""
MOST_DIGITS = len(str(MAX_LEDGER_ID))
_UNCLAIMED = 0
_TRIES = 3


class PendingRecord(Struct, frozen=True):
    """A pending or deletion record: the ledger and the managed ledger that it belongs or belonged to.

    If the record is damaged, `managed_ledger` is empty: the ledger's owner is unknown.
    """

    path: str
    ledger_id: int
    managed_ledger: str


def pending_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a ledger being created."""
    return Create(pending_path(ledger_id), managed_ledger.encode())


def listed(ledger_id: int) -> Delete:
    """The operation that removes a ledger's pending record, in the multi that lists the ledger."""
    return Delete(pending_path(ledger_id))


def deletion_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a ledger for deletion, in the multi that unlists it."""
    return Create(deletion_path(ledger_id), managed_ledger.encode())


def listed_again(ledger_id: int) -> Delete:
    """The operation that removes a deletion record, in the multi that lists the ledger again.

    It fails with BadVersion if the deletion is claimed.
    """
    return Delete(deletion_path(ledger_id), _UNCLAIMED)


def is_claimed(deletion: Node) -> bool:
    """Whether the deletion of the ledger has begun, so that it cannot be listed again."""
    return deletion.version != _UNCLAIMED


async def claim_deletion(store: MetadataStore, ledger_id: int, managed_ledger: str) -> bool:
    """Claim a ledger's deletion, so that nobody lists it again; False if its deletion record is gone.

    The ledger is then deleted or listed again. Raises StoreUnavailable if the outcome is unknown.
    """
    try:
        with contextlib.suppress(BadVersion):  # it is claimed already
            await put_own(store, deletion_path(ledger_id), managed_ledger.encode(), _UNCLAIMED)
    except NodeNotFound:
        return False
    return True


def kept_record(ledger_id: int, managed_ledger: str) -> Create:
    """The operation that records a ledger to keep, in the multi that unlists it."""
    return Create(kept_path(ledger_id), managed_ledger.encode())


async def keep_ledgers(store: MetadataStore, ledgers: Sequence[tuple[int, str]]) -> None:
    """Record ledgers to keep, each with its managed ledger; those that are recorded stay so."""
    if ledgers:
        await ensure_folders(store)
    await write_ahead(store, [(kept_record(ledger_id, name),) for ledger_id, name in ledgers])


def fits_one_write(data: bytes, beside: Sequence[Operation]) -> bool:
    """Whether these records fit into the write of `data`; else they are written ahead of it."""
    return len(beside) <= MOST_OPERATIONS and len(data) + 2 * NODE_BYTES * len(beside) <= ONE_WRITE_BYTES


async def write_ahead(store: MetadataStore, groups: Sequence[Sequence[Operation]], *guards: Check) -> None:
    """Create and remove records of ledgers in pieces, each conditional on `guards`; no group is split.

    Operations that an earlier attempt carried out are skipped. Raises the conflict (BadVersion of
    a guard; NodeExists or NodeNotFound if another client changes the records) and StoreUnavailable;
    the earlier pieces have been carried out then.
    """
    for part in plan_multis(groups):
        operations = [operation for index in part for operation in groups[index]]
        for attempt in range(1, _TRIES + 1):
            nodes = await store.get_many([operation.path for operation in operations])
            left = [each for each, node in zip(operations, nodes, strict=True) if not _is_done(each, node)]
            try:
                if left:
                    await multi_own(store, [*left, *guards])
                break
            except (NodeExists, NodeNotFound) as conflict:
                if attempt == _TRIES or conflict.path in {guard.path for guard in guards}:
                    raise


def _is_done(operation: Operation, node: Node | None) -> bool:
    if isinstance(operation, Create):
        return node is not None and node.data == operation.data
    return isinstance(operation, Delete) and node is None


async def ensure_folders(store: MetadataStore, data: Mapping[str, bytes] = _NO_DATA) -> None:
    """Create the missing parents of these records, empty or with the `data` given by path."""
    nodes = await store.get_many(ENSURED_FOLDERS)
    for path, node in zip(ENSURED_FOLDERS, nodes, strict=True):
        if node is None:
            try:
                await store.create(path, data.get(path, b""), parents=True)
            except NodeExists:
                continue


async def read_records(reader: MetadataReader) -> list[PendingRecord]:
    """All pending and deletion records, of every managed ledger, by ledger id."""
    return await _read_folders(reader, (PENDING, DELETIONS))


async def read_kept(reader: MetadataReader) -> list[PendingRecord]:
    """The records of all ledgers that are kept, of every managed ledger, by ledger id."""
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
    """The managed ledger that the record at `path` names; empty, with a log entry, if damaged (M12)."""
    try:
        name = data.decode()
        managed_ledger_path(name)
    except (UnicodeDecodeError, InvalidName) as error:
        log.warning("pending_record_unreadable", path=path, error=error, hint="the record and its ledger are kept")
        return ""
    return name


async def giving_up_kept(reader: MetadataReader, managed_ledger: str) -> list[list[Operation]]:
    """The operations, per kept ledger of a managed ledger, that record it for deletion instead."""
    return [
        [Delete(record.path), deletion_record(record.ledger_id, managed_ledger)]
        for record in await read_kept(reader)
        if record.managed_ledger == managed_ledger
    ]


async def owned_ledgers(reader: MetadataReader, managed_ledger: str, *, unreadable_cursors: bool = False) -> set[int]:
    """Every ledger that the managed ledger lists: data ledgers, its cursors' ledgers and their delayed indexes.

    Raises NodeNotFound if the managed ledger does not exist, and RecordError if a record does not
    parse; `unreadable_cursors` skips such records of cursors.
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
        owned.update(bucket_ledgers(info.cursor_properties))
    return owned


def bucket_ledgers(cursor_properties: Iterable[tuple[str, str]]) -> list[int]:
    """The ledgers with a subscription's index of delayed messages, as the properties of its cursor name them."""
    return [int(text) for name, text in cursor_properties if name.startswith(DELAYED_BUCKET) and is_ledger_id(text)]


def compacted_ledgers(properties: Iterable[tuple[str, int]]) -> list[int]:
    """The compacted topic's ledger, if these properties of a position name one: a client may have set any number."""
    return [value for name, value in properties if name == COMPACTED_LEDGER and is_possible_ledger(value)]


def is_ledger_id(text: str) -> bool:
    """Whether a property's text is the number of a ledger."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS and is_possible_ledger(int(text))


async def remove_record(store: MetadataStore, path: str) -> None:
    """Remove a record if it exists."""
    with contextlib.suppress(NodeNotFound):
        await store.delete(path)
