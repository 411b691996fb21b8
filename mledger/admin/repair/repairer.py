"""Reads the facts for `plan_repair`, read-only, and carries out its plan."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from mledger.admin.references.ledger_facts import LedgerFactsReader
from mledger.admin.references.unlisted_ledgers import UnlistedReader, ledgers_before
from mledger.admin.repair.repair_plan import CursorFacts, CursorMend, RepairPlan, TopicFacts
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.ledgers.peek import Peek
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cursors.persistence.ledger_state import CursorLedgerFinding, CursorLedgerUnavailable, StateFound
from mledger.cursors.persistence.state_reader import StateLedger, find_state
from mledger.errors import CursorRecoveryFailed, ShadowTopic
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.ledgers.ledger_list import LedgerEnd, check_possible
from mledger.ledgers.orphans.foreign_ledgers import check_own, delete_own_ledger
from mledger.ledgers.orphans.pending_records import (
    PendingRecord,
    claim_deletion,
    deletion_record,
    ensure_folders,
    fits_one_write,
    kept_record,
    owned_ledgers,
    read_kept,
    remove_record,
    write_ahead,
)
from mledger.ledgers.orphans.references import LedgerOrigin
from mledger.ledgers.shadow_topics import shadow_source
from mledger.ledgers.topic_record import fence_owner
from mledger.metastore.batched_store import plan_multis
from mledger.metastore.errors import BadVersion, MledgerError, NodeNotFound, RecordError
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
)
from mledger.metastore.records.paths import (
    cursor_names,
    deletion_path,
    ledger_path,
    managed_ledger_of_cursor,
    managed_ledger_path,
)
from mledger.metastore.records.values import NO_CURSOR_LEDGER, Decoded, ManagedLedgerInfo
from mledger.metastore.store import Check, Delete, MetadataReader, MetadataStore, Node, Operation, Put
from mledger.metastore.write_verification import multi_own

AT_ONCE = 64
TRIES = 3
FURTHER_RECORDS = "write cursors' records"
RECORDS_WRITTEN = "records written"
"""Steps that come when a first record is written, and when all are."""
NOTHING: Mapping[str, Sequence[LedgerOrigin]] = {}


class FactsReader:
    """Reads the facts of topics; passwords come from the ledgers' own metadata."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader) -> None:
        self._store, self._bookkeeper = store, bookkeeper
        self._unlisted = UnlistedReader(store, bookkeeper)
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._ledgers = LedgerFactsReader(bookkeeper, self._at_once)

    async def read(
        self,
        managed_ledgers: Sequence[str],
        orphans: Mapping[str, Sequence[LedgerOrigin]] = NOTHING,
        records: Sequence[PendingRecord] = (),
        kept: Sequence[PendingRecord] = (),
    ) -> list[TopicFacts | MledgerError]:
        """The facts of the given managed ledgers, in that order, read in few requests.

        `orphans` (by managed ledger), `records` and those of ledgers that are `kept` are known already. A managed
        ledger gets an error instead of facts if its record or a ledger's metadata does not parse, if one of its open
        ledgers cannot be peeked at or its end not be decided, or if an owner changed it during each attempt.
        """
        recorded, to_keep = _by_name(records), _by_name(kept)
        found: dict[str, TopicFacts | MledgerError] = {}
        left = list(managed_ledgers)
        for _ in range(TRIES):
            read = dict(zip(left, await self._read_once(left), strict=True))
            left = await self._changed(read)
            found |= {name: facts for name, facts in read.items() if name not in left}
            if not left:
                break
        written = await self._unlisted.written(each for name in managed_ledgers for each in orphans.get(name, ()))
        for name in left:
            path = managed_ledger_path(name)
            found[name] = BadVersion(f"{name} was changed each time it was read: close it, or try again", path)
        ends = {ledger_id: each.facts for ledger_id, each in written.items()}

        def whole(name: str, facts: TopicFacts) -> TopicFacts:
            of_topic = orphans.get(name, ())
            its = {each.ledger_id: written[each.ledger_id] for each in of_topic if each.ledger_id in written}
            return replace(
                facts,
                orphans=tuple(each.ledger_id for each in of_topic),
                orphans_of=frozenset(each.cursor for each in of_topic if each.cursor),
                written=frozenset(its),
                before=ledgers_before(its, facts.created_ms),
                ledgers={**ends, **facts.ledgers},
                records=tuple(recorded.get(name, ())),
                kept=tuple(to_keep.get(name, ())),
            )

        read = {name: found[name] for name in managed_ledgers}
        return [each if isinstance(each, MledgerError) else whole(name, each) for name, each in read.items()]

    async def _changed(self, read: Mapping[str, TopicFacts | MledgerError]) -> list[str]:
        """Those whose record, or a cursor's record, has changed since: the facts read may be inconsistent."""
        versions: dict[str, dict[str, int | None]] = {}
        for name, facts in read.items():
            if isinstance(facts, MledgerError):
                continue
            path = managed_ledger_path(name)
            versions[name] = {path: None if facts.info is None else facts.version}
            versions[name] |= {cursor.path: cursor.version for cursor in facts.cursors}
        paths = [path for each in versions.values() for path in each]
        now = {
            path: None if node is None else node.version
            for path, node in zip(paths, await self._store.get_many(paths), strict=True)
        }
        return [name for name, each in versions.items() if any(now[path] != version for path, version in each.items())]

    async def _read_once(self, managed_ledgers: Sequence[str]) -> list[TopicFacts | MledgerError]:
        """Read cursor states before the ends of ledgers: so a live topic's cursors are never past its end."""
        paths = [managed_ledger_path(name) for name in managed_ledgers]
        nodes = await self._store.get_many(paths)
        decoded = [_info(path, node) for path, node in zip(paths, nodes, strict=True)]
        infos = [each.value if isinstance(each, Decoded) else each for each in decoded]
        cursors = await self._cursor_nodes(paths)
        ledger_ids = sorted({ledger for info in infos for ledger in _ledger_ids(info)})
        await self._store.sync()  # else a listed ledger could seem lost because a server lags
        found = await self._store.get_many([ledger_path(ledger_id) for ledger_id in ledger_ids])
        ledgers = dict(zip(ledger_ids, found, strict=True))

        async def facts(at: int) -> TopicFacts | MledgerError:
            name, info, node, stored = managed_ledgers[at], infos[at], nodes[at], decoded[at]
            if isinstance(info, MledgerError):
                return info
            if info is not None and shadow_source(info) is not None:
                return ShadowTopic(f"the topic is a shadow of {shadow_source(info)}, whose ledgers it lists")
            if info is None or node is None:
                return TopicFacts(name, None)
            read = tuple(await self._cursors(cursors[at]))
            try:
                known = {each: await self._ledgers.read(each, ledgers[each]) for each in _ledger_ids(info)}
            except MledgerError as error:
                return error
            compression = stored.compression if isinstance(stored, Decoded) else "NONE"
            return TopicFacts(
                name,
                info,
                version=node.version,
                created_ms=node.stat.created_ms,
                compression=compression,
                ledgers=known,
                cursors=read,
            )

        return await asyncio.gather(*map(facts, range(len(managed_ledgers))))

    async def _cursor_nodes(self, topics: Sequence[str]) -> list[list[tuple[str, Node]]]:
        """The paths and nodes of each topic's cursors."""
        children = await self._store.children_many(topics)
        paths = [[f"{topic}/{name}" for name in names or ()] for topic, names in zip(topics, children, strict=True)]
        nodes = iter(await self._store.get_many([path for some in paths for path in some]))
        return [[(path, node) for path in some if (node := next(nodes)) is not None] for some in paths]

    async def _cursors(self, nodes: Sequence[tuple[str, Node]]) -> list[CursorFacts]:
        names = cursor_names(path.rpartition("/")[2] for path, _ in nodes)
        return await asyncio.gather(*(self._cursor(names[path.rpartition("/")[2]], path, node) for path, node in nodes))

    async def _cursor(self, name: str, path: str, node: Node) -> CursorFacts:
        try:
            decoded = decode_managed_cursor_info(node.data, path)
        except RecordError as error:
            return CursorFacts(name, path, node.version, error)
        record = decoded.value
        finding, is_open = None, False
        if record.cursors_ledger_id != NO_CURSOR_LEDGER:
            async with self._at_once:
                finding, is_open = await self._state(managed_ledger_of_cursor(path), record.cursors_ledger_id)
        return CursorFacts(name, path, node.version, record, finding, decoded.compression, is_open)

    async def _state(self, managed_ledger: str, cursor_ledger: int) -> tuple[CursorLedgerFinding, bool]:
        """What the cursor ledger has, and whether it is open."""
        peeks: dict[int, Peek] = {}

        async def open_peeked(ledger_id: int) -> StateLedger:
            check = partial(check_own, managed_ledger, ledger_id)
            peeks[ledger_id] = (await self._bookkeeper.peek(ledger_id, None, check=check)).decided()
            return peeks[ledger_id].reader

        def is_unconfirmed(_: StateLedger) -> bool:
            return peeks[cursor_ledger].unconfirmed

        finding = await find_state(open_peeked, self._store.sync, cursor_ledger, is_unconfirmed)
        return finding, cursor_ledger in peeks and not peeks[cursor_ledger].closed


