"""Finds faults in a topic's records and decides how to repair them; over plain values, no I/O.

- The list of ledgers is repaired as `ledger_mends` decides.
- A cursor whose cursor ledger is lost or empty falls back to its record's snapshot. A cursor whose last state cannot be
  read falls back to the state before it, and its cursor ledger is kept (R4, M12).
- A cursor is moved if its position is past the end, before a lost ledger, or in a missing ledger in the middle of the
  list (R6, R7); ranges over missing ledgers are dropped. A position before an empty ledger that an opening dropped is
  not a fault: each restart of a broker leaves the cursors of empty topics there. The repaired state goes into the
  cursor's record if it fits (C3); otherwise the next opening has to write it.
- What cannot be read now is never treated as lost (R5): it is reported and left as it is.
- Ledgers of the topic that nothing references are deleted under a deletion record, unless the list has lost them. These
  stay, and so do the list and the cursors until it is known which ledgers the topic has. One that lies before the first
  of the list, and is recorded as kept or older than the topic's record, stays alone. Those with entries whose topic
  does not exist stay, too, unless it is said that it was deleted.
- Pending and deletion records that were left over are resolved as an opening would resolve them (R10). Compaction
  leaves them, too: its cursor's last state says which compacted ledger is named. While that cannot be read, or the
  cursor ledger is open, so that an owner that was frozen for longer than its session may still write another state to
  it, none of them goes, and their records stay.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.admin.references.ledger_facts import LedgerFacts
from mledger.admin.references.unlisted_ledgers import unlisted_ledgers
from mledger.admin.repair.ledger_mends import (
    LISTED_AGAIN,
    MISSING,
    PASSED,
    TOPIC_GONE,
    LedgerMends,
    Mend,
    Wrong,
    list_again,
    mend_list,
)
from mledger.cursors.acks.ack_records import znode_record
from mledger.cursors.compaction import compacted_ledger, is_compaction, names_in_state
from mledger.cursors.persistence.ledger_state import (
    CursorLedgerEmpty,
    CursorLedgerFinding,
    CursorLedgerUnavailable,
    StateFound,
    StateUnreadable,
)
from mledger.cursors.recovery import CursorRecoveryPlan, plan_cursor_recovery
from mledger.errors import CursorRecoveryFailed
from mledger.ledgers.ledger_list import LedgerEnd, LedgerList, check_rising
from mledger.ledgers.orphans.pending_records import PendingRecord
from mledger.ledgers.orphans.references import Naming, references_in_cursor
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import deletion_path, pending_path
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import ManagedCursorInfo, ManagedLedgerInfo


class CursorFacts(Struct, frozen=True):
    """A cursor's record as stored, and what was found in the cursor ledger that it names (None: it names none).

    `record` is an error if it does not parse; `compression` is that of the stored record. `is_open`: that cursor ledger
    is not closed, so that an owner may still write a state to it.
    """

    name: str
    path: str
    version: int
    record: ManagedCursorInfo | RecordError
    finding: CursorLedgerFinding | None = None
    compression: str = "NONE"
    is_open: bool = False


class TopicFacts(Struct, frozen=True):
    """What was read of one managed ledger.

    `info` is None if there is no such topic (orphans may still name it). `ledgers` has the facts of each ledger of the
    list, None for one that does not exist; it may leave out ledgers that are allowed to be gone. `orphans` are ledgers
    of the managed ledger that nothing references, `orphans_of` the nodes of the cursors that some say they are of;
    `written` are those that are data ledgers and have entries, or may have, `before` those of them that are older than
    the topic's record; `ledgers` has their facts as far as they can be read. `records` are its pending and deletion
    records, `kept` those of ledgers that are kept. `compression` is that of its own stored record, `created_ms` when
    that was created, in ms since 1970 by the store's clock.
    """

    managed_ledger: str
    info: ManagedLedgerInfo | None
    version: int = 0
    ledgers: Mapping[int, LedgerFacts | None] = field(default_factory=dict)
    cursors: tuple[CursorFacts, ...] = ()
    orphans: tuple[int, ...] = ()
    orphans_of: frozenset[str] = frozenset()
    written: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()
    records: tuple[PendingRecord, ...] = ()
    kept: tuple[PendingRecord, ...] = ()
    compression: str = "NONE"
    created_ms: int = 0


class CursorMend(Struct, frozen=True):
    """The new record of a cursor; `drops` is the cursor ledger that it no longer names and that is deleted, or None.

    `recovered` is the state in the new record, to save in an undo file. `keeps` is a cursor ledger that the record no
    longer names but that is kept, under a record of its own: it holds a state that could not be read (M12).
    """

    name: str
    path: str
    version: int
    record: ManagedCursorInfo
    drops: int | None
    recovered: CursorRecoveryPlan
    keeps: int | None = None
    compression: str = "NONE"


class RepairPlan(Struct, frozen=True):
    """How one managed ledger is repaired.

    `info` is the record to write, None to leave it (its `version` is checked anyway, unless there is no topic).
    `recover` are ledgers to recover first, each with the end that recovery must find. `delete` are ledgers that nothing
    names afterwards, of which `to_record` have no deletion record yet. `done_with` are records that the write removes:
    pending records, and those of ledgers that are listed. `relied_on` has the path and version of the record of
    compaction's cursor, if there is one: pending records may go only while it is unchanged. `outdate` has those of
    cursors' records to write unchanged before a ledger is deleted: their owner may be about to name one.
    """

    managed_ledger: str
    version: int | None
    info: ManagedLedgerInfo | None
    recover: tuple[tuple[int, LedgerEnd], ...]
    cursors: tuple[CursorMend, ...]
    delete: tuple[int, ...]
    to_record: tuple[int, ...]
    done_with: tuple[PendingRecord, ...]
    mends: tuple[Mend, ...]
    compression: str = "NONE"
    relied_on: tuple[tuple[str, int], ...] = ()
    outdate: tuple[tuple[str, int], ...] = ()

    @property
    def ends_creations(self) -> bool:
        """Whether it removes pending records: an owner may be about to name their ledgers."""
        return any(record.path == pending_path(record.ledger_id) for record in self.done_with)

    @property
    def pending(self) -> bool:
        """Whether there is anything to do."""
        return any(mend.mended for mend in self.mends)


def plan_repair(facts: TopicFacts, now_ms: int, *, relist: bool = False, gone_topics: bool = False) -> RepairPlan:
    """The topic's faults and how they are repaired; `now_ms` becomes the close time of ledgers without one.

    With `relist`, ledgers that the list has lost are listed again. With `gone_topics`, a topic that does not exist was
    deleted, and ledgers that have its entries are, too.

    Raises InvalidLedgerList if the ids of the list are not in ascending order: the order of its entries is unknown.
    """
    if facts.info is None:
        return _without_topic(facts, deleted=gone_topics)
    check_rising(facts.info.ledgers)
    known = {*facts.before, *(each.ledger_id for each in facts.kept)}
    unlisted = unlisted_ledgers(facts.info, facts.written, known)
    relisted = list_again(facts.info, unlisted, facts.ledgers, now_ms) if relist and unlisted else None
    listing = mend_list(relisted or facts.info, facts.ledgers, now_ms)
    if relisted is not None:
        passed = {each for each in unlisted if all(_is_past(cursor, each) for cursor in facts.cursors)}
        listing.mends[:0] = [
            Mend(Wrong.UNLISTED, each, "", PASSED if each in passed else LISTED_AGAIN) for each in sorted(unlisted)
        ]
        unlisted = frozenset()
    unknown = bool(unlisted_ledgers(facts.info, unlisted, ()))  # those before the list's first change nothing else
    if unknown:
        listing = listing.left(facts.info)
    end_known = LedgerList(listing.with_ends, terminated=facts.info.terminated)
    mends = list(listing.mends)
    cursors: list[CursorMend] = []
    for cursor in facts.cursors:
        found, mend = _mend_cursor(cursor, end_known, listing, now_ms)
        if unknown:
            found, mend = [each.left() for each in found], None
        mends += found
        cursors += [mend] if mend is not None else []
    owned = {ledger.ledger_id for ledger in listing.ledgers}
    owned |= _cursor_ledgers(facts.cursors, {each.name: each.record for each in cursors})
    unreadable = any(map(_may_name_more, facts.cursors))
    gone = {*listing.delete, *(each.drops for each in cursors if each.drops is not None)}
    info = replace(facts.info, ledgers=tuple(listing.ledgers))
    rest = _finish(facts, owned, gone, unlisted, unreadable=unreadable)
    return RepairPlan(
        managed_ledger=facts.managed_ledger,
        version=facts.version,
        info=info if info != facts.info else None,
        recover=tuple(listing.recover),
        cursors=tuple(cursors),
        delete=rest.delete,
        to_record=rest.to_record,
        done_with=rest.done_with,
        mends=(*mends, *rest.mends),
        compression=facts.compression,
        relied_on=tuple((cursor.path, cursor.version) for cursor in facts.cursors if is_compaction(cursor.path)),
        outdate=_to_outdate(facts, {each.path for each in cursors}),
    )


def _is_past(cursor: CursorFacts, ledger_id: int) -> bool:
    """Whether the cursor's mark-delete is in a later ledger; False if it is not known."""
    if isinstance(cursor.record, RecordError):
        return False
    found = cursor.finding.state.position if isinstance(cursor.finding, StateFound) else cursor.record.mark_delete
    return found is not None and found.ledger_id > ledger_id


