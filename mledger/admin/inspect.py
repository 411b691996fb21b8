"""Inspects topics without opening them: it fences nothing, and uses only types that cannot write (M9, Q3)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mledger.admin.cursor_inspection import CursorInspection, SeenCursor, SeenCursorReader, plan_inspections
from mledger.admin.partitions import no_such_topic, read_partitioned
from mledger.admin.topic_names import list_topics
from mledger.bookie.client.ledgers.peek import Peek
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchLedger, RecoveryUndecided
from mledger.errors import CursorNotFound, TopicNotFound
from mledger.ledgers.bundles import BrokerOwner
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import (
    LedgerEnd,
    LedgerList,
    OpenPlan,
    check_possible,
    ledgers_to_recover,
    plan_open,
)
from mledger.ledgers.offload import deleted_after_offload
from mledger.ledgers.ownership import find_owner
from mledger.ledgers.shadow_topics import shadow_source, source_record
from mledger.metastore.errors import NodeNotFound
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import MANAGED_LEDGERS, TopicName, cursor_names, managed_ledger_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedLedgerInfo
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataReader, Node

READ_ENTRIES = 1000
READ_BYTES = 4 << 20
AT_ONCE = 64
PARTITIONS_AT_ONCE = 16


class LedgerInspection(Struct, frozen=True):
    """One ledger of a topic as it is now; `unconfirmed`: its end was peeked at, and recovery may find another one."""

    ledger_id: int
    entries: int
    size: int
    timestamp: int
    closed: bool
    unconfirmed: bool


class SeenEntry(NamedTuple):
    """An entry as read; `unconfirmed`: it is not proven that an ack quorum holds it, and its writer may be alive."""

    position: Position
    payload: bytes
    unconfirmed: bool


@dataclass(frozen=True, slots=True)
class TopicInspection:
    """A topic as its record and its bookies show it; sizes in payload bytes. `owner` is None if none was found."""

    managed_ledger: str
    version: int
    ledgers: tuple[LedgerInspection, ...]
    entries: int
    size: int
    last_confirmed: Position
    terminated: Position | None
    properties: tuple[tuple[str, str], ...]
    cursors: tuple[str, ...]
    owner: BrokerOwner | None
    warnings: tuple[str, ...]


class PartitionedInspection(Struct, frozen=True):
    """A partitioned topic as it is now; a partition without a managed ledger is None."""

    topic: TopicName
    version: int
    record: PartitionedTopic
    partitions: tuple[TopicInspection | None, ...]


class OpeningView(Struct, frozen=True):
    """A topic as opening it would leave it: its ledgers, a new empty one for writing at the end, and its cursors.

    That ledger does not exist yet: `new_ledger` is a placeholder for its id, None for a terminated topic.
    """

    info: ManagedLedgerInfo
    ledgers: LedgerList
    new_ledger: int | None
    cursors: tuple[CursorInspection, ...]
    warnings: tuple[str, ...]


class TopicLook(Struct, frozen=True):
    """A topic's ledgers as its bookies report them now, and what recovery would find for the requested cursors."""

    ledgers: tuple[LedgerInspection, ...]
    cursors: dict[str, CursorInspection]  # by path


class _Topic(Struct, frozen=True):
    path: str
    node: Node
    info: ManagedLedgerInfo
    listed_at: str  # the record with the list of ledgers: a shadow's is its source's
    peeks: dict[int, Peek | None]

    @property
    def name(self) -> str:
        return self.path[len(MANAGED_LEDGERS) + 1 :]

    def ledger_list(self) -> tuple[LedgerList, tuple[str, ...]]:
        """The list that opening would keep, without a new ledger for writing, and warnings."""
        plan = self.open_plan()
        return plan.ledgers(), plan.warnings

    @property
    def undecided(self) -> RecoveryUndecided | None:
        """Why a ledger may have acknowledged entries beyond those seen, so that opening would fail now."""
        reason = next((peek.undecided for peek in self.peeks.values() if peek is not None and peek.undecided), None)
        return None if reason is None else RecoveryUndecided(reason)

    def open_plan(self) -> OpenPlan:
        """What opening would do to the list."""
        ends = {
            ledger_id: None if peek is None else LedgerEnd(peek.last_entry + 1, peek.length)
            for ledger_id, peek in self.peeks.items()
        }
        return plan_open(self.info, ends, wall_clock_ms())