def _by_name(records: Sequence[PendingRecord]) -> dict[str, list[PendingRecord]]:
    """The records by the managed ledger that they name."""
    found: dict[str, list[PendingRecord]] = {}
    for record in records:
        found.setdefault(record.managed_ledger, []).append(record)
    return found


def _info(path: str, node: Node | None) -> Decoded[ManagedLedgerInfo] | RecordError | None:
    try:
        found = None if node is None else decode_managed_ledger_info(node.data, path)
        if found is not None:
            check_possible([ledger.ledger_id for ledger in found.value.ledgers], path)
    except RecordError as error:
        return error
    return found


def _ledger_ids(info: ManagedLedgerInfo | RecordError | None) -> list[int]:
    return [ledger.ledger_id for ledger in info.ledgers] if isinstance(info, ManagedLedgerInfo) else []


async def repair(
    plan: RepairPlan, store: MetadataStore, bookkeeper: BookKeeper, on_step: StepHook = ignore_steps
) -> list[int]:
    """Carry out `plan`; returns the ledgers deleted. The caller has checked that the topic has no owner (M9).

    1. Recover ledgers before the last, and the cursor ledgers that cursors no longer name: an owner that was taken over
       would write on to these, and lose what it acknowledges.
    2. Fence an owner if ledgers are deleted or pending records removed: one that was frozen for longer than its session
       may be about to name such a ledger, in the topic's record or in a cursor's, which Pulsar's owners write without a
       look at the topic's. Then write the deletion records that do not fit the write of the topic's record (M11).
    3. Write the records, each with a check of its version: the topic's with the first cursors, then further cursors in
       pieces, each cursor with the deletion record of the cursor ledger that it no longer names.
    4. Delete the ledgers recorded for deletion. If this is interrupted, the next opening finishes it (R10).

    Raises BadVersion if a record was changed since, or a recovered ledger has another end: run the command again.
    """
    try:
        return await _repair(plan, store, bookkeeper, on_step)
    except NodeNotFound as gone:
        raise BadVersion(f"{gone}: it was changed since the plan was made, run the command again", gone.path) from None


