"""Decides how to restore the records of an undo file; no I/O.

- A record is restored only if its version and bytes are those that the command left; all records are restored, or none.
- A file that was not completed does not say what the command left. A record that is as it was before needs nothing; any
  other is refused, unless `incomplete` says to treat the current records as what the command left.
- Everything is one multi with version checks, the topics' versions included: an owner that opened a topic in between
  wins. What does not fit one request is split into pieces (M11, `undo_pieces`); records that are restored already are
  then accepted, so that an interrupted undo can continue.
- A node that was deleted is created again; it starts at version 0.
- Every client creates the folders of our own records where they are missing, an undo too. One that was deleted and is
  there again as it was is restored already.
- A cursor whose state was in a cursor ledger gets that state back: in its record if it fits there (C3), else in a
  cursor ledger that is written first. A cursor ledger that no record names any more is recorded for deletion (R10).
- A topic's restored list never names a ledger that is gone, and keeps the ledgers that were added since. A ledger is
  recorded as kept afterwards only if the list does not have it.
- A ledger that is recorded for deletion is listed again only if its deletion has not started: the same multi removes
  the deletion record. A ledger whose deletion has started counts as gone.
- A topic that was deleted with entries comes back without them, and only if that is accepted (`accept_loss`).
- A restored cursor does not name a compacted topic's ledger or an index of delayed messages that is gone.
- The ledgers that a record names which is deleted, since it was not there before, are recorded for deletion with it.
- A cursor is restored only if its topic's record is there, and stays as it was read meanwhile. The record is written
  unchanged, which fences an owner.
- A ledger that was closed stays closed (Q5).
- A shadow topic is not changed: the ledgers in its record are its source's.
"""

import contextlib
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from mledger.admin.undo.restorations import CursorLedger, Restoration, UndoAction, UndoPlan
from mledger.admin.undo.undo_file import ChangedRecord, NodeState, Outcome, SavedCursor, UndoFile
from mledger.admin.undo.undo_references import (
    describe_ledgers,
    describe_state,
    is_closed_since,
    is_of_ledgers,
    ledgers_beside,
    ledgers_left,
    named_ledgers,
    names_another,
    numbers_of,
    plan_record,
    plan_state,
    with_end,
    without_ledgers,
)
from mledger.config import CURSOR_ZNODE_LIMIT, MAX_MESSAGE_SIZE, ManagedLedgerConfig
from mledger.cursors.acks.ack_records import state_record
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.errors import UndoConflict
from mledger.ledgers.ledger_list import LedgerEnd
from mledger.ledgers.offload import is_offloaded
from mledger.ledgers.orphans.pending_records import ENSURED_FOLDERS, is_ledger_id
from mledger.ledgers.shadow_topics import refuse_shadow
from mledger.metastore.batched_store import MOST_BYTES, MOST_OPERATIONS
from mledger.metastore.errors import RecordError
from mledger.metastore.records.codec import (
    decode_managed_cursor_info,
    decode_managed_ledger_info,
    decode_position_info,
    encode_managed_cursor_info,
    encode_managed_ledger_info,
    encode_position_info,
)
from mledger.metastore.records.paths import KEPT, is_possible_ledger, managed_ledger_path, topic_above
from mledger.metastore.records.values import (
    NO_CURSOR_LEDGER,
    Decoded,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    PositionInfo,
)
from mledger.metastore.store import Check, Put

NO_ENDS: Mapping[int, LedgerEnd] = {}
NO_LEDGER = -1
MAX_RANGES = ManagedLedgerConfig().max_unacked_ranges_to_persist_in_metadata_store
_RESTORES = (UndoAction.SET, UndoAction.CREATE)


def saved_cursor(path: str, plan: CursorRecoveryPlan) -> SavedCursor:
    """The recovered state of a cursor, to save in an undo file; AckStateTooLarge if it does not fit an entry."""
    acks = plan.acks
    if acks.range_count <= MAX_RANGES and not acks.has_batches:
        return SavedCursor(
            path, encode_position_info(PositionInfo(acks.mark_delete, tuple(acks.ranges()), plan.properties))
        )
    return SavedCursor(path, encode_position_info(state_record(acks, plan.properties, limit=MAX_MESSAGE_SIZE)))


