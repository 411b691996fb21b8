"""Deletes a topic: cursors, record and ledgers; an interruption orphans nothing (M8, R10)."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from mledger.admin.references.attached_ledgers import find_attached
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.reading_client import MetadataCheck, allow_any
from mledger.bookie.errors import BookieError, NoSuchLedger
from mledger.cursors.compaction import is_compaction
from mledger.errors import ForeignLedger, ManagedLedgerFenced
from mledger.ledgers.orphans.foreign_ledgers import check_own
from mledger.ledgers.orphans.orphan_cleanup import StepHook, ignore_steps, replay
from mledger.ledgers.orphans.pending_records import (
    deletion_record,
    ensure_folders,
    fits_one_write,
    giving_up_kept,
    write_ahead,
)
from mledger.ledgers.shadow_topics import refuse_shadow
from mledger.ledgers.topic_record import TopicRecord, fence_owner
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotEmpty, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import is_possible_ledger
from mledger.metastore.records.values import ManagedCursorInfo
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import Check, Create, Delete, MetadataStore, Node, Operation
from mledger.metastore.write_verification import multi_own

log = get_logger(__name__)

CURSORS_AT_ONCE = 300
FENCED_WITHIN_S = 10.0
"""How long to wait for bookies that are to refuse a live owner's appends before going on without them."""
DELETE_CURSORS, DELETE_TOPIC = "delete cursors", "delete topic"
"""The steps that delete records of the topic. All before them write none, or write one unchanged."""