async def _repair(plan: RepairPlan, store: MetadataStore, bookkeeper: BookKeeper, on_step: StepHook) -> list[int]:
    await ensure_folders(store)
    for ledger_id, end in plan.recover:
        on_step("recover ledger")
        await _recover(bookkeeper, ledger_id, end)
    for cursor in plan.cursors:
        on_step("fence cursor ledger")
        await _fence(store, bookkeeper, cursor)
    if plan.version is not None and (plan.delete or plan.ends_creations or not _fits_at_once(plan)):
        on_step("fence owner")
        plan = await _fenced(plan, store)
    path = managed_ledger_path(plan.managed_ledger)
    relied_on = [Check(*each) for each in plan.relied_on] if plan.ends_creations else []
    topic = _write_of_topic(plan)
    records = _records_of_ledgers(plan)
    cursors = _writes_of_cursors(plan, records, {record.ledger_id for record in await read_kept(store)})
    others = [operation for group in records.values() for operation in group]
    written = _data_of(topic)
    if not fits_one_write(written, others):
        on_step("record ledgers")
        guards = [] if plan.version is None else [Check(path, plan.version), *relied_on]
        await write_ahead(store, [*records.values()], *guards)
        others = []
    pieces = [[each for at in part for each in cursors[at]] for part in plan_multis(cursors)]
    first = [*topic, *others]
    if pieces and fits_one_write(written + _data_of(pieces[0]), [*others, *pieces[0]]):
        first += pieces.pop(0)
    written_first = {operation.path for operation in first}
    first += [check for check in relied_on if check.path not in written_first]
    on_step("write records")
    if any(not isinstance(operation, Check) for operation in first):
        await multi_own(store, first)
    version = plan.version if plan.info is None or plan.version is None else plan.version + 1
    for piece in pieces:
        assert version is not None
        on_step(FURTHER_RECORDS)
        await multi_own(store, [*piece, Check(path, version)])
    on_step(RECORDS_WRITTEN)
    return await _delete(plan, store, bookkeeper, on_step)


async def _delete(plan: RepairPlan, store: MetadataStore, bookkeeper: BookKeeper, on_step: StepHook) -> list[int]:
    """Delete ledgers that nothing names; an undo may have listed some of them again since the plan was made.

    Returns those deleted: another topic's stays, whatever the records said of it.
    """
    claimed = [each for each in plan.delete if await claim_deletion(store, each, plan.managed_ledger)]
    if not claimed:
        return []
    deleted: list[int] = []
    named: Collection[int] = ()
    await store.sync()
    with contextlib.suppress(NodeNotFound):
        named = await owned_ledgers(store, plan.managed_ledger, unreadable_cursors=True)
    for ledger_id in claimed:
        if ledger_id not in named:
            on_step("delete ledger")
            if await delete_own_ledger(bookkeeper, ledger_id, plan.managed_ledger):
                deleted.append(ledger_id)
            on_step("ledger deleted, still recorded")
        await remove_record(store, deletion_path(ledger_id))
    return deleted