def paths_to_read(file: UndoFile) -> tuple[str, ...]:
    """The nodes that `plan_undo` needs."""
    above = filter(None, map(topic_above, file.paths))
    return tuple(dict.fromkeys([*file.paths, *(managed_ledger_path(name) for name in file.managed_ledgers), *above]))


def ledgers_to_look_for(file: UndoFile) -> list[int]:
    """The ledgers whose existence `plan_undo` needs to know, by ascending id."""
    found: set[int] = set()
    states = {cursor.path: cursor.state for cursor in file.cursors}
    topics = _topics(file)
    for record in file.records:
        if record.before is None:
            continue
        if record.path in topics:
            info = decode_managed_ledger_info(record.before.data, record.path).value
            found.update(ledger.ledger_id for ledger in info.ledgers)
        elif _topic_of_cursor(topics, record.path):
            with contextlib.suppress(RecordError):  # a record that does not parse is restored as it was (M12)
                cursor = decode_managed_cursor_info(record.before.data, record.path).value
                found.add(cursor.cursors_ledger_id)
                saved = states.get(record.path)
                state = None if saved is None else decode_position_info(saved, record.path).value
                found |= ledgers_beside(record.path, cursor, state)
    return sorted(filter(is_possible_ledger, found))


def ledgers_to_delete(file: UndoFile, current: Mapping[str, NodeState | None]) -> dict[int, str]:
    """The ledgers that records name which were not there before, each with its managed ledger."""
    found: dict[int, str] = {}
    topics = _topics(file)
    for record in file.records:
        now = current[record.path]
        name = topics.get(record.path) or _topic_of_cursor(topics, record.path)
        if record.before is None and now is not None and name:
            left = ledgers_left(now.data, record.path, topic=record.path in topics)
            found |= dict.fromkeys(filter(is_possible_ledger, left), name)
    return found


def plan_undo(
    file: UndoFile,
    current: Mapping[str, NodeState | None],
    existing: Collection[int],
    recorded: Collection[int] = (),
    *,
    left: Collection[int] = (),
    ends: Mapping[int, LedgerEnd] = NO_ENDS,
    incomplete: bool = False,
    accept_loss: bool = False,
    two_stores: bool = False,
) -> UndoPlan:
    """How to restore the records of `file`, given their `current` nodes and the `existing` ledgers.

    Args:
        file: the undo file.
        current: the nodes at `paths_to_read(file)`.
        existing: those of `ledgers_to_look_for(file)` that exist and whose deletion has not started.
        recorded: those of `existing` and `left` that are recorded for deletion.
        left: those of `ledgers_to_delete(file, current)` that exist and are the topic's own.
        ends: the ends of those of `existing` that are closed.
        incomplete: if the file was not completed, treat the current records as what the command left.
        accept_loss: restore a deleted topic without the ledgers that are gone.
        two_stores: ledgers have their own metadata store.

    Raises:
        UndoConflict: names every record that cannot be restored, or what would be lost.
        RecordError: a record of the file does not parse.
    """
    planner = _Planner(file, current, frozenset(existing), frozenset(recorded), frozenset(left), ends)
    planner.in_pieces |= two_stores and len(set(map(is_of_ledgers, file.paths))) > 1
    conflicts = []
    for record in file.records:
        conflict = _conflict(file, record, current[record.path], incomplete)
        goes_on = planner.in_pieces or _is_folder_again(record, current[record.path])
        if conflict is not None and not (goes_on and planner.goes_on(record)):
            conflicts.append(conflict)
    if conflicts:
        raise UndoConflict(f"nothing was written: {'; '.join(conflicts)}")
    restorations = planner.with_kept([planner.restoration(record) for record in file.records])
    if planner.hollow and not accept_loss:
        raise UndoConflict(
            f"nothing was written: these are lost: {'; '.join(file.lost)}; {'; '.join(planner.hollow)}; --accept-loss "
            "restores the records without them"
        )
    written = {each.path for each in restorations if each.action is not UndoAction.LEAVE}
    checks = tuple(planner.checks(written)) if written else ()
    return UndoPlan(restorations, checks, file.lost, file.managed_ledgers, planner.in_pieces, two_stores)


