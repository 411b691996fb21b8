"""Carries out the plan of `plan_undo`: writes cursor ledgers, then the multi, then deletes what no record names.

What does not fit one request is split into pieces, each in that order (M11). At the end it checks that the ledgers
named again still exist, and reports those that were deleted meanwhile because nothing had named them. `undo_plan`
decides what is refused before anything is written.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import structs

from mledger.admin.policies.bookie_affinity import read_affinity
from mledger.admin.policies.quorums import last_metadata, with_cluster_quorums
from mledger.admin.policies.topic_policies import PolicyReader
from mledger.admin.references.reader import read_references
from mledger.admin.undo.restorations import Restoration, UndoAction, UndoPlan
from mledger.admin.undo.topic_identities import identity_of
from mledger.admin.undo.undo_file import NodeState, TopicIdentity, UndoFile
from mledger.admin.undo.undo_pieces import Piece, plan_pieces
from mledger.admin.undo.undo_plan import ledgers_to_delete, ledgers_to_look_for, paths_to_read, plan_undo
from mledger.admin.undo.undo_references import belongs_to, is_of_ledgers
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.bookie.errors import NoSuchLedger
from mledger.config import ManagedLedgerConfig
from mledger.errors import UndoConflict
from mledger.ledgers.ledger_factory import LedgerFactory, StepHook, ignore_steps
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.orphans.pending_records import ENSURED_FOLDERS, ensure_folders, is_claimed
from mledger.ledgers.orphans.references import origin_of
from mledger.metastore.errors import BadVersion, NodeExists, NodeNotEmpty, NodeNotFound, RecordError
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.ledger_codec import decode_ledger_metadata
from mledger.metastore.records.ledger_metadata import LedgerState
from mledger.metastore.records.paths import (
    LEDGERS,
    cursor_name_from_path,
    deletion_path,
    is_possible_ledger,
    ledger_path,
    managed_ledger_name_from_path,
    managed_ledger_path,
    topic_above,
)
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.runtime.times import utc_text
from mledger.metastore.store import MetadataReader, MetadataStore, Operation
from mledger.metastore.url import SplitUrl, parse_url
from mledger.metastore.write_verification import multi_own

CONFLICTS = (BadVersion, NodeNotFound, NodeExists, NodeNotEmpty)


async def plan_undo_of(
    reader: MetadataReader,
    file: UndoFile,
    *,
    incomplete: bool = False,
    accept_loss: bool = False,
    ledgers_root: str = LEDGERS,
) -> UndoPlan:
    """The plan for the cluster as it is now; writes nothing.

    Raises UndoConflict, also if a ledger to be named again belongs to another topic: then the file is of another
    cluster. RecordError, StoreUnavailable.
    """
    paths = paths_to_read(file)
    nodes = await reader.get_many(paths)
    current = {path: NodeState.of(node) for path, node in zip(paths, nodes, strict=True)}
    left = await _left(reader, ledgers_to_delete(file, current), ledgers_root)
    wanted = ledgers_to_look_for(file)
    existing, recorded, ends = await _existing(reader, sorted({*wanted, *left}), ledgers_root)
    plan = plan_undo(
        file,
        current,
        existing.intersection(wanted),
        recorded,
        left=left & existing,
        ends=ends,
        incomplete=incomplete,
        accept_loss=accept_loss,
        two_stores=isinstance(parse_url(reader.url), SplitUrl),
    )
    created = {path: node.stat.created_ms for path, node in zip(paths, nodes, strict=True) if node is not None}
    plan = structs.replace(plan, created=created)
    found = zip(paths, nodes, strict=True)
    _refuse_other_topics(file, plan, {path: identity_of(path, node) for path, node in found if node is not None})
    await _refuse_ledgers_of_others(reader, plan, ledgers_root)
    await _refuse_named_ledgers(reader, plan)
    return plan


def _refuse_other_topics(file: UndoFile, plan: UndoPlan, now: Mapping[str, TopicIdentity]) -> None:
    """Raise UndoConflict if cursors would be restored in another topic than the command found there."""
    before = {topic.path: topic for topic in file.topics}
    for path in sorted({topic_above(each.path) for each in plan.changes} - {"", *file.paths}):
        if (topic := now.get(path)) is None:
            continue
        if (known := before.get(path)) is None or not known.is_same(topic):
            raise UndoConflict(
                f"nothing was written: the topic {path}, created at {utc_text(topic.created_ms)}, is not the one that "
                "the file is of: the cursors in it are those of a topic that was deleted since"
            )


async def _refuse_ledgers_of_others(reader: MetadataReader, plan: UndoPlan, ledgers_root: str) -> None:
    """Raise UndoConflict if a record would name a ledger whose own metadata names another topic.

    Each cluster gives out the same ids. A topic that lists another's ledgers would delete them.
    """
    wanted = {
        ledger_id: each.managed_ledger or managed_ledger_name_from_path(each.path)
        for each in plan.changes
        for ledger_id in each.names_again
    }
    paths = [ledger_path(ledger_id, ledgers_root) for ledger_id in wanted]
    nodes = await reader.get_many(paths)
    for (ledger_id, name), path, node in zip(wanted.items(), paths, nodes, strict=True):
        if node is None:
            continue
        with contextlib.suppress(RecordError):  # a damaged ledger is nobody else's for all that can be told
            owner = origin_of(ledger_id, decode_ledger_metadata(node.data, path), 0).managed_ledger
            if owner not in ("", name):
                raise UndoConflict(
                    f"nothing was written: ledger {ledger_id} of {name} belongs to {owner} here: the file was written "
                    "for another cluster, or before this one was set up anew"
                )


async def _refuse_named_ledgers(reader: MetadataReader, plan: UndoPlan) -> None:
    """Raise UndoConflict if a ledger's record would go, as in the undo of an undo, that something has named since.

    What the plan itself takes back does not count, nor what deletes the ledger.
    """
    doomed = {each.path for each in plan.changes if each.action is UndoAction.DELETE and is_of_ledgers(each.path)}
    if not doomed:
        return
    goes = {each.path for each in plan.changes}
    await reader.sync()
    for each in (await read_references(reader)).found:
        if not is_possible_ledger(each.ledger_id) or ledger_path(each.ledger_id) not in doomed or each.path in goes:
            continue
        if each.path != deletion_path(each.ledger_id):
            raise UndoConflict(
                f"nothing was written: {each.path} names ledger {each.ledger_id} as {each.naming.value} by now, and "
                "this would delete it again; `ledgers delete --force` does, if it is to go"
            )


async def _left(reader: MetadataReader, named: Mapping[int, str], ledgers_root: str) -> set[int]:
    """Those of the ledgers `named`, each by a managed ledger, that do not say of themselves that they are another's."""
    paths = [ledger_path(ledger_id, ledgers_root) for ledger_id in named]
    found = set[int]()
    for (ledger_id, name), path, node in zip(named.items(), paths, await reader.get_many(paths), strict=True):
        if node is not None and belongs_to(ledger_id, node.data, path, name):
            found.add(ledger_id)
    return found


