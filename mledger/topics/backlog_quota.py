"""Backlog quotas: whether a topic exceeds one, and what its cursors give up then; no I/O in the plans.

The backlog is what the slowest durable cursor has not acknowledged: its size, estimated within a
ledger from the average entry, and its age. Under `consumer_backlog_eviction` cursors give up
entries until the backlog is down to nine tenths of the limit. Under the two other policies the
broker stops its producers. Cursors of the system (`KEPT`) give up nothing, since their positions
say what compaction and deduplication have taken in.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Protocol

from msgspec import Struct

from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor, CursorStatus
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.cursors.entry_time import publish_time
from mledger.cursors.positions import next_valid, plan_ledger_expiry
from mledger.errors import ManagedLedgerClosed, ManagedLedgerFenced
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.cluster.service_policies import BacklogQuota, QuotaKind, QuotaPolicy
from mledger.metastore.errors import MledgerError, RecordError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

KEPT = frozenset({COMPACTION, DEDUPLICATION})
ENDED = (CursorStatus.CLOSED, CursorStatus.FENCED)
TARGET_SHARE = 0.9
SECOND_MS = 1000
AT_ONCE = 64
"""Cursors of a topic that give up entries at the same time: one that cannot be written keeps few others waiting."""

Moved = Callable[[str], None]
"""Is told the name of a cursor that has given up entries."""
ExpireBefore = Callable[[Cursor, int], Awaitable[int]]
"""Has a cursor give up what was published before a time, as `Cursor.expire_before`."""


def ignore_moved(name: str) -> None:
    """Take no notice."""


class QuotaTopic(Protocol):
    """The managed ledger, as its quotas see it."""

    @property
    def name(self) -> str:
        """Its managed ledger name."""

    @property
    def ledger_list(self) -> LedgerList:
        """Its current list of ledgers."""

    @property
    def open_cursors(self) -> Mapping[str, Cursor]:
        """Its recovered durable cursors."""

    async def read_entry(self, position: Position) -> Entry:
        """The entry at `position`."""


class SlowestCursor(Struct, frozen=True):
    """The durable cursor with the lowest mark-delete position."""

    name: str
    mark_delete: Position


class OldestBacklog(Struct, frozen=True):
    """The backlog of the slowest cursor: the ledger of its oldest entry was closed at `closed_ms`."""

    name: str
    closed_ms: int


class BacklogReading(Struct, frozen=True):
    """The backlog at one time: its estimated payload bytes, and how old it is by its ledgers, None if not known."""

    size: int
    oldest: OldestBacklog | None


def slowest_cursor(mark_deletes: Mapping[str, Position]) -> SlowestCursor | None:
    """The slowest of the cursors given by name; the first by name among equals."""
    if not mark_deletes:
        return None
    name = min(mark_deletes, key=lambda each: (mark_deletes[each], each))
    return SlowestCursor(name, mark_deletes[name])


def backlog_size(ledgers: LedgerList, mark_deletes: Mapping[str, Position]) -> int:
    """Payload bytes that the slowest cursor has not acknowledged, estimated; 0 without cursors."""
    slowest = slowest_cursor(mark_deletes)
    return 0 if slowest is None else ledgers.size_above(slowest.mark_delete)


def oldest_by_ledgers(ledgers: LedgerList, mark_deletes: Mapping[str, Position]) -> OldestBacklog | None:
    """The slowest cursor's backlog; None if it has none, or its oldest entry is in the open ledger."""
    slowest = slowest_cursor(mark_deletes)
    if slowest is None:
        return None
    oldest = next_valid(ledgers, slowest.mark_delete)
    closed_ms = ledgers.info(oldest.ledger_id).timestamp if ledgers.exists(oldest) else 0
    return OldestBacklog(slowest.name, closed_ms) if closed_ms > 0 else None


def is_older_by_ledgers(ledgers: LedgerList, mark_deletes: Mapping[str, Position], before_ms: int) -> bool:
    """Whether the ledger of the oldest entry in the backlog was closed before `before_ms`."""
    oldest = oldest_by_ledgers(ledgers, mark_deletes)
    return oldest is not None and oldest.closed_ms < before_ms


def plan_size_eviction(
    ledgers: LedgerList, mark_deletes: Mapping[str, Position], limit_bytes: int
) -> dict[str, Position]:
    """The new mark-delete of each cursor that gives up entries, to leave nine tenths of the limit."""
    excess = ledgers.total_size - int(TARGET_SHARE * limit_bytes)
    return _evicted(mark_deletes, ledgers.position_at_size(excess)) if excess > 0 else {}


def plan_age_eviction(ledgers: LedgerList, mark_deletes: Mapping[str, Position], before_ms: int) -> dict[str, Position]:
    """The new mark-delete of each cursor that gives up the ledgers closed before `before_ms`."""
    return _evicted(mark_deletes, plan_ledger_expiry(ledgers, ledgers.first_position, before_ms))


def _evicted(mark_deletes: Mapping[str, Position], through: Position) -> dict[str, Position]:
    return {name: through for name, at in mark_deletes.items() if at < through and name not in KEPT}


