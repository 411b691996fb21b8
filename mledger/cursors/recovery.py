"""A cursor's state after its topic was opened (R1 to R9), decided over plain values; no I/O.

- R1: no znode: a new cursor.
- R2: no cursor ledger: the znode is the state.
- R3: the last state in the cursor ledger.
- R4: if that is lost or unreadable, the latest earlier state that can be read, else the snapshot in
  the znode, but not below the first ledger. A cursor ledger with an unreadable state is kept (M12).
- R5: if the cursor ledger cannot be read now, an error, never a fallback.
- R6, R7: the position is fitted to the existing ledgers.
- R8: the read position.
- R9: the cursor leaves a fully consumed ledger.

Every rule that changes the position causes it to be persisted.
"""

from typing import Literal

from msgspec import Struct

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.acks.exact_positions import exact_position
from mledger.cursors.backlog import backlog
from mledger.cursors.persistence.ledger_state import (
    CursorLedgerFinding,
    CursorLedgerForeign,
    CursorLedgerUnavailable,
    StateFound,
    StateUnreadable,
)
from mledger.cursors.positions import next_valid
from mledger.errors import CursorRecoveryFailed, InvalidPosition
from mledger.ledgers.ledger_list import LedgerList, next_ledger_if_consumed
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo, PositionInfo

Start = Literal["earliest", "latest"] | Position


class CursorRecoveryPlan(Struct, frozen=True):
    """A cursor's state after recovery, its source, and what to do with it.

    `source` describes where the state was found, `at` is its entry of the cursor ledger (None: not
    from one). `rules` are those that applied, in order; `rule` decided the source. `acks` has
    mark-delete and holes. `persist`: the state differs from the stored one and must be made
    durable. `move_to`: R9 moves mark-delete there before trimming. `old_cursor_ledger` is to be
    deleted once the znode names another one; None if there is none. With `keeps_cursor_ledger` it
    is kept, since its last state is unreadable; with `names_foreign` since it is another topic's.
    """

    cursor: str
    rule: str
    rules: tuple[str, ...]
    source: str
    at: Position | None
    unconfirmed: bool
    acks: AckState
    properties: tuple[tuple[str, int], ...]
    cursor_properties: tuple[tuple[str, str], ...]
    read_position: Position
    backlog: int
    move_to: Position | None
    persist: bool
    old_cursor_ledger: int | None
    warnings: tuple[str, ...]
    keeps_cursor_ledger: bool = False
    names_foreign: bool = False

    @property
    def mark_delete(self) -> Position:
        """The recovered mark-delete position, before `move_to`."""
        return self.acks.mark_delete


def plan_cursor_recovery(
    cursor: str,
    record: ManagedCursorInfo | None,
    finding: CursorLedgerFinding | None,
    ledgers: LedgerList,
    *,
    start: Start = "earliest",
) -> CursorRecoveryPlan:
    """Decide the state of `cursor` from its znode's `record` and the content of its cursor ledger.

    `finding` is None if the record names no cursor ledger. `ledgers` is the topic's list after
    opening; read-only callers pass one without a ledger for writing. `start` is where a new cursor
    begins. Raises CursorRecoveryFailed if the cursor ledger cannot be read now (R5).
    """
    if isinstance(finding, CursorLedgerUnavailable):
        raise CursorRecoveryFailed(
            f"cursor {cursor}: {finding.describe()}; nothing is assumed lost: try again when it can be read"
        )
    found = _source(record, finding, ledgers, start)
    position, rules, warnings = _fit(found.state.position, ledgers)
    acks, dropped = AckState.recover(
        position,
        ledgers,
        ranges=found.state.ranges,
        ledger_bits=found.state.ledger_bits,
        batch_deletions=found.state.batch_deletions,
    )
    if position != found.state.position or position.entry_id + 1 >= ledgers.entries(position.ledger_id):
        acks.advance(ledgers)  # what kept it from there was in a ledger that is gone
    position = acks.mark_delete
    move_to = next_ledger_if_consumed(ledgers, position)
    rules = (found.rule, *rules, *(("R9",) if move_to is not None else ()))
    return CursorRecoveryPlan(
        cursor=cursor,
        rule=found.rule,
        rules=rules,
        source=found.source,
        at=found.at,
        unconfirmed=found.unconfirmed,
        acks=acks,
        properties=found.state.properties,
        cursor_properties=record.cursor_properties if record is not None else (),
        read_position=next_valid(ledgers, position),
        backlog=backlog(ledgers, acks),
        move_to=move_to,
        persist=bool({"R1", "R4", "R6", "R7", "R9"}.intersection(rules)),
        old_cursor_ledger=_old_cursor_ledger(record),
        names_foreign=isinstance(finding, CursorLedgerForeign),
        warnings=(*found.warnings, *warnings, *dropped),
        keeps_cursor_ledger=found.rule == "R4" and isinstance(finding, StateFound | StateUnreadable),
    )