async def _existing(
    reader: MetadataReader, ledger_ids: Sequence[int], ledgers_root: str
) -> tuple[set[int], set[int], dict[int, LedgerEnd]]:
    """The ledgers that exist and whose deletion has not started, those of them recorded for deletion, and known ends.

    Deletion records are read after the lists that the ledgers were dropped from, and before the ledgers: a deletion
    removes its record last.
    """
    records = await reader.get_many([deletion_path(ledger_id) for ledger_id in ledger_ids])
    await reader.sync()
    found = await reader.get_many([ledger_path(ledger_id, ledgers_root) for ledger_id in ledger_ids])
    going = {
        each for each, record in zip(ledger_ids, records, strict=True) if record is not None and is_claimed(record)
    }
    existing = {each for each, node in zip(ledger_ids, found, strict=True) if node is not None} - going
    recorded = {each for each, record in zip(ledger_ids, records, strict=True) if record is not None}
    ends: dict[int, LedgerEnd] = {}
    for ledger_id, node in zip(ledger_ids, found, strict=True):
        with contextlib.suppress(RecordError):
            metadata = None if node is None else decode_ledger_metadata(node.data, ledger_path(ledger_id, ledgers_root))
            if metadata is not None and metadata.state is LedgerState.CLOSED:
                ends[ledger_id] = LedgerEnd(metadata.last_entry + 1, metadata.length)
    return existing, existing & recorded, ends


