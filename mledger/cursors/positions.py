"""Positions over a topic's ledgers; no I/O.

C6: `position_after_n` counts entries across ledgers, deleted ones or not; the end is the last
position. C7: the position after a reset, and the search for the newest matching entry. R8: the next
valid position. The owner may change the `LedgerList` between two calls; nothing here keeps a
reference to it.
"""

from collections.abc import Generator

from msgspec import Struct

from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.compaction import COMPACTION
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import NO_ENTRY, Position

EARLIEST = Position(-1, -1)
LATEST = Position(2**63 - 1, 2**63 - 1)


def is_valid(ledgers: LedgerList, position: Position) -> bool:
    """Whether `position` is an entry, or the first position of an empty current ledger."""
    if ledgers.exists(position):
        return True
    return position.entry_id == 0 and position.ledger_id == ledgers.current and ledgers.entries(position.ledger_id) == 0


def next_valid(ledgers: LedgerList, position: Position) -> Position:
    """The first position after `position` that has an entry, or where the next entry will be (R8).

    A ledger's entries follow every id below 0: one below -1 is the place before them, as -1 is (M2).
    """
    after = Position(position.ledger_id, max(NO_ENTRY, position.entry_id) + 1)
    if is_valid(ledgers, after):
        return after
    following = ledgers.next_id(position.ledger_id)
    while following is not None:
        if ledgers.entries(following) or following == ledgers.current:
            return Position(following, 0)
        following = ledgers.next_id(following)
    return end(ledgers)


def end(ledgers: LedgerList) -> Position:
    """The position after the last entry, where the next one will be; (-1, 0) for an empty list."""
    if ledgers.current is not None:
        return Position(ledgers.current, ledgers.entries(ledgers.current))
    last = ledgers.last_confirmed
    return Position(last.ledger_id, last.entry_id + 1)


def previous(ledgers: LedgerList, position: Position) -> Position:
    """The position before `position`: one entry back, across ledgers; entry -1 if there is none."""
    if position.entry_id > 0:
        return Position(position.ledger_id, position.entry_id - 1)
    before = ledgers.previous_id(position.ledger_id)
    if before is None:
        return Position(position.ledger_id, NO_ENTRY)
    while before is not None:
        if entries := ledgers.entries(before):
            return Position(before, entries - 1)
        before = ledgers.previous_id(before)
    return ledgers.first_position


def position_after_n(ledgers: LedgerList, start: Position, n: int, *, start_included: bool) -> Position:
    """The last of `n` entries counted from `start`, deleted ones counted too (C6).

    With `start_included` the count starts at `start`, else at the next valid position. If `n` is 0,
    this is the position before the first one counted. Past the end it is the last confirmed entry.
    """
    first = start if start_included else next_valid(ledgers, start)
    if n == 0 and first.entry_id <= ledgers.entries(first.ledger_id):
        return previous(ledgers, first)
    before_ledger = ledgers.count_through(Position(first.ledger_id, NO_ENTRY))
    in_list = first.ledger_id in ledgers
    count = before_ledger + (first.entry_id if in_list else 0) + n
    total = ledgers.total_entries
    if total == 0:
        return ledgers.last_confirmed
    if count <= 0:
        return ledgers.first_position
    return ledgers.entry_at(min(count, total) - 1)


def position_after_n_undeleted(ledgers: LedgerList, acks: AckState, n: int) -> Position:
    """The `n`-th undeleted entry above mark-delete; the last confirmed entry past the end (C6).

    If `n` is 0, mark-delete itself.
    """
    if n <= 0:
        return acks.mark_delete
    skipped = ledgers.count_through(acks.mark_delete)
    deleted_before = 0
    for ledger_id, deleted in acks.deleted_per_ledger():
        # undeleted entries up to the end of this ledger
        through = ledgers.count_through(Position(ledger_id, LATEST.entry_id)) - skipped - deleted_before - deleted
        if through >= n:
            return _nth_live(ledgers, acks, ledger_id, n, skipped + deleted_before)
        deleted_before += deleted
    index = skipped + deleted_before + n - 1
    if index >= ledgers.total_entries:
        return ledgers.last_confirmed
    return ledgers.entry_at(index)


