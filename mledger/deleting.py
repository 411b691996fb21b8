"""Deletes a topic: cursors, record and every ledger, nothing orphaned wherever it is cut off (M8, R10)."""

from collections.abc import Sequence

from bookie.client.client import BookKeeper
from metastore.codec import decode_managed_cursor_info
from metastore.errors import BadVersion, NodeExists, NodeNotFound, RecordError
from metastore.records import NO_CURSOR_LEDGER
from metastore.store import Check, Create, Delete, MetadataStore, Operation
from mledger.attached_ledgers import find_attached
from mledger.errors import ManagedLedgerFenced
from mledger.ledger_records import deletion_record, ensure_folders, fits_one_write, give_up_kept, write_ahead
from mledger.replaying import StepHook, ignore_steps, replay
from mledger.shadow_topics import refuse_shadow
from mledger.topic_record import TopicRecord

CURSORS_AT_ONCE = 300


async def delete_managed_ledger(
    store: MetadataStore,
    bookkeeper: BookKeeper,
    name: str,
    on_step: StepHook = ignore_steps,
    *,
    unreadable_cursors: bool = False,
) -> None:
    """Delete the managed ledger `name`. A live owner is fenced by it: its record is gone.

    The ledgers that its cursors name beside their own go too: the compacted topic's, and delayed delivery's index.
    Where its ledgers are many, each is recorded for deletion first, in pieces (M11). Cursors go next, some at a time;
    then, in one multi, the record goes and what ledgers are not recorded yet are; then the ledgers are deleted. Cut off
    in between, the next call finishes it, or any topic's opening once the record is gone. Raises TopicNotFound,
    RecordError (a cursor whose record does not parse, but with `unreadable_cursors`: whoever gives that has a copy,
    M12), ManagedLedgerFenced (an owner changed it).
    """
    await ensure_folders(store)
    record = await TopicRecord.read(store, name)
    refuse_shadow(name, record.info)
    paths = [f"{record.path}/{child}" for child in await store.children(record.path)]
    nodes = await store.get_many(paths)
    attached = (await find_attached(store, bookkeeper, name, paths)).by_cursor()
    operations: list[list[Operation]] = []
    for path, node in zip(paths, nodes, strict=True):
        if node is None:
            continue
        try:
            cursor_ledger = decode_managed_cursor_info(node.data, path).value.cursors_ledger_id
        except RecordError:
            if not unreadable_cursors:
                raise
            cursor_ledger = NO_CURSOR_LEDGER
        group: list[Operation] = [Delete(path, node.version)]
        if cursor_ledger != NO_CURSOR_LEDGER:
            group.append(deletion_record(cursor_ledger, name))
        group += [deletion_record(ledger_id, name) for ledger_id in attached.get(path, ())]
        operations.append(group)
    await give_up_kept(store, name)
    ledgers = await _unrecorded(store, record)
    guard = Check(record.path, record.version)
    try:
        if not fits_one_write(b"", ledgers):
            on_step("record ledgers")
            await write_ahead(store, [(each,) for each in ledgers], guard)
            ledgers = []
        while len(operations) > CURSORS_AT_ONCE:
            now, operations = operations[:CURSORS_AT_ONCE], operations[CURSORS_AT_ONCE:]
            on_step("delete cursors")
            await store.multi([guard, *_flat(now)])
        on_step("delete topic")
        await store.multi([*_flat(operations), Delete(record.path, record.version), *ledgers])
    except (BadVersion, NodeNotFound, NodeExists) as conflict:
        raise ManagedLedgerFenced(
            f"{name} was changed by an owner while it was being deleted ({conflict}); close it there and try again"
        ) from None
    on_step("topic deleted")
    await replay(bookkeeper, store, {}, on_step=on_step)


async def _unrecorded(store: MetadataStore, record: TopicRecord) -> list[Create]:
    """The deletion records of its ledgers that an earlier try did not make already."""
    wanted = [deletion_record(ledger.ledger_id, record.name) for ledger in record.info.ledgers]
    nodes = await store.get_many([each.path for each in wanted])
    return [each for each, node in zip(wanted, nodes, strict=True) if node is None]


def _flat(groups: Sequence[Sequence[Operation]]) -> list[Operation]:
    return [operation for group in groups for operation in group]