async def undo(
    plan: UndoPlan,
    store: MetadataStore,
    bookkeeper: BookKeeper,
    config: ManagedLedgerConfig,
    on_step: StepHook = ignore_steps,
    *,
    cluster_quorums: bool = False,
) -> None:
    """Restore the records, atomically or, if they do not fit one request, in pieces. Check for owners first (M9).

    `config` is for cursor ledgers to write; with `cluster_quorums` they get the quorums that the cluster has for their
    topic (M6). Their password is that of the topic's last ledger, if it has one: its owner opens both.

    Raises:
        UndoConflict: a record was changed meanwhile; the error says what was written, and undoing again continues after
            that. Or everything was written, but ledgers named again were deleted meanwhile; the error names them.
        StoreUnavailable: the outcome is unknown.
    """
    if not plan.changes:
        return
    await _refuse_named_ledgers(store, plan)
    folders = {each.path: each.data for each in plan.changes if _is_folder_to_create(each)}
    await ensure_folders(store, folders)
    pieces = plan_pieces(plan.without(folders))
    await _ensure_parents(store, plan)
    configs: dict[str, ManagedLedgerConfig] = {}
    affinities: dict[str, BookieAffinityGroup | None] = {}
    policies = PolicyReader(store, bookkeeper)
    for name in sorted({each.managed_ledger for each in plan.changes if each.cursor_ledger is not None}):
        ledgers = await _listed(store, plan, name)
        affinities[name] = await read_affinity(store, name, strict=config.strict_bookie_affinity)
        configs[name] = await _with_password(config, bookkeeper, ledgers)
        if cluster_quorums:
            configs[name] = await with_cluster_quorums(configs[name], policies, bookkeeper, name, ledgers)
    factories = {
        each.managed_ledger: LedgerFactory(
            bookkeeper,
            store,
            each.managed_ledger,
            configs.get(each.managed_ledger, config),
            on_step,
            affinity=affinities.get(each.managed_ledger),
        )
        for each in plan.changes
        if each.managed_ledger
    }
    written = 0
    for piece in pieces:
        try:
            await _put_back(piece, plan.created, store, bookkeeper, factories, on_step)
        except CONFLICTS as error:
            done = f"{written} of {len(plan.changes)} records were restored" if written else "nothing was written"
            then = "check it, and undo again to continue" if written else "check it, and try again"
            raise UndoConflict(f"{done}: {error.path} was changed meanwhile; {then}") from None
        written += len(piece.changes)
    await _look_at_ledgers(store, plan)


def _is_folder_to_create(each: Restoration) -> bool:
    """Whether the undo needs the node itself before its first write."""
    return each.action is UndoAction.CREATE and each.path in ENSURED_FOLDERS


async def _look_at_ledgers(store: MetadataStore, plan: UndoPlan) -> None:
    named = sorted({ledger_id for each in plan.changes for ledger_id in each.names_again})
    if not named:
        return
    await store.sync()
    existing, _, _ = await _existing(store, named, LEDGERS)
    gone = [str(ledger_id) for ledger_id in named if ledger_id not in existing]
    if gone:
        raise UndoConflict(
            f"all records were restored, but ledgers that they name were deleted meanwhile: {', '.join(gone)}; "
            "`mledger topics repair` removes them from the lists"
        )