def _nth_live(ledgers: LedgerList, acks: AckState, ledger_id: int, n: int, index: int) -> Position:
    """The `n`-th undeleted entry after the first `index` entries, given that it is in `ledger_id` or before."""
    start = ledgers.count_through(Position(ledger_id, NO_ENTRY))
    if index + n <= start:
        return ledgers.entry_at(index + n - 1)
    first = max(index, start) - start  # first entry of this ledger that counts
    return Position(ledger_id, acks.nth_live(ledger_id, first, n - (max(index, start) - index)))


def position_after_skip(ledgers: LedgerList, acks: AckState, n: int, *, count_deleted: bool) -> Position:
    """The mark-delete after skipping `n` entries (C6), before it passes contiguous deleted ones (C2)."""
    if count_deleted:
        return position_after_n(ledgers, acks.mark_delete, n, start_included=False)
    return position_after_n_undeleted(ledgers, acks, n)


def place_of(to: Position | str) -> Position:
    """The position that `plan_reset` takes for "earliest", "latest" or a position. InvalidPosition for others."""
    place = {"earliest": EARLIEST, "latest": LATEST}.get(to, to) if isinstance(to, str) else to
    if not isinstance(place, Position):
        raise InvalidPosition(f"{to!r} is not a position to reset to: give earliest, latest or a position")
    return place


class ResetPlan(Struct, frozen=True):
    """A cursor's positions after a reset; everything above mark-delete is unacknowledged."""

    mark_delete: Position
    read_position: Position


def plan_reset(ledgers: LedgerList, to: Position, *, force: bool = False) -> ResetPlan:
    """The positions after a reset that makes `to` the first entry to read (C7).

    `to` may be EARLIEST or LATEST. A position without an entry becomes the next valid position, and
    past the end the latest; with `force` it is used unchanged.
    """
    if to == EARLIEST:
        read_position = next_valid(ledgers, ledgers.first_position)
    elif to == LATEST:
        read_position = end(ledgers)
    elif force or is_valid(ledgers, to):
        read_position = to
    else:
        read_position = next_valid(ledgers, to)
    return ResetPlan(previous(ledgers, read_position), read_position)


def mark_delete_after(plan: ResetPlan, cursor: str, mark_delete: Position) -> Position:
    """The mark-delete of `cursor` after the reset; that of compaction's cursor stays unchanged (C7).

    It says how far the compacted ledger that the position's properties name extends.
    """
    return mark_delete if cursor == COMPACTION else plan.mark_delete


def find_newest(
    ledgers: LedgerList, lower: Position, upper: Position | None = None
) -> Generator[Position, bool, Position | None]:
    """Binary search for the newest entry above `lower` (up to `upper` or the end) that matches (C7).

    A generator: it yields an entry's position and receives whether the entry matches. Matching
    entries must precede all others. Returns the newest matching entry, or None if the first does
    not match.
    """
    low = ledgers.count_through(lower)
    high = ledgers.total_entries if upper is None else ledgers.count_through(upper)
    found: Position | None = None
    if low >= high:
        return None
    first, last = ledgers.entry_at(low), ledgers.entry_at(high - 1)
    if not (yield first):
        return None
    found = first
    if (yield last):
        return last
    low, high = low + 1, high - 1
    while low < high:
        middle = (low + high) // 2
        position = ledgers.entry_at(middle)
        if (yield position):
            found, low = position, middle + 1
        else:
            high = middle
    return found


def plan_ledger_expiry(ledgers: LedgerList, mark_delete: Position, before_ms: int) -> Position:
    """The end of the last ledger above `mark_delete` that was closed before `before_ms`, else `mark_delete`.

    All its entries are older than its close, so it expires without a read.
    """
    reached = mark_delete
    for info in ledgers.infos_from(mark_delete.ledger_id):
        if info.ledger_id == ledgers.current or not 0 < info.timestamp < before_ms:
            break
        reached = max(reached, Position(info.ledger_id, info.entries - 1))
    return reached


def plan_position_expiry(ledgers: LedgerList, mark_delete: Position, position: Position) -> Position:
    """The mark-delete position after everything up to `position` expired; past the end nothing does."""
    if position > ledgers.last_confirmed:
        return mark_delete
    return max(mark_delete, position)