class _Source(Struct, frozen=True):
    rule: str
    source: str
    state: PositionInfo
    at: Position | None = None
    unconfirmed: bool = False
    warnings: tuple[str, ...] = ()


def _source(
    record: ManagedCursorInfo | None, finding: CursorLedgerFinding | None, ledgers: LedgerList, start: Start
) -> _Source:
    if record is None:
        return _Source("R1", "new cursor", PositionInfo(start_position(ledgers, start)))
    snapshot = record.mark_delete if record.mark_delete is not None else ledgers.first_position
    if record.cursors_ledger_id == NO_CURSOR_LEDGER:
        state = PositionInfo(
            snapshot, ranges=record.ranges, properties=record.properties, batch_deletions=record.batch_deletions
        )
        return _Source("R2", "znode", state)
    if finding is None:
        raise CursorRecoveryFailed(
            f"the record names cursor ledger {record.cursors_ledger_id}, which must be read first"
        )
    kept = f"; cursor ledger {record.cursors_ledger_id} is kept"
    if isinstance(finding, StateFound):
        rule, warnings = "R3", finding.warnings
        if finding.passed_over is not None:
            older = f"fell back to {finding.state.position} of entry {finding.at}, newer acknowledgements are lost"
            rule, warnings = "R4", (f"{finding.passed_over.describe()}: {older}{kept}", *warnings)
        return _Source(rule, finding.describe(), finding.state, finding.at, finding.unconfirmed, warnings)
    lost = f"{finding.describe()}: fell back to the snapshot {snapshot} of the znode, newer acknowledgements are lost"
    if isinstance(finding, StateUnreadable):
        lost += kept
    state = PositionInfo(max(snapshot, ledgers.first_position), properties=record.properties)
    return _Source("R4", "snapshot in the znode", state, warnings=(lost,))


def start_position(ledgers: LedgerList, start: Start) -> Position:
    """The mark-delete position of a new cursor (R1): before all entries, at the last one, or `start`, if it is one.

    Raises:
        InvalidPosition: `start` is none of these.
    """
    if start == "earliest":
        return ledgers.first_position
    if start == "latest":
        return ledgers.last_confirmed
    if isinstance(start, str):
        raise InvalidPosition(
            f"{start!r:.100} is not a place where a cursor begins: give earliest, latest or a position"
        )
    return exact_position(start)


def _fit(position: Position, ledgers: LedgerList) -> tuple[Position, tuple[str, ...], tuple[str, ...]]:
    """The position fitted to the existing ledgers, the rules that moved it, and warnings (R6, R7)."""
    rules: list[str] = []
    warnings: list[str] = []
    if position.entry_id < NO_ENTRY:
        warnings.append(f"position {position} is below every entry: moved to {position.ledger_id}:{NO_ENTRY}")
        position = Position(position.ledger_id, NO_ENTRY)
        rules.append("R7")
    if position.entry_id == NO_ENTRY and position.ledger_id not in ledgers:
        following = ledgers.next_id(position.ledger_id)
        if following is not None:
            position = Position(following, NO_ENTRY)
            rules.append("R6")
    if len(ledgers) and position > ledgers.last_position:
        # entries appended since the topic was opened must not be skipped
        end = ledgers.last_position if ledgers.current is None else Position(ledgers.current, NO_ENTRY)
        if position.entry_id != NO_ENTRY or ledgers.current is not None:  # else it waits for a new ledger
            warnings.append(f"position {position} is past the end: moved back to {end}")
        position = end
        if "R7" not in rules:
            rules.append("R7")
    return position, tuple(rules), tuple(warnings)


def _old_cursor_ledger(record: ManagedCursorInfo | None) -> int | None:
    if record is None or record.cursors_ledger_id == NO_CURSOR_LEDGER:
        return None
    return record.cursors_ledger_id
