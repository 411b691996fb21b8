"""Carries out what `plan_undo` decided: cursor ledgers first, then one multi, then what no record names any more."""

from bookie.client.client import BookKeeper
from bookie.client.writer import LedgerWriter
from metastore.errors import BadVersion, NodeExists, NodeNotEmpty, NodeNotFound
from metastore.own_writes import multi_own
from metastore.paths import LEDGERS, cursor_name_from_path, ledger_path
from metastore.store import MetadataReader, MetadataStore
from mledger.config import ManagedLedgerConfig
from mledger.errors import UndoConflict
from mledger.ledger_factory import LedgerFactory, StepHook, ignore_steps
from mledger.ledger_records import ensure_folders
from mledger.undo import Action, Restoration, UndoPlan, ledgers_to_look_for, paths_to_read, plan_undo
from mledger.undo_file import NodeState, UndoFile

CONFLICTS = (BadVersion, NodeNotFound, NodeExists, NodeNotEmpty)


async def plan_undo_of(
    reader: MetadataReader,
    file: UndoFile,
    *,
    incomplete: bool = False,
    accept_loss: bool = False,
    ledgers_root: str = LEDGERS,
) -> UndoPlan:
    """The plan for the cluster as it is now; nothing is written. UndoConflict, RecordError, StoreUnavailable."""
    paths = paths_to_read(file)
    nodes = await reader.get_many(paths)
    current = {path: NodeState.of(node) for path, node in zip(paths, nodes, strict=True)}
    wanted = ledgers_to_look_for(file)
    found = await reader.get_many([ledger_path(ledger_id, ledgers_root) for ledger_id in wanted])
    existing = {ledger_id for ledger_id, node in zip(wanted, found, strict=True) if node is not None}
    return plan_undo(file, current, existing, incomplete=incomplete, accept_loss=accept_loss)


async def undo(
    plan: UndoPlan,
    store: MetadataStore,
    bookkeeper: BookKeeper,
    config: ManagedLedgerConfig,
    on_step: StepHook = ignore_steps,
) -> None:
    """Put the records back, all or none. Whether there is an owner is to be looked at before (M9).

    `config` is for cursor ledgers to write. Raises UndoConflict when a record was changed meanwhile: nothing was
    written then; StoreUnavailable when it is not known.
    """
    if not plan.changes:
        return
    await ensure_folders(store)
    await _ensure_parents(store, plan)
    factories = {
        each.managed_ledger: LedgerFactory(bookkeeper, store, each.managed_ledger, config, on_step)
        for each in plan.changes
        if each.managed_ledger
    }
    written: list[tuple[Restoration, LedgerWriter]] = []
    sent = False
    try:
        for each in plan.changes:
            if each.cursor_ledger is not None:
                factory = factories[each.managed_ledger]
                writer = await factory.create_cursor_ledger(cursor_name_from_path(each.path))
                written.append((each, writer))
                await writer.append([each.cursor_ledger.state])
                await writer.close()
        on_step("undo")
        sent = True
        await multi_own(store, plan.operations({each.path: writer.ledger_id for each, writer in written}))
    except BaseException as error:
        if sent and not isinstance(error, CONFLICTS):
            raise  # the multi may have been carried out: a record of each ledger tells the next opening what to do
        for each, writer in written:
            await factories[each.managed_ledger].discard(writer)
        if isinstance(error, CONFLICTS):
            raise UndoConflict(f"nothing was written: {error.path} was changed meanwhile; look again") from None
        raise
    on_step("undone")
    for each, writer in written:
        factories[each.managed_ledger].settled(writer.ledger_id)
    for ledger_id, name in plan.drops:
        await factories[name].delete(ledger_id)


async def _ensure_parents(store: MetadataStore, plan: UndoPlan) -> None:
    """Create the folders that nodes to create again had; ones that stand empty do no harm."""
    created = {each.path for each in plan.changes if each.action is Action.CREATE}
    parents = {path.rpartition("/")[0] for path in created} - created - {""}
    for path in sorted(parents):
        if await store.exists(path) is None:
            try:
                await store.create(path, parents=True)
            except NodeExists:
                continue