def _conflict(file: UndoFile, record: ChangedRecord, now: NodeState | None, incomplete: bool) -> str | None:
    """Why the record cannot be restored, None if it can."""
    if file.outcome is Outcome.BEGUN:
        if now == record.before or incomplete:
            return None
        return (
            f"{record.path} is {describe_state(now)}, it was {describe_state(record.before)}, and the command was "
            "interrupted before it could record what it left: if nobody else changed it, undo with --incomplete"
        )
    if now == record.after:
        return None
    same = now is not None and record.after is not None and now.version == record.after.version
    return (
        f"{record.path} is {describe_state(now)}{' with other data' if same else ''}, but the command left it "
        f"{describe_state(record.after)}: it was changed since"
    )


def _is_folder_again(record: ChangedRecord, now: NodeState | None) -> bool:
    """Whether the node is a deleted folder of our own records that a client has created since."""
    return record.path in ENSURED_FOLDERS and record.after is None and now is not None


def _topics(file: UndoFile) -> dict[str, str]:
    """The managed ledgers of the file, by the path of their record: there may be many thousand, as of records."""
    return {managed_ledger_path(name): name for name in file.managed_ledgers}


def _topic_of_cursor(topics: Mapping[str, str], path: str) -> str:
    """The managed ledger whose cursor's record is at `path`, empty for another node."""
    return topics.get(path.rpartition("/")[0], "")


def _listed(path: str, topic: NodeState | None) -> frozenset[int]:
    return frozenset() if topic is None else named_ledgers(topic.data, path, topic=True)