def _fits_at_once(plan: RepairPlan) -> bool:
    """Whether the write of the topic's record has room for all records of ledgers."""
    records = [operation for group in _records_of_ledgers(plan).values() for operation in group]
    return plan.info is None or fits_one_write(_data_of(_write_of_topic(plan)), records)


async def _fenced(plan: RepairPlan, store: MetadataStore) -> RepairPlan:
    """The plan after the topic's record was written unchanged, updated with the deletion records that exist then.

    Without the fence, an owner that replays would treat deletion records of ledgers that it still lists as left over,
    and one that goes on after a long pause would name a ledger that is deleted.
    """
    assert plan.version is not None
    version = await fence_owner(store, managed_ledger_path(plan.managed_ledger), plan.version)
    written = {each: await fence_owner(store, each, at) for each, at in plan.outdate}
    relied_on = tuple((each, written.get(each, at)) for each, at in plan.relied_on)
    found = await store.get_many([deletion_path(ledger_id) for ledger_id in plan.delete])
    to_record = tuple(ledger_id for ledger_id, node in zip(plan.delete, found, strict=True) if node is None)
    return replace(plan, version=version, to_record=to_record, relied_on=relied_on)


def _write_of_topic(plan: RepairPlan) -> list[Operation]:
    path = managed_ledger_path(plan.managed_ledger)
    if plan.version is None:
        return []
    if plan.info is None:
        return [Check(path, plan.version)]
    return [Put(path, encode_managed_ledger_info(plan.info, compression=plan.compression), plan.version)]


def _records_of_ledgers(plan: RepairPlan) -> dict[int, list[Operation]]:
    """The writes of pending and deletion records, by ledger."""
    groups: dict[int, list[Operation]] = {
        ledger_id: [deletion_record(ledger_id, plan.managed_ledger)] for ledger_id in plan.to_record
    }
    for record in plan.done_with:
        groups.setdefault(record.ledger_id, []).append(Delete(record.path))
    return groups


def _writes_of_cursors(
    plan: RepairPlan, records: dict[int, list[Operation]], kept: Collection[int]
) -> list[list[Operation]]:
    """Each cursor's record, with the deletion record of the cursor ledger that it no longer names.

    These deletion records are taken out of `records`: written ahead, they would conflict with an owner that drops the
    cursor ledger itself. The cursor ledgers in `kept` have a record already.
    """
    found, keeps = list[list[Operation]](), set(kept)
    for each in plan.cursors:
        data = encode_managed_cursor_info(each.record, compression=each.compression)
        group: list[Operation] = [Put(each.path, data, each.version)]
        if each.drops is not None:
            group += records.pop(each.drops, [])
        if each.keeps is not None and each.keeps not in keeps:
            keeps.add(each.keeps)
            group.append(kept_record(each.keeps, plan.managed_ledger))
        found.append(group)
    return found


def _data_of(operations: Sequence[Operation]) -> bytes:
    return b"".join(each.data for each in operations if isinstance(each, Put))


async def _recover(bookkeeper: BookKeeper, ledger_id: int, end: LedgerEnd) -> None:
    reader = await bookkeeper.open_ledger(ledger_id, None)
    if LedgerEnd(reader.last_entry + 1, reader.length) != end:
        raise BadVersion(
            f"ledger {ledger_id} was recovered with {reader.last_entry + 1} entries, but {end.entries} were expected: "
            "no record was changed; run the command again",
            ledger_path(ledger_id),
        )


async def _fence(store: MetadataStore, bookkeeper: BookKeeper, cursor: CursorMend) -> None:
    """Close the cursor ledger that the cursor will no longer name. Raises BadVersion if it has a newer state."""

    async def open_recovered(ledger_id: int) -> StateLedger:
        check = partial(check_own, managed_ledger_of_cursor(cursor.path), ledger_id)
        return await bookkeeper.open_ledger(ledger_id, None, check=check)

    for ledger_id in {cursor.drops, cursor.keeps} - {None}:
        assert ledger_id is not None
        finding = await find_state(open_recovered, store.sync, ledger_id)
        if isinstance(finding, CursorLedgerUnavailable):
            raise CursorRecoveryFailed(f"cursor {cursor.name}: {finding.describe()}; no record was changed")
        if isinstance(finding, StateFound) and finding.at != cursor.recovered.at:
            raise BadVersion(
                f"cursor ledger {ledger_id} of cursor {cursor.name} has a newer state: no record was changed; run the "
                "command again",
                cursor.path,
            )