def _to_outdate(facts: TopicFacts, mended: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Path and version of the records of orphans' cursors; those that are `mended` are written anyway."""
    return tuple(
        (cursor.path, cursor.version)
        for cursor in facts.cursors
        if cursor.path.rpartition("/")[2] in facts.orphans_of and cursor.path not in mended
    )


def _without_topic(facts: TopicFacts, *, deleted: bool) -> RepairPlan:
    rest = _finish(facts, set(), set(), frozenset() if deleted else facts.written, why_left=TOPIC_GONE)
    return RepairPlan(
        managed_ledger=facts.managed_ledger,
        version=None,
        info=None,
        recover=(),
        cursors=(),
        delete=rest.delete,
        to_record=rest.to_record,
        done_with=rest.done_with,
        mends=rest.mends,
    )


def _cursor_ledgers(cursors: Iterable[CursorFacts], mended: Mapping[str, ManagedCursorInfo]) -> set[int]:
    """The ledgers that cursors certainly name once those in `mended` have their new records."""
    found: set[int] = set()
    for cursor in cursors:
        record = mended.get(cursor.name, cursor.record)
        if isinstance(record, RecordError):
            continue
        named = references_in_cursor(cursor.path, record)
        uncertain = _may_name_more(cursor)
        if is_compaction(cursor.path) and (uncertain or names_in_state(record)):
            named = [each for each in named if each.naming is not Naming.COMPACTED]
            compacted = None if uncertain else compacted_ledger(record, cursor.finding)
            found |= set() if compacted is None else {compacted}
        found |= {each.ledger_id for each in named}
    return found


def _may_name_more(cursor: CursorFacts) -> bool:
    """Whether the cursor may name other ledgers than those known here, or will: its last state is not certain."""
    if isinstance(cursor.record, RecordError):
        return True
    finding = cursor.finding
    unread = isinstance(finding, CursorLedgerUnavailable | StateUnreadable) or (
        isinstance(finding, StateFound) and finding.passed_over is not None
    )
    return (unread or cursor.is_open) and is_compaction(cursor.path)


class _Rest(Struct, frozen=True):
    """What happens to ledgers that nothing names and to left-over records."""

    delete: tuple[int, ...]
    to_record: tuple[int, ...]
    done_with: tuple[PendingRecord, ...]
    mends: tuple[Mend, ...]


def _finish(
    facts: TopicFacts,
    owned: Collection[int],
    gone: Collection[int],
    unlisted: frozenset[int] = frozenset(),
    *,
    unreadable: bool = False,
    why_left: str = MISSING,
) -> _Rest:
    """`gone` are ledgers that the repaired records no longer name; the orphans `unlisted` stay, with `why_left`.

    With `unreadable`, a cursor may name more ledgers than `owned`: the records of all others stay, and their ledgers.
    """
    mends = [Mend(Wrong.UNLISTED, each, "", why_left, mended=False) for each in sorted(unlisted)]
    orphans = set(facts.orphans) - unlisted - set(owned)
    mends += [Mend(Wrong.ORPHAN, each, "", "nothing names it: it is deleted") for each in sorted(orphans)]
    delete = {*gone, *orphans}
    done_with: list[PendingRecord] = []
    recorded: set[int] = set()
    done_with += [each for each in facts.kept if each.ledger_id in orphans or each.ledger_id in owned]
    for record in facts.records:
        is_deletion = record.path == deletion_path(record.ledger_id)
        if unreadable and record.ledger_id not in owned:
            text = f"{record.path}: it is unknown whether a cursor names the ledger, or still will"
            mends.append(Mend(Wrong.RECORD, record.ledger_id, "", text, mended=False))
            continue
        if record.ledger_id in owned:
            done_with.append(record)
            text = "the ledger is in use, so the record is removed"
        else:
            delete.add(record.ledger_id)
            recorded |= {record.ledger_id} if is_deletion else set()
            done_with += [] if is_deletion else [record]
            text = "nothing names the ledger, so the ledger and the record are removed"
        mends.append(Mend(Wrong.RECORD, record.ledger_id, "", f"{record.path}: {text}"))
    return _Rest(tuple(sorted(delete)), tuple(sorted(delete - recorded)), tuple(done_with), tuple(mends))


def _mend_cursor(
    cursor: CursorFacts, ledgers: LedgerList, listing: LedgerMends, now_ms: int
) -> tuple[list[Mend], CursorMend | None]:
    record = cursor.record
    if isinstance(record, RecordError):
        return [
            Mend(Wrong.UNREADABLE, None, cursor.name, f"{record}: `cursors repair` creates it again", mended=False)
        ], None
    try:
        plan = plan_cursor_recovery(cursor.name, record, cursor.finding, ledgers)
    except CursorRecoveryFailed as error:
        return [Mend(Wrong.UNREADABLE, record.cursors_ledger_id, cursor.name, str(error), mended=False)], None
    stood = cursor.finding.state.position if isinstance(cursor.finding, StateFound) else record.mark_delete
    stands, reasons = _place(plan, stood, ledgers, listing)
    if plan.rule != "R4" and not reasons:
        return [], None
    cursor_ledger = plan.old_cursor_ledger
    wrong = Wrong.POSITION
    if plan.rule == "R4":
        wrong = Wrong.STATE_UNREADABLE if plan.keeps_cursor_ledger else Wrong.CURSOR_LEDGER_LOST
    text = "; ".join([*(plan.warnings[:1] if plan.rule == "R4" else ()), *reasons, f"mark-delete position: {stands}"])
    mended = _record(plan, record, stands, now_ms)
    if mended is None:
        left = Mend(
            wrong, cursor_ledger, cursor.name, f"{text}, once the topic is opened: the state is large", mended=False
        )
        return [left], None
    drops = cursor_ledger
    if plan.rule == "R4" and not isinstance(cursor.finding, CursorLedgerEmpty):
        drops = None  # the cursor ledger does not exist, or is kept
    return [Mend(wrong, cursor_ledger, cursor.name, text)], CursorMend(
        cursor.name,
        cursor.path,
        cursor.version,
        mended,
        drops,
        plan,
        cursor_ledger if plan.keeps_cursor_ledger else None,
        cursor.compression,
    )


def _place(
    plan: CursorRecoveryPlan, stood: Position | None, ledgers: LedgerList, listing: LedgerMends
) -> tuple[Position, list[str]]:
    """The new mark-delete position, and why it cannot stay where it is, or which part of the state is dropped.

    `stood` is the recorded position. Every restart of a broker leaves the cursors of an empty topic before a ledger
    that was dropped, not lost: opening moves them (R6), and that is not a fault.
    """
    reasons = [] if plan.rule == "R4" else list(plan.warnings)
    at = plan.mark_delete
    if "R6" in plan.rules and stood is not None and stood.ledger_id in listing.lost:
        reasons.append("the ledger after its position does not exist")
    gone = at.ledger_id not in ledgers
    in_middle = len(ledgers) and at.ledger_id > ledgers.ids[0]
    if gone and (at.ledger_id in listing.lost or in_middle):
        following = ledgers.next_id(at.ledger_id)
        if following is not None:
            reasons.append(f"{at} is in a ledger that the list does not have")
            return Position(following, NO_ENTRY), reasons
    return at, reasons


def _record(
    plan: CursorRecoveryPlan, record: ManagedCursorInfo, stands: Position, now_ms: int
) -> ManagedCursorInfo | None:
    acks = plan.acks
    if stands != acks.mark_delete:
        acks = acks.copy()
        acks.move_mark_delete(stands)
    found = znode_record(acks, plan.properties, plan.cursor_properties, now_ms)
    return None if found is None else replace(found, unknown=record.unknown)
