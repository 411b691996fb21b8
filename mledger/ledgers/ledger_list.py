"""The ordered ledgers of a topic, and the plans that change that list; no I/O.

M1: ids rise. M3: opening records the last ledger's true end, adds a ledger for writing, and drops
empty ledgers and a last ledger that does not exist; a terminated topic gets no new ledger. M4: roll
over past a limit. A list in which a ledger before the last has 0 entries is rejected before it is
written, since Java deletes such ledgers.
"""

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mledger.errors import InvalidLedgerList
from mledger.ledgers.offload import is_offloaded
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import is_possible_ledger
from mledger.metastore.records.position import NO_ENTRY, Position
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo

if TYPE_CHECKING:
    from mledger.config import ManagedLedgerConfig


class LedgerList:
    """Ledgers in rising order, with entries and payload bytes of each; the current one's are live.

    `current` is the id of the ledger open for writing, always the last, or None (the topic is
    terminated, or opened read-only). `terminated` is where a terminated topic ends, possibly in an
    empty ledger that is no longer listed. Look-ups take O(log n). A change of the list makes a new
    LedgerList; only the live counts change in place. Raises InvalidLedgerList when ids do not rise
    or `current` is not the last (M1).
    """

    __slots__ = ("_before", "_current", "_ids", "_infos", "_live_entries", "_live_size", "_size_before", "_terminated")

    def __init__(
        self,
        infos: Sequence[LedgerInfo],
        *,
        current: int | None = None,
        live_entries: int = 0,
        live_size: int = 0,
        terminated: Position | None = None,
    ) -> None:
        self._infos = tuple(infos)
        self._ids = [info.ledger_id for info in self._infos]
        check_rising(self._infos)
        if current is not None and (not self._ids or self._ids[-1] != current):
            raise InvalidLedgerList(f"ledger {current} is open for writing but not the last of the list {self._ids}")
        self._current = current
        self._terminated = terminated
        # entries and bytes of all ledgers before the i-th; the last ledger's own are never in these sums
        self._before = list(accumulate((info.entries for info in self._infos[:-1]), initial=0))
        self._size_before = list(accumulate((info.size for info in self._infos[:-1]), initial=0))
        self._live_entries = live_entries
        self._live_size = live_size

    def set_live(self, entries: int, size: int) -> None:
        """Set the confirmed entries and payload bytes of the current ledger."""
        self._live_entries = entries
        self._live_size = size

    def without(self, gone: Collection[int]) -> "LedgerList":
        """A copy of the list without some of its closed ledgers; its live counts do not change later."""
        going = frozenset(gone)
        return LedgerList(
            [info for info in self._infos if info.ledger_id not in going],
            current=self._current,
            live_entries=self._live_entries,
            live_size=self._live_size,
            terminated=self._terminated,
        )

    @property
    def infos(self) -> tuple[LedgerInfo, ...]:
        """The ledgers as recorded; the current one has entries and size 0."""
        return self._infos

    def infos_from(self, ledger_id: int) -> Sequence[LedgerInfo]:
        """`infos` from the ledger `ledger_id` on, which need not be in the list."""
        return self._infos[bisect_left(self._ids, ledger_id) :]

    @property
    def live_infos(self) -> tuple[LedgerInfo, ...]:
        """The ledgers; the current one has its live entries and size."""
        if self._current is None:
            return self._infos
        current = dataclasses.replace(self._infos[-1], entries=self._live_entries, size=self._live_size)
        return (*self._infos[:-1], current)

    @property
    def ids(self) -> tuple[int, ...]:
        """Ledger ids, rising."""
        return tuple(self._ids)

    @property
    def current(self) -> int | None:
        """The ledger open for writing, None if there is none."""
        return self._current

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __contains__(self, ledger_id: object) -> bool:
        return isinstance(ledger_id, int) and self._index(ledger_id) is not None

    def _index(self, ledger_id: int) -> int | None:
        at = bisect_left(self._ids, ledger_id)
        return at if at < len(self._ids) and self._ids[at] == ledger_id else None

    def _entries_at(self, at: int) -> int:
        return self._live_entries if self._ids[at] == self._current else self._infos[at].entries

    def _size_at(self, at: int) -> int:
        return self._live_size if self._ids[at] == self._current else self._infos[at].size

    def entries(self, ledger_id: int) -> int:
        """Entries of the ledger, 0 if it is not in the list."""
        at = self._index(ledger_id)
        return 0 if at is None else self._entries_at(at)

    def size(self, ledger_id: int) -> int:
        """Payload bytes of the ledger, 0 if it is not in the list."""
        at = self._index(ledger_id)
        return 0 if at is None else self._size_at(at)

    def info(self, ledger_id: int) -> LedgerInfo:
        """The ledger as recorded; it must be in the list."""
        at = self._index(ledger_id)
        assert at is not None, f"ledger {ledger_id} is not in the list"
        return self._infos[at]

    def next_id(self, ledger_id: int) -> int | None:
        """The first ledger above `ledger_id`, which need not be in the list; None past the last."""
        at = bisect_right(self._ids, ledger_id)
        return self._ids[at] if at < len(self._ids) else None

    def previous_id(self, ledger_id: int) -> int | None:
        """The last ledger below `ledger_id`, which need not be in the list; None before the first."""
        at = bisect_left(self._ids, ledger_id)
        return self._ids[at - 1] if at else None

    def between(self, first: int, last: int) -> Sequence[int]:
        """The ledgers from `first` to `last`, both included if they are in the list."""
        return self._ids[bisect_left(self._ids, first) : bisect_right(self._ids, last)]

    @property
    def total_entries(self) -> int:
        """Confirmed entries in all ledgers."""
        return self._before[-1] + self._entries_at(-1) if self._ids else 0

    @property
    def total_size(self) -> int:
        """Payload bytes in all ledgers."""
        return self._size_before[-1] + self._size_at(-1) if self._ids else 0

    def count_through(self, position: Position) -> int:
        """The number of existing entries at or below `position`, which need not be an entry."""
        at = bisect_left(self._ids, position.ledger_id)
        if at == len(self._ids):
            return self.total_entries
        if self._ids[at] != position.ledger_id:
            return self._before[at]
        return self._before[at] + max(0, min(position.entry_id + 1, self._entries_at(at)))

    def size_above(self, position: Position) -> int:
        """Payload bytes of the entries above `position`; within a ledger estimated from its average entry."""
        at = bisect_left(self._ids, position.ledger_id)
        if at == len(self._ids):
            return 0
        below = self._size_before[at]
        if self._ids[at] == position.ledger_id and (entries := self._entries_at(at)):
            below += self._size_at(at) * max(0, min(position.entry_id + 1, entries)) // entries
        return self.total_size - below

    def position_at_size(self, size: int) -> Position:
        """The first entry up to which at least `size` payload bytes lie, estimated as in `size_above`."""
        at = max(0, bisect_left(self._size_before, size) - 1)
        if not self._ids:
            return self._no_ledgers
        entries, left = self._entries_at(at), size - self._size_before[at]
        if not self._size_at(at):
            return Position(self._ids[at], NO_ENTRY)
        return Position(self._ids[at], min(entries, -(-left * entries // self._size_at(at))) - 1)

    def entry_at(self, index: int) -> Position:
        """The `index`-th existing entry, counted from 0; IndexError past the last one."""
        if not 0 <= index < self.total_entries:
            raise IndexError(f"entry {index} of {self.total_entries}")
        at = bisect_right(self._before, index) - 1
        return Position(self._ids[at], index - self._before[at])

    def exists(self, position: Position) -> bool:
        """Whether `position` is a confirmed entry of a ledger in the list."""
        return 0 <= position.entry_id < self.entries(position.ledger_id)

    @property
    def last_of_terminated(self) -> int | None:
        """The last ledger if the topic is terminated, else None."""
        return self._ids[-1] if self._ids and self._terminated is not None else None

    @property
    def first_position(self) -> Position:
        """The position before the first entry, (first ledger, -1); of an empty list the termination, or (-1, -1)."""
        return Position(self._ids[0], NO_ENTRY) if self._ids else self._no_ledgers

    @property
    def last_position(self) -> Position:
        """The last entry of the last ledger (-1 if that is empty), or the position of the termination."""
        if self._terminated is not None or not self._ids:
            return self._no_ledgers
        return Position(self._ids[-1], self._entries_at(-1) - 1)

    @property
    def last_confirmed(self) -> Position:
        """The last existing entry; `last_position` if there is none or the topic is terminated."""
        total = self.total_entries
        return self.entry_at(total - 1) if total and self._terminated is None else self.last_position

    @property
    def _no_ledgers(self) -> Position:
        return self._terminated if self._terminated is not None else Position(NO_ENTRY, NO_ENTRY)


def check_rising(infos: Sequence[LedgerInfo]) -> None:
    """Raise InvalidLedgerList unless ledger ids rise (M1)."""
    for before, after in pairwise(infos):
        if after.ledger_id <= before.ledger_id:
            raise InvalidLedgerList(
                f"ledger {after.ledger_id} follows ledger {before.ledger_id} in the list: ids must rise"
            )


def check_possible(ledger_ids: Iterable[int], path: str) -> None:
    """Raise RecordError if the record at `path` lists a number that is no ledger's id."""
    for ledger_id in ledger_ids:
        if not is_possible_ledger(ledger_id):
            raise RecordError(f"{path} lists {ledger_id}, which is no ledger's id", path)


def check_writable(infos: Sequence[LedgerInfo]) -> None:
    """Raise InvalidLedgerList unless ids rise and only the last ledger has 0 entries (M1, M4)."""
    check_rising(infos)
    for info in infos[:-1]:
        if info.entries <= 0:
            raise InvalidLedgerList(
                f"ledger {info.ledger_id} has entries {info.entries} and is not the last: Java would delete it; "
                "close it first (M4)"
            )


class LedgerEnd(Struct, frozen=True):
    """A closed ledger's true end: how many entries it holds and their payload bytes."""

    entries: int
    size: int


class OpenPlan(Struct, frozen=True):
    """What opening a topic does to its list (M3): write `info(new ledger)`, then delete `dropped`.

    `kept`: the ledgers that stay, with their true entries, sizes and close times. `create`: whether
    to create a ledger for writing.
    """

    base: ManagedLedgerInfo
    kept: tuple[LedgerInfo, ...]
    dropped: tuple[LedgerInfo, ...]
    missing: tuple[int, ...]
    create: bool
    warnings: tuple[str, ...]

    @property
    def above(self) -> int | None:
        """The new ledger's id must be above this one (M1)."""
        return self.base.ledgers[-1].ledger_id if self.base.ledgers else None

    @property
    def placeholder(self) -> int | None:
        """Stands for the new ledger's id in plans, before it exists; None if none is to be created."""
        return ((-1 if self.above is None else self.above) + 1) if self.create else None

    def info(self, new_ledger_id: int | None = None) -> ManagedLedgerInfo:
        """The record to write, with the new ledger last. Raises InvalidLedgerList unless its id rises."""
        ledgers = self.kept if new_ledger_id is None else (*self.kept, LedgerInfo(new_ledger_id))
        check_writable(ledgers)
        return replace(self.base, ledgers=ledgers)

    def ledgers(self, new_ledger_id: int | None = None) -> LedgerList:
        """The list after opening, with the new ledger empty."""
        return LedgerList(self.info(new_ledger_id).ledgers, current=new_ledger_id, terminated=self.base.terminated)


def ledgers_to_recover(info: ManagedLedgerInfo) -> tuple[int, ...]:
    """The ledgers to recover before `plan_open`, to find their true ends (M3).

    These are the last one and any other recorded without entries, which is dropped only if it
    really is empty. An offloaded ledger was closed before its offload, and stays listed even if the
    bookies no longer have it.
    """
    found = [ledger for ledger in info.ledgers[:-1] if ledger.entries <= 0] + list(info.ledgers[-1:])
    return tuple(ledger.ledger_id for ledger in found if not is_offloaded(ledger))


def plan_open(info: ManagedLedgerInfo, ends: dict[int, LedgerEnd | None], now_ms: int) -> OpenPlan:
    """What opening does to the topic's list (M3).

    `ends` has the true end of each of `ledgers_to_recover(info)`, None if the ledger does not
    exist; `now_ms` becomes the close time of those that had none. Raises InvalidLedgerList if the
    ids in `info` do not rise.
    """
    check_rising(info.ledgers)
    kept: list[LedgerInfo] = []
    dropped: list[LedgerInfo] = []
    missing: list[int] = []
    warnings: list[str] = []
    for ledger in info.ledgers:
        if ledger.ledger_id not in ends:
            kept.append(ledger)
            continue
        end = ends[ledger.ledger_id]
        if end is None:
            missing.append(ledger.ledger_id)
            warnings.append(f"ledger {ledger.ledger_id} does not exist: dropped from the list")
        elif end.entries == 0:
            dropped.append(ledger)
        else:
            if ledger is not info.ledgers[-1]:
                warnings.append(f"ledger {ledger.ledger_id} was recorded as empty but has {end.entries} entries: kept")
            kept.append(_with_end(ledger, end, now_ms))
    return OpenPlan(
        base=info,
        kept=tuple(kept),
        dropped=tuple(dropped),
        missing=tuple(missing),
        create=info.terminated is None,
        warnings=tuple(warnings),
    )


def _with_end(ledger: LedgerInfo, end: LedgerEnd, now_ms: int) -> LedgerInfo:
    closed_as_recorded = ledger.entries == end.entries and ledger.timestamp > 0
    return dataclasses.replace(
        ledger, entries=end.entries, size=end.size, timestamp=ledger.timestamp if closed_as_recorded else now_ms
    )


class RolloverPlan(Struct, frozen=True):
    """The list after a rollover: write `info`, then delete `dropped`, the old ledger if it is empty."""

    info: ManagedLedgerInfo
    dropped: tuple[LedgerInfo, ...]

    def ledgers(self) -> LedgerList:
        """The list as a LedgerList; its last ledger is current unless it is closed."""
        last = self.info.ledgers[-1:]
        current = last[0].ledger_id if last and last[0].timestamp == 0 else None
        return LedgerList(self.info.ledgers, current=current, terminated=self.info.terminated)


def plan_rollover(
    info: ManagedLedgerInfo, end: LedgerEnd, now_ms: int, new_ledger_id: int | None = None
) -> RolloverPlan:
    """Close the last ledger of `info` at its true `end` and add `new_ledger_id`, in one update (M4).

    Without a new ledger (close, terminate) the list ends with the closed one. An empty ledger is
    dropped.
    """
    last = info.ledgers[-1]
    closed = (dataclasses.replace(last, entries=end.entries, size=end.size, timestamp=now_ms),) if end.entries else ()
    added = () if new_ledger_id is None else (LedgerInfo(new_ledger_id),)
    ledgers = (*info.ledgers[:-1], *closed, *added)
    check_writable(ledgers)
    return RolloverPlan(replace(info, ledgers=ledgers), () if closed else (last,))


def rollover_reason(config: "ManagedLedgerConfig", entries: int, size: int, age_ms: int) -> str | None:
    """Why to roll over the current ledger now; None if not due (M4).

    `entries` and `size` (payload bytes) count its added entries, `age_ms` is the time since its
    creation, negative if the clock was set back: the minimum time then counts as passed. A size or
    time limit of 0 means no limit. An empty ledger never rolls over.
    """
    if entries == 0:
        return None
    if 0 < config.maximum_rollover_time_ms <= age_ms:
        return f"age {age_ms} ms reached {config.maximum_rollover_time_ms} ms"
    if 0 <= age_ms < config.minimum_rollover_time_ms:
        return None
    if entries >= config.max_entries_per_ledger:
        return f"entries reached {config.max_entries_per_ledger}"
    if 0 < config.max_size_per_ledger <= size:
        return f"size {size} reached {config.max_size_per_ledger_mb} MiB"
    return None


def next_ledger_if_consumed(ledgers: LedgerList, mark_delete: Position) -> Position | None:
    """Where R9 moves a cursor: the start of the next ledger if `mark_delete` ends its ledger, else None."""
    if mark_delete.ledger_id not in ledgers or mark_delete.entry_id == NO_ENTRY:
        return None
    following = ledgers.next_id(mark_delete.ledger_id)
    if following is None or mark_delete.entry_id + 1 < ledgers.entries(mark_delete.ledger_id):
        return None
    return Position(following, NO_ENTRY)