class _Planner:
    """Decides record by record."""

    def __init__(
        self,
        file: UndoFile,
        current: Mapping[str, NodeState | None],
        existing: frozenset[int],
        recorded: frozenset[int],
        left: frozenset[int],
        ends: Mapping[int, LedgerEnd],
    ) -> None:
        self._file = file
        self._ends = ends
        self._topics = _topics(file)
        self._current = current
        self._existing = existing
        self._recorded = recorded
        self._left = left
        self._saved = {cursor.path: cursor.state for cursor in file.cursors}
        most = max(len(ledgers_to_look_for(file)), len(ledgers_to_delete(file, current)))
        beside = current.keys() - set(file.paths)  # topics that may be written unchanged
        size = sum(len(node.data) for path in beside if (node := current[path]) is not None)
        self.in_pieces = file.in_pieces or most > MOST_OPERATIONS or size > MOST_BYTES
        self._put_back: set[str] = set()  # by an undo in pieces that was interrupted
        self.hollow: list[str] = []  # deleted topics that would come back without entries, with the missing ledgers

    def goes_on(self, record: ChangedRecord) -> bool:
        """Whether an interrupted undo in pieces left the record as it is: restored, or a topic without ledgers."""
        path, before, now = record.path, record.before, self._current[record.path]
        if before is None or now is None:
            return before is None and now is None
        found = self._restored(path, before, now)
        if found.cursor_ledger is None:
            put_back = now.data == found.data
        else:
            put_back = names_another(now.data, found.cursor_ledger.record, path)
        if put_back:
            self._put_back.add(path)
        return put_back or (
            self._is_topic(path) and record.after is None and now.data == without_ledgers(before.data, path)
        )

    def checks(self, written: Collection[str]) -> list[Check | Put]:
        """What holds each topic whose record is not restored: a check, or a write that fences its owner.

        An owner does not hear of a cursor that others create or set back, and would trim what that needs: one that was
        taken over, or that was frozen for longer than its session.
        """
        above = {path for path in map(topic_above, written) if path not in self._topics}
        found: list[Check | Put] = []
        for path in (*self._topics, *sorted(above - {""})):
            topic = self._current[path]
            if path in written:
                continue
            of_cursors = any(each.startswith(f"{path}/") for each in written)
            if topic is not None:
                found.append(Put(path, topic.data, topic.version) if of_cursors else Check(path, topic.version))
            elif of_cursors:
                raise UndoConflict(f"nothing was written: the topic {path} is gone, so its cursors cannot be restored")
        return found

    def restoration(self, record: ChangedRecord) -> Restoration:
        """How one record is restored."""
        path, before, now = record.path, record.before, self._current[record.path]
        if now == before:
            return Restoration(path, UndoAction.LEAVE, note="as it was before")
        if before is not None and now is not None and is_closed_since(path, before.data, now.data):
            return Restoration(path, UndoAction.LEAVE, note="the ledger stays closed")
        topic = _topic_of_cursor(self._topics, path)
        drops = self._cursor_ledger(path, now) if topic else None
        if before is None:
            return self._deletion(path, now, drops)
        if path in self._put_back:
            return Restoration(path, UndoAction.LEAVE, note="is restored already")
        found = self._naming(self._restored(path, before, now), now)
        if now is None:
            note = "; ".join(filter(None, ["starts again at version 0", found.note]))
            begins_as = without_ledgers(before.data, path) if self.in_pieces and self._is_topic(path) else None
            return replace(found, action=UndoAction.CREATE, note=note, begins_as=begins_as)
        if found.cursor_ledger is None and found.data == now.data:
            return Restoration(path, UndoAction.LEAVE, note=found.note or "has this content already")
        named = None if found.cursor_ledger is not None else self._cursor_ledger(path, NodeState(found.data, 0))
        return replace(found, version=now.version, drops=drops if topic and drops != named else None)

    def with_kept(self, found: Sequence[Restoration]) -> tuple[Restoration, ...]:
        """`found`, but a ledger is recorded as kept only if the list, which once had it, has it no more."""
        if not any(each.path.startswith(f"{KEPT}/") for each in found):
            return tuple(found)
        listed, before = set[int](), set[int]()
        for record, each in zip(self._file.records, found, strict=True):
            if self._is_topic(each.path):
                now = NodeState(each.data, 0) if each.action in _RESTORES else self._current[each.path]
                listed |= _listed(each.path, None if each.action is UndoAction.DELETE else now)
                before |= _listed(each.path, record.before)
        lost = (before & self._existing) - listed

        def settled(each: Restoration) -> Restoration:
            folder, _, last = each.path.rpartition("/")
            ledger_id = int(last) if folder == KEPT and is_ledger_id(last) else NO_LEDGER
            if each.action is UndoAction.CREATE and ledger_id in listed:
                return Restoration(each.path, UndoAction.LEAVE, note="the list has the ledger")
            if each.action is UndoAction.DELETE and ledger_id in lost:
                return Restoration(each.path, UndoAction.LEAVE, note="the list does not have the ledger")
            return each

        return tuple(map(settled, found))

    def _deletion(self, path: str, now: NodeState | None, drops: int | None) -> Restoration:
        """How a record that was not there before goes, and the ledgers that it names with it."""
        name = self._topics.get(path) or _topic_of_cursor(self._topics, path)
        if now is None or not name:
            version = None if now is None else now.version
            return Restoration(path, UndoAction.DELETE, version=version, drops=drops, managed_ledger=name)
        left = ledgers_left(now.data, path, topic=self._is_topic(path)) & self._left
        return Restoration(
            path,
            UndoAction.DELETE,
            version=now.version,
            drops=drops,
            managed_ledger=name,
            note=f"with its ledgers: {', '.join(map(str, sorted(left)))}" if left else "",
            unlists=tuple(sorted(left)),
            to_record=tuple(sorted(left - self._recorded)),
        )

    def _naming(self, found: Restoration, now: NodeState | None) -> Restoration:
        """`found` with the ledgers that the record names again."""
        is_topic = self._is_topic(found.path)
        if not is_topic and not _topic_of_cursor(self._topics, found.path):
            return found
        naming = found.data if found.cursor_ledger is None else encode_managed_cursor_info(found.cursor_ledger.record)
        named = named_ledgers(naming, found.path, topic=is_topic)
        named -= frozenset() if now is None else named_ledgers(now.data, found.path, topic=is_topic)
        named &= self._existing  # data that is only in tiered storage has no ledger
        return replace(found, names_again=tuple(sorted(named)), recorded=tuple(sorted(named & self._recorded)))

    def _is_topic(self, path: str) -> bool:
        return path in self._topics

    def _restored(self, path: str, before: NodeState, now: NodeState | None) -> Restoration:
        """How a record that existed before is restored, whatever is there now."""
        topic = _topic_of_cursor(self._topics, path)
        if topic:
            return self._cursor(path, before, topic)
        if self._is_topic(path):
            return self._topic(path, before, now)
        return Restoration(path, UndoAction.SET, before.data)

    def _cursor(self, path: str, before: NodeState, topic: str) -> Restoration:
        found = Restoration(path, UndoAction.SET, before.data, managed_ledger=topic)
        try:
            decoded = decode_managed_cursor_info(before.data, path)
        except RecordError:
            return replace(found, note="restored as it was; it does not parse")
        record = decoded.value
        if record.cursors_ledger_id == NO_CURSOR_LEDGER:
            named, note = plan_record(path, record, self._existing)
            if not note:
                return found
            data = encode_managed_cursor_info(named, compression=decoded.compression)
            return replace(found, data=data, note=note)
        saved = self._saved.get(path)
        if saved is not None:
            return self._cursor_from_state(found, decoded, saved)
        if record.cursors_ledger_id in self._existing:
            return found
        raise UndoConflict(
            f"nothing was written: the state of {path} was in cursor ledger {record.cursors_ledger_id}, which is gone, "
            "and is not in the undo file"
        )

    def _cursor_from_state(self, found: Restoration, stored: Decoded[ManagedCursorInfo], saved: bytes) -> Restoration:
        """Put the state where a clean close would put it (C3)."""
        record, compression = stored.value, stored.compression
        state, dropped = plan_state(found.path, decode_position_info(saved, found.path).value, self._existing)
        if dropped:
            saved = encode_position_info(state)
        record, of_record = plan_record(found.path, record, self._existing)
        dropped = dropped or of_record
        rewritten = replace(
            record,
            cursors_ledger_id=NO_CURSOR_LEDGER,
            mark_delete=state.position,
            ranges=state.ranges,
            properties=state.properties,
            batch_deletions=(),
            last_checkpoint=None,
        )
        data = encode_managed_cursor_info(rewritten, compression=compression)
        small = not state.batch_deletions and not state.ledger_bits and len(state.ranges) <= MAX_RANGES
        if small and len(data) < CURSOR_ZNODE_LIMIT:
            note = f"its state at {state.position} goes into its record"
            return replace(found, data=data, note="; ".join(filter(None, [note, dropped])))
        naming = replace(rewritten, ranges=())
        return replace(
            found,
            data=b"",
            cursor_ledger=CursorLedger(naming, saved, compression),
            note="; ".join(filter(None, [f"its state at {state.position} goes into a new cursor ledger", dropped])),
        )

    def _topic(self, path: str, before: NodeState, now: NodeState | None) -> Restoration:
        stored = decode_managed_ledger_info(before.data, path)
        old = stored.value
        refuse_shadow(self._topics[path], old)
        new = decode_managed_ledger_info(now.data, path).value if now is not None else ManagedLedgerInfo()
        kept = [ledger for ledger in old.ledgers if ledger.ledger_id in self._existing or is_offloaded(ledger, path)]
        added = {ledger.ledger_id for ledger in new.ledgers} - {ledger.ledger_id for ledger in old.ledgers}
        if added:  # a ledger whose entries are not recorded may only be the last (M4)
            closed = (with_end(ledger, self._ends, self._file.made_at_ms) for ledger in kept)
            kept = [ledger for ledger in closed if ledger.timestamp]
        if not added and len(kept) == len(old.ledgers):
            return Restoration(path, UndoAction.SET, before.data)
        ledgers = {ledger.ledger_id: ledger for ledger in (*kept, *new.ledgers)}
        gone = [ledger for ledger in old.ledgers if ledger.ledger_id not in ledgers]
        if now is None and gone and self._file.lost:
            self.hollow.append(f"of {path}, ledgers {numbers_of(gone)} are gone or being deleted")
        merged = replace(old, ledgers=tuple(ledgers[ledger_id] for ledger_id in sorted(ledgers)))
        data = encode_managed_ledger_info(merged, compression=stored.compression)
        return Restoration(path, UndoAction.SET, data, note=describe_ledgers(gone, added))

    def _cursor_ledger(self, path: str, state: NodeState | None) -> int | None:
        """The cursor ledger that a cursor's record names."""
        if state is None:
            return None
        try:
            named = decode_managed_cursor_info(state.data, path).value.cursors_ledger_id
        except RecordError:  # the record does not parse, so its cursor ledger is unknown; it is replaced anyway
            return None
        return None if named == NO_CURSOR_LEDGER else named