class BacklogQuotas:
    """Checks one topic's quotas and evicts what exceeds them."""

    def __init__(self, topic: QuotaTopic) -> None:
        self._topic = topic
        self._unread_told = False

    @property
    def slowest(self) -> SlowestCursor | None:
        """The slowest durable cursor."""
        return slowest_cursor(self._mark_deletes())

    @property
    def size(self) -> int:
        """Payload bytes in the backlog, estimated."""
        return backlog_size(self._topic.ledger_list, self._mark_deletes())

    def read(self) -> BacklogReading:
        """The backlog now."""
        ledgers, mark_deletes = self._topic.ledger_list, self._mark_deletes()
        return BacklogReading(backlog_size(ledgers, mark_deletes), oldest_by_ledgers(ledgers, mark_deletes))

    async def is_exceeded(
        self,
        kind: QuotaKind,
        quota: BacklogQuota,
        now_ms: int,
        *,
        precise: bool = False,
        without: Container[str] = (),
    ) -> bool:
        """Whether the topic reaches the limit of `quota` that `kind` names; -1 is no limit.

        `precise` reads the oldest entry to tell its age; else, or if it cannot be read, its ledger's close decides.
        The cursors `without` do not count.

        Raises:
            ManagedLedgerFenced, ManagedLedgerClosed: the topic ended meanwhile.
        """
        mark_deletes = {name: at for name, at in self._mark_deletes().items() if name not in without}
        if kind is QuotaKind.SIZE:
            return 0 <= quota.limit_bytes <= backlog_size(self._topic.ledger_list, mark_deletes)
        if quota.limit_s <= 0:
            return False
        before_ms = now_ms - quota.limit_s * SECOND_MS
        if precise:
            return await self._oldest_is_before(mark_deletes, before_ms)
        return is_older_by_ledgers(self._topic.ledger_list, mark_deletes, before_ms)

    async def evict(
        self,
        kind: QuotaKind,
        quota: BacklogQuota,
        now_ms: int,
        *,
        precise: bool = False,
        moved: Moved = ignore_moved,
        expire_before: ExpireBefore = Cursor.expire_before,
    ) -> list[str]:
        """Carry out `consumer_backlog_eviction` for an exceeded quota; returns the cursors that gave up entries.

        `moved` is called for each as soon as that is durable, or has failed to be. What is `precise` goes through
        `expire_before`. Other policies do nothing here: their action is the broker's. Raises the first error of a
        cursor, once each has tried.
        """
        if quota.policy is not QuotaPolicy.CONSUMER_BACKLOG_EVICTION:
            return []
        ledgers, mark_deletes = self._topic.ledger_list, self._mark_deletes()
        if kind is QuotaKind.SIZE:
            plan = plan_size_eviction(ledgers, mark_deletes, quota.limit_bytes)
        elif precise:
            before_ms = now_ms - int(TARGET_SHARE * quota.limit_s * SECOND_MS)
            return await self._evict(mark_deletes, lambda cursor: expire_before(cursor, before_ms), moved)
        else:
            plan = plan_age_eviction(ledgers, mark_deletes, now_ms - quota.limit_s * SECOND_MS)
        return await self._evict(plan, lambda cursor: cursor.expire_through(plan[cursor.name]), moved)

    async def _evict(
        self, chosen: Container[str], expire: Callable[[Cursor], Awaitable[int]], moved: Moved
    ) -> list[str]:
        at_once = asyncio.Semaphore(AT_ONCE)

        async def give_up(name: str, cursor: Cursor) -> int:
            async with at_once:
                before = cursor.mark_delete
                try:
                    return await expire(cursor)
                finally:
                    if cursor.mark_delete != before:
                        moved(name)

        cursors = {name: cursor for name, cursor in self._evictable().items() if name in chosen}
        found = await asyncio.gather(*(give_up(*each) for each in cursors.items()), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                raise error
        return [name for name, entries in zip(cursors, found, strict=True) if entries]

    def _evictable(self) -> dict[str, Cursor]:
        cursors = self._topic.open_cursors.items()
        return {name: cursor for name, cursor in cursors if name not in KEPT and cursor.status not in ENDED}

    async def _oldest_is_before(self, mark_deletes: Mapping[str, Position], before_ms: int) -> bool:
        slowest = slowest_cursor(mark_deletes)
        if slowest is None:
            return False
        oldest = next_valid(self._topic.ledger_list, slowest.mark_delete)
        if not self._topic.ledger_list.exists(oldest):
            return False
        try:
            return publish_time((await self._topic.read_entry(oldest)).payload) < before_ms
        except RecordError:
            return False
        except (ManagedLedgerFenced, ManagedLedgerClosed):
            raise
        except MledgerError as error:
            self._tell_unread(slowest.name, oldest, error)
            return is_older_by_ledgers(self._topic.ledger_list, mark_deletes, before_ms)

    def _tell_unread(self, cursor: str, oldest: Position, error: MledgerError) -> None:
        if not self._unread_told:  # a check asks several times
            self._unread_told = True
            log.warning("backlog_age_not_read", topic=self._topic.name, cursor=cursor, position=oldest, error=error)

    def _mark_deletes(self) -> dict[str, Position]:
        return {name: cursor.mark_delete for name, cursor in self._topic.open_cursors.items()}