class Inspector:
    """Inspects topics; `password` is the ledgers' (managedLedgerPassword), None: what each one's metadata has."""

    def __init__(self, store: MetadataReader, bookkeeper: BookKeeperReader, password: bytes | None = None) -> None:
        self._store = store
        self._bookkeeper = bookkeeper
        self._password = password
        self._states = SeenCursorReader(store, bookkeeper, password)

    async def topics(self, prefix: str = "") -> list[TopicName]:
        """All topics, sorted by managed ledger; with `prefix` only those of a tenant or tenant/namespace."""
        return await list_topics(self._store, prefix)

    async def topic(self, name: str) -> TopicInspection:
        """The topic as it is now. TopicNotFound, RecordError, and the errors of peeking at its last ledger."""
        topic = await self._topic(name)
        cursors, owner = await asyncio.gather(self._store.children(topic.path), find_owner(self._store, topic.name))
        ledger_list, warnings = topic.ledger_list()
        ledgers = tuple(self._ledgers(topic))
        source = shadow_source(topic.info)
        if source is not None:
            warnings = (f"the topic is a shadow of {source}: the ledgers are those of its source", *warnings)
        if topic.undecided is not None:
            warnings = (*warnings, str(topic.undecided))
        return TopicInspection(
            managed_ledger=topic.name,
            version=topic.node.version,
            ledgers=ledgers,
            entries=ledger_list.total_entries,
            size=ledger_list.total_size,
            last_confirmed=topic.info.terminated or ledger_list.last_confirmed,
            terminated=topic.info.terminated,
            properties=topic.info.properties,
            cursors=tuple(sorted(cursor_names(cursors).values())),
            owner=owner,
            warnings=warnings,
        )

    async def partitioned(self, name: str) -> PartitionedInspection:
        """The partitioned topic with each partition as it is; TopicNotFound if it is not partitioned."""
        topic = TopicName.parse(name)
        found = await read_partitioned(self._store, topic)
        if found is None:
            raise TopicNotFound(
                f"there is no partitioned topic {topic}: `mledger topics list --partitioned` lists them all"
            )
        at_once = asyncio.Semaphore(PARTITIONS_AT_ONCE)

        async def look(index: int) -> TopicInspection | None:
            async with at_once:
                try:
                    return await self.topic(str(topic.partition(index)))
                except TopicNotFound:
                    return None

        partitions = await asyncio.gather(*map(look, range(found[0].partitions)))
        return PartitionedInspection(topic, found[1], found[0], tuple(partitions))

    async def cursors(self, name: str, cursor: str | None = None) -> list[CursorInspection]:
        """What opening the topic would do to its cursors, or to one of them: a dry run of recovery.

        A cursor whose state cannot be read is listed with its error. Raises TopicNotFound, CursorNotFound.
        """
        states = await self._states_on(name, cursor)
        topic = await self._topic(name)
        return plan_inspections(_found(states, name, cursor), topic.ledger_list()[0], topic.undecided)

    async def _states_on(self, name: str, cursor: str | None) -> list[SeenCursor]:
        """The states of the topic's cursors, or of one; read them before the ends of its ledgers."""
        return await self._states.read(TopicName.parse(name).managed_ledger_path, cursor)

    async def cursor_on(self, name: str, cursor: str) -> tuple[CursorInspection, "TopicView"]:
        """One cursor as `cursors` returns it, and its topic. TopicNotFound, CursorNotFound."""
        states = await self._states_on(name, cursor)
        topic = await self._topic(name)
        view = TopicView(self, topic.open_plan())
        (found,) = plan_inspections(_found(states, name, cursor), view.ledgers, topic.undecided)
        return found, view

    async def look(self, path: str, node: Node, cursors: Mapping[str, Node]) -> TopicLook:
        """A dry run of recovery for a topic and cursors whose nodes have been read already, by path.

        Raises RecordError, and the errors of peeking at the topic's last ledger.
        """
        states = await self._states.of_nodes(cursors)
        topic = await self._seen(path, node)
        looked = plan_inspections(states, topic.ledger_list()[0], topic.undecided)
        return TopicLook(tuple(self._ledgers(topic)), dict(zip(cursors, looked, strict=True)))

    async def opening(self, name: str) -> OpeningView:
        """The topic as opening it would leave it, from which commands that open it plan.

        Raises TopicNotFound, and RecoveryUndecided where opening would.
        """
        states = await self._states_on(name, None)
        topic = await self._topic(name)
        if topic.undecided is not None:
            raise topic.undecided
        plan = topic.open_plan()
        ledgers = plan.ledgers(plan.placeholder)
        cursors = tuple(plan_inspections(states, ledgers, None))
        return OpeningView(topic.info, ledgers, plan.placeholder, cursors, plan.warnings)

    async def read(
        self,
        name: str,
        first: Position | None = None,
        last: Position | None = None,
        on_skipped: Callable[[LedgerInfo], None] = lambda _: None,
    ) -> AsyncIterator[list[SeenEntry]]:
        """Entries from `first` to `last`, in lists; a ledger that is not closed is read up to the peeked end (Q3).

        `on_skipped` is called with each ledger in between that is offloaded and no longer on the bookies. Raises, after
        the entries that can be seen, RecoveryUndecided if there may be more that are acknowledged.
        """
        topic = await self._topic(name, peek=False)
        for info in topic.info.ledgers:
            if (first is not None and info.ledger_id < first.ledger_id) or (
                last is not None and info.ledger_id > last.ledger_id
            ):
                continue
            if deleted_after_offload(info, topic.listed_at):
                on_skipped(info)
                continue
            check_possible([info.ledger_id], topic.listed_at)
            peek = await self.peek(info.ledger_id)
            entry = max(0, first.entry_id) if first is not None and first.ledger_id == info.ledger_id else 0
            end, whole = peek.last_entry, True
            if last is not None and last.ledger_id == info.ledger_id and last.entry_id <= end:
                end, whole = last.entry_id, False
            while entry <= end:
                payloads = await peek.reader.read(entry, min(end, entry + READ_ENTRIES - 1), READ_BYTES)
                yield [
                    SeenEntry(Position(info.ledger_id, at), payload, at > peek.last_add_confirmed)
                    for at, payload in enumerate(payloads, entry)
                ]
                entry += len(payloads)
            if whole:
                peek.decided()

    async def _topic(self, name: str, *, peek: bool = True) -> _Topic:
        topic = TopicName.parse(name)
        path = managed_ledger_path(topic.managed_ledger_name)
        try:
            node = await self._store.get(path)
        except NodeNotFound:
            raise await no_such_topic(self._store, topic) from None
        return await self._seen(path, node, peek=peek)

    async def _seen(self, path: str, node: Node, *, peek: bool = True) -> _Topic:
        info = decode_managed_ledger_info(node.data, path).value
        source = shadow_source(info)
        found = await source_record(self._store, path[len(MANAGED_LEDGERS) + 1 :], source) if source else None
        listed_at = path
        if found is not None:
            listed_at, listing = found
            info = replace(decode_managed_ledger_info(listing.data, listed_at).value, properties=info.properties)
        wanted = ledgers_to_recover(info) if peek else ()
        check_possible(wanted, listed_at)
        peeks = await asyncio.gather(*(self._peek(ledger_id) for ledger_id in wanted))
        return _Topic(path, node, info, listed_at, dict(zip(wanted, peeks, strict=True)))

    async def peek(self, ledger_id: int) -> Peek:
        """The ledger as its bookies report it now; NoSuchLedger."""
        return await self._bookkeeper.peek(ledger_id, self._password)

    async def _peek(self, ledger_id: int) -> Peek | None:
        try:
            return await self._bookkeeper.peek(ledger_id, self._password)
        except NoSuchLedger:
            return None

    def _ledgers(self, topic: _Topic) -> Sequence[LedgerInspection]:
        found = []
        for info in topic.info.ledgers:
            peek = topic.peeks.get(info.ledger_id)
            if peek is None:
                found.append(
                    LedgerInspection(info.ledger_id, info.entries, info.size, info.timestamp, info.timestamp > 0, False)
                )
            else:
                entries = peek.last_entry + 1
                found.append(
                    LedgerInspection(
                        info.ledger_id, entries, peek.length, info.timestamp, peek.closed, peek.unconfirmed
                    )
                )
        return found


class TopicView:
    """A topic's ledgers as they were inspected, without a new one for writing, and its entries.

    `opened`: the list with that one, whose id is the placeholder `new_ledger`.
    """

    def __init__(self, inspector: Inspector, plan: OpenPlan) -> None:
        self.ledgers, self.opened, self.new_ledger = plan.ledgers(), plan.ledgers(plan.placeholder), plan.placeholder
        self._inspector = inspector
        self._peeks: dict[int, Peek] = {}

    async def read_entry(self, position: Position) -> Entry:
        """One entry; NoSuchLedger, NoSuchEntry, BookieUnavailable."""
        if position.ledger_id not in self._peeks:
            self._peeks[position.ledger_id] = await self._inspector.peek(position.ledger_id)
        return Entry(position, await self._peeks[position.ledger_id].read(position.entry_id))


def _found(states: list[SeenCursor], name: str, cursor: str | None) -> list[SeenCursor]:
    if cursor is not None and not states:
        raise CursorNotFound(
            f"{TopicName.parse(name)} has no cursor {cursor}: list the cursors that exist, or create it"
        )
    return states