async def _put_back(
    piece: Piece,
    created: Mapping[str, int],
    store: MetadataStore,
    bookkeeper: BookKeeper,
    factories: Mapping[str, LedgerFactory],
    on_step: StepHook,
) -> None:
    """Write the cursor ledgers of the piece, carry out its multi, and delete what no record names any more.

    The cursor ledgers that it drops are closed first: an owner that was taken over would write on to them, and
    acknowledge what is lost with them.
    """
    written: list[tuple[Restoration, LedgerWriter]] = []
    sent = False
    try:
        for each in piece.changes:
            if each.cursor_ledger is not None:
                writer = await factories[each.managed_ledger].create_cursor_ledger(cursor_name_from_path(each.path))
                written.append((each, writer))
                await writer.append([each.cursor_ledger.state])
                await writer.close()
        await asyncio.gather(*(_close(bookkeeper, ledger_id) for ledger_id in piece.written_to))
        operations = piece.operations({each.path: writer.ledger_id for each, writer in written})
        check_same = partial(_check_same, store, created, operations)
        await check_same()
        on_step("undo")
        sent = True
        await multi_own(store, operations, before_again=check_same)
    except BaseException as error:
        if sent and not isinstance(error, CONFLICTS):
            raise  # the multi may have been applied: each ledger's pending record tells the next opening what to do
        for each, writer in written:
            await factories[each.managed_ledger].discard(writer)
        raise
    on_step("undone")
    for each, writer in written:
        factories[each.managed_ledger].settled(writer.ledger_id)
    for ledger_id, name in (*piece.drops, *piece.unlists):
        await factories[name].delete(ledger_id)


async def _check_same(store: MetadataStore, created: Mapping[str, int], operations: Sequence[Operation]) -> None:
    """Raise BadVersion if a node is another one than when the plan was made: its version does not tell."""
    paths = sorted({each.path for each in operations if each.path in created})
    await store.sync()
    for path, node in zip(paths, await store.get_many(paths), strict=True):
        if node is not None and node.stat.created_ms != created[path]:
            raise BadVersion(f"{path} was deleted and created again", path)


async def _close(bookkeeper: BookKeeper, ledger_id: int) -> None:
    """Close the ledger if it is there, so that its bookies refuse whoever writes to it."""
    with contextlib.suppress(NoSuchLedger):
        await bookkeeper.close_ledger(ledger_id)


async def _listed(store: MetadataStore, plan: UndoPlan, managed_ledger: str) -> Sequence[LedgerInfo]:
    """The topic's list as the undo will restore it, or as it is if the undo does not change it."""
    path = managed_ledger_path(managed_ledger)
    data = next(
        (each.data for each in plan.changes if each.path == path and each.action is not UndoAction.DELETE), None
    )
    if data is None:
        data = (await store.get(path)).data
    return decode_managed_ledger_info(data, path).value.ledgers


async def _with_password(
    config: ManagedLedgerConfig, bookkeeper: BookKeeper, ledgers: Sequence[LedgerInfo]
) -> ManagedLedgerConfig:
    """`config` with the password that the topic's ledgers have: the undo itself opens none of them."""
    last = await last_metadata(bookkeeper, ledgers)
    return config if last is None or last.password is None else replace(config, password=last.password)


async def _ensure_parents(store: MetadataStore, plan: UndoPlan) -> None:
    """Create the parent nodes of the nodes to create; empty parents do no harm."""
    created = {each.path for each in plan.changes if each.action is UndoAction.CREATE}
    parents = {path.rpartition("/")[0] for path in created} - created - {""}
    for path in sorted(parents):
        if await store.exists(path) is None:
            try:
                await store.create(path, parents=True)
            except NodeExists:
                continue