async def delete_managed_ledger(
    store: MetadataStore,
    bookkeeper: BookKeeper,
    name: str,
    on_step: StepHook = ignore_steps,
    *,
    unreadable_cursors: bool = False,
    stopped: bool = False,
    verify: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Delete the managed ledger `name`. This fences a live owner, since the record is gone; `stopped`: there is none.

    `verify` is that of an owner that deletes its own topic: nothing is deleted if another one has written the record.

    It also deletes the other ledgers that the topic's cursors name: the compacted topic's, and the
    index of delayed delivery. The order:

    1. Close the cursor ledger of compaction's cursor, whose entries name the compacted ledger. If the topic has many
       ledgers, or some are recorded for deletion already, fence an owner. Then record the ledgers for deletion in
       pieces if they are too many for one multi (M11).
    2. Delete the cursors, in pieces too, and the cursor ledgers that were kept (M12).
    3. In one multi, delete the record and record the remaining ledgers for deletion.
    4. Fence the writer of the last ledger: a live owner learns only at its next write of a record that there is none,
       and would acknowledge until then what nothing leads to.
    5. Delete the ledgers.

    After an interruption the next call finishes the deletion; once the record is gone, the opening
    of any topic does.

    Raises TopicNotFound, ManagedLedgerFenced (an owner changed the topic), and RecordError for a
    cursor whose record does not parse, unless `unreadable_cursors` is set: the caller then has a
    copy of it (M12). The same goes for a ledger that a cursor names, and whose metadata does not
    parse: with `unreadable_cursors` it stays. What the last state of compaction's cursor names stays,
    with a warning, if no bookie answers for that state. So a topic can be deleted without its bookies,
    but steps 1 and 4 then wait for up to `FENCED_WITHIN_S` each, step 1 only if the topic was compacted.
    """
    await ensure_folders(store)
    await store.sync()  # a server that lags may show a former topic of this name, at the same version
    record = await TopicRecord.read(store, name)
    if verify is not None:  # what is written from here on is a conflict
        await verify()
    refuse_shadow(name, record.info)
    paths = [f"{record.path}/{child}" for child in await store.children(record.path)]
    nodes = await store.get_many(paths)
    cursors = _cursors(paths, nodes, unreadable_cursors=unreadable_cursors)
    if not stopped:
        await _close_compactions_ledger(bookkeeper, name, cursors)
    found = await find_attached(store, bookkeeper, name, paths)
    if found.damaged and not unreadable_cursors:
        raise found.damaged[0]
    for each in found.unknown:
        log.warning("deletion_leaves_unknown", topic=name, unknown=each, hint="`mledger ledgers check --all` finds it")
    operations = _of_cursors(name, cursors, found.by_cursor())
    operations += await giving_up_kept(store, name)
    # a damaged list may name one twice, or a number that none has
    listed = dict.fromkeys(each.ledger_id for each in record.info.ledgers if is_possible_ledger(each.ledger_id))
    of_ledgers: list[Operation] = [deletion_record(ledger_id, name) for ledger_id in listed]
    groups = _once([*operations, of_ledgers])
    *operations, ledgers = await _unrecorded(store, groups)
    version = record.version
    try:
        if not fits_one_write(b"", ledgers) or [*operations, ledgers] != groups:
            on_step("record ledgers")
            await record.check_same()  # the version does not tell a topic that was deleted and created again meanwhile
            # an owner would delete the deletion records of ledgers that it still lists
            version = await fence_owner(store, record.path, version)
            *operations, ledgers = await _unrecorded(store, groups)
            if not fits_one_write(b"", ledgers):
                await write_ahead(store, [(each,) for each in ledgers], Check(record.path, version))
                ledgers = []
        guard = Check(record.path, version)
        pieces = list(_pieces(operations))
        last = pieces.pop() if pieces and fits_one_write(b"", [*pieces[-1], *ledgers]) else []
        for piece in pieces:
            on_step(DELETE_CURSORS)
            await record.check_same()
            await multi_own(store, [guard, *piece], gone_is_deleted=True, before_again=record.check_same)
        await store.sync()
        await record.check_same()
        on_step(DELETE_TOPIC)
        doomed = [*last, Delete(record.path, version), *ledgers]
        await multi_own(store, doomed, gone_is_deleted=True, before_again=record.check_same)
    except (BadVersion, NodeNotFound, NodeExists, NodeNotEmpty) as conflict:  # not empty: a new cursor
        raise ManagedLedgerFenced(
            f"{name} was changed by an owner while it was being deleted ({conflict}); close it there and try again"
        ) from None
    on_step("topic deleted")
    if not stopped and record.info.ledgers:
        await fence_writer(bookkeeper, name, record.info.ledgers[-1].ledger_id)
    await replay(bookkeeper, store, {}, on_step=on_step)


async def fence_writer(bookkeeper: BookKeeper, name: str, ledger_id: int, check: MetadataCheck = allow_any) -> None:
    """Recover the topic's ledger if it is open, so that bookies refuse whoever writes to it; log it if they do not.

    `check` is given the ledger's metadata first. If it raises ForeignLedger, the ledger stays as it is.
    """
    if not is_possible_ledger(ledger_id):  # of a damaged record: nobody writes there
        return
    try:
        async with TimeLimit(FENCED_WITHIN_S):
            await bookkeeper.close_ledger(ledger_id, check)
    except (NoSuchLedger, ForeignLedger):
        return
    except (BookieError, RecordError, TimeoutError) as error:
        log.warning("writer_not_fenced", topic=name, ledger=ledger_id, error=error or "the bookies do not answer")


class _Cursor(Struct, frozen=True):
    """A cursor to delete; its `record` is None if it does not parse."""

    path: str
    version: int
    record: ManagedCursorInfo | None


def _cursors(paths: Sequence[str], nodes: Sequence[Node | None], *, unreadable_cursors: bool) -> list[_Cursor]:
    """Those that exist. Raises RecordError for one that does not parse, unless `unreadable_cursors`."""
    found: list[_Cursor] = []
    for path, node in zip(paths, nodes, strict=True):
        if node is None:
            continue
        record: ManagedCursorInfo | None = None
        try:
            record = decode_managed_cursor_info(node.data, path).value
        except RecordError:
            if not unreadable_cursors:
                raise
        found.append(_Cursor(path, node.version, record))
    return found


async def _close_compactions_ledger(bookkeeper: BookKeeper, name: str, cursors: Sequence[_Cursor]) -> None:
    """Have a live owner change the record of compaction's cursor to name another compacted ledger from now on.

    That is a conflict with the deletion. An entry of the cursor ledger is none, and what it named would be left.
    """
    for cursor in cursors:
        if cursor.record is not None and is_compaction(cursor.path):
            ledger_id = cursor.record.cursors_ledger_id
            await fence_writer(bookkeeper, name, ledger_id, partial(check_own, name, ledger_id))


def _of_cursors(name: str, cursors: Sequence[_Cursor], attached: Mapping[str, Sequence[int]]) -> list[list[Operation]]:
    """What deletes each cursor: its record, its ledger, and those of `attached` at its path."""
    operations: list[list[Operation]] = []
    for cursor in cursors:
        group: list[Operation] = [Delete(cursor.path, cursor.version)]
        if cursor.record is not None and is_possible_ledger(cursor.record.cursors_ledger_id):
            group.append(deletion_record(cursor.record.cursors_ledger_id, name))
        group += [deletion_record(ledger_id, name) for ledger_id in attached.get(cursor.path, ())]
        operations.append(group)
    return operations


def _once(groups: Sequence[Sequence[Operation]]) -> list[list[Operation]]:
    """The groups with one record for each ledger, in the last group that has it: damaged cursors may name another's."""
    made: set[str] = set()
    found: list[list[Operation]] = []
    for group in reversed(groups):
        left: list[Operation] = []
        for each in group:
            if not isinstance(each, Create) or each.path not in made:
                left.append(each)
            if isinstance(each, Create):
                made.add(each.path)
        found.append(left)
    return found[::-1]


async def _unrecorded(store: MetadataStore, groups: Sequence[Sequence[Operation]]) -> list[list[Operation]]:
    """The groups without the records that an earlier attempt or an interrupted repair created."""
    wanted = [each.path for group in groups for each in group if isinstance(each, Create)]
    nodes = await store.get_many(wanted)
    made = {path for path, node in zip(wanted, nodes, strict=True) if node is not None}
    return [[each for each in group if each.path not in made] for group in groups]


def _pieces(cursors: Sequence[Sequence[Operation]]) -> Iterator[list[Operation]]:
    """The cursors' operations, divided into one list per write; those of one cursor stay together."""
    for part in plan_multis(cursors):
        for start in range(part.start, part.stop, CURSORS_AT_ONCE):
            end = min(part.stop, start + CURSORS_AT_ONCE)
            yield [operation for group in cursors[start:end] for operation in group]
