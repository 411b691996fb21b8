"""Reads a cluster's metadata once through, some topics at a time, and adds up its figures (M9: it cannot write)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import BitMap64

from mledger.admin.topic_names import managed_ledger_paths
from mledger.config import ManagedLedgerConfig, half_retention
from mledger.errors import InvalidLedgerList
from mledger.exporter.bookie_states import read_bookie_states
from mledger.exporter.cluster_figures import ClusterFigures
from mledger.exporter.kept_topics import KeptTopic, KeptTopics
from mledger.exporter.orphan_suspects import LedgerReferences
from mledger.exporter.replication_marks import read_marks
from mledger.exporter.topic_figures import cursor_figures, recorded_ledgers, topic_figures, untrimmed
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.references import references_in_cursor, references_in_topic
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, TopicPolicies, retention_in_force
from mledger.metastore.closed_nodes import read_open
from mledger.metastore.cluster.policies import read_namespace_policies
from mledger.metastore.errors import InvalidName, MetadataAccessDenied, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import LEDGERS, MANAGED_LEDGERS, TopicName, cursor_names
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.runtime.logs import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataReader
from mledger.topics.backlog_quota import KEPT as OF_THE_SYSTEM

TOPICS_AT_ONCE = 200
PAGES_AT_ONCE = 4
CURSORS_AT_ONCE = 400
PAGE_BYTES = 8 << 20
"""The most bytes of records that a page holds until it is kept: topics with more are read in each round."""
NAMED = 10

log = get_logger(__name__)


@dataclass(slots=True)
class _Topic:
    """A topic while its cursors are read; `marks` are their mark-deletes, None once one of them is unknown.

    `kept` are the records of its cursors, None if they are too large to keep, or not known.
    """

    path: str
    data: bytes
    name: TopicName
    info: ManagedLedgerInfo
    ledgers: LedgerList
    retention: RetentionInForce
    marks: dict[str, Position] | None = field(default_factory=dict)
    num_children: int = 0
    kept: list[tuple[str, bytes]] | None = field(default_factory=list)

    @property
    def managed_ledger(self) -> str:
        return self.path[len(MANAGED_LEDGERS) + 1 :]

    def give_up(self) -> None:
        """A cursor of it is not known."""
        self.marks = self.kept = None


class _CursorPath(NamedTuple):
    topic: _Topic
    node: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.topic.path}/{self.node}"


class _PageRoom:
    """How many bytes of records the topics of a page may hold, for as long as it is read, to be kept afterwards."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, topic: _Topic, data: bytes, cursor: str | None = None) -> None:
        """Hold the record of a topic, or of a `cursor` of it, if there is room for all that the topic has."""
        self._left -= len(data)
        if self._left < 0:
            topic.kept = None
        elif cursor is not None and topic.kept is not None:
            topic.kept.append((cursor, data))


class ClusterReader:
    """Reads rounds; `config` has the broker's default retention and its limit of ranges in a cursor's record."""

    def __init__(self, config: ManagedLedgerConfig, worst: int) -> None:
        self._config, self._worst = config, worst
        self._of_others = BitMap64()
        self._kept = KeptTopics()
        self._closed: frozenset[str] = frozenset()

    async def read(self, reader: MetadataReader) -> ClusterFigures:
        """One round; what was read of topics before counts as long as it has not changed.

        Topics and cursors that access control closes are passed over, and counted as unreadable.

        Raises:
            StoreUnavailable: the store does not answer.
            MetadataAccessDenied: bookies, or the marks of ledgers, may not be listed.
            NodeNotFound: there is no cluster.
        """
        await self._kept.begin(reader, asyncio.get_running_loop().time())
        await reader.sync()
        await _check_cluster(reader)
        this = _Round(reader, self._config, self._worst, self._of_others, self._kept)
        figures = await this.read()
        self._say_closed(this.closed)
        return figures

    def _say_closed(self, closed: frozenset[str]) -> None:
        """Log which nodes are closed that were open, or not there, in the round before."""
        new = sorted(closed - self._closed)
        if new:
            hint = "give this login read access to them: their figures are missing"
            log.warning("nodes_closed_by_access_control", count=len(new), nodes=new[:NAMED], hint=hint)
        self._closed = closed


class _Round:
    """One reading of the whole cluster."""

    def __init__(
        self, reader: MetadataReader, config: ManagedLedgerConfig, worst: int, of_others: BitMap64, kept: KeptTopics
    ) -> None:
        self._reader, self._config, self._kept = reader, config, kept
        self._closed: set[str] = set()
        self._figures = ClusterFigures(worst, config.max_unacked_ranges_to_persist_in_metadata_store)
        self._references = LedgerReferences(reader, of_others)
        self._retention: dict[str, RetentionInForce] = {}

    @property
    def closed(self) -> frozenset[str]:
        """The nodes that access control has closed."""
        return frozenset(self._closed)

    async def read(self) -> ClusterFigures:
        """Bookies, marks, ledgers, and then what names them: the order that `orphan_suspects` needs."""
        figures, references = self._figures, self._references
        figures.bookies = await read_bookie_states(self._reader)
        figures.marks = await read_marks(self._reader)
        figures.unreadable["mark"] += figures.marks.unreadable
        listed = await self._of_ledgers(references.list_ledgers, references.name_pending)
        await self._read_all_topics()
        if listed:
            await self._of_ledgers(references.name_pending, references.name_kept, self._suspect_orphans)
        return figures

    async def _of_ledgers(self, *steps: Callable[[], Awaitable[None]]) -> bool:
        """Take these steps towards the suspected orphans; whether all could be taken."""
        try:
            for step in steps:
                await step()
        except (RecordError, NodeNotFound, MetadataAccessDenied):
            self._figures.unreadable["ledger"] += 1
            return False
        return True

    async def _suspect_orphans(self) -> None:
        self._figures.orphans = await self._references.suspects(wall_clock_ms())

    async def _read_all_topics(self) -> None:
        """Read all topics, some pages at once: while one waits for its nodes, another is counted."""
        pages: set[asyncio.Task[None]] = set()
        folders: set[str] = set()
        try:
            async for paths in managed_ledger_paths(self._reader, closed=folders):
                for start in range(0, len(paths), TOPICS_AT_ONCE):
                    while len(pages) >= PAGES_AT_ONCE:
                        done, pages = await asyncio.wait(pages, return_when=asyncio.FIRST_COMPLETED)
                        for page in done:
                            page.result()
                    pages.add(asyncio.ensure_future(self._read_topics(paths[start : start + TOPICS_AT_ONCE])))
            await asyncio.gather(*pages)
            self._figures.unreadable["folder"] += len(folders)
            self._closed |= folders
        finally:
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)

    async def _read_topics(self, paths: Sequence[str]) -> None:
        """Count the topics at `paths`: those that are kept, and then the others, which are read."""
        topics, unknown = [], []
        for path in paths:
            kept = self._kept.get(path)
            if kept is None:
                unknown.append(path)
            elif (topic := await self._topic(path, kept.data)) is not None:
                topics.append(topic)
                names = cursor_names(node for node, _ in kept.cursors)
                for node, data in kept.cursors:
                    self._add_cursor(_CursorPath(topic, node, names[node]), data)
        if unknown:
            topics += await self._read_unknown(unknown)
        now_ms = wall_clock_ms()
        for topic in topics:
            if topic.marks is not None:
                found = untrimmed(topic.name, topic.info, topic.ledgers, topic.marks, topic.retention, now_ms)
                self._figures.add_untrimmed(topic.name.namespace_name, found)

    async def _read_unknown(self, paths: Sequence[str]) -> list[_Topic]:
        """Read topics and their cursors, count them, and keep what was read of each whole topic."""
        with self._kept.reading() as changed:
            topics = await self._read_records(paths)
            room = _PageRoom(PAGE_BYTES)
            for topic in topics:
                room.take(topic, topic.data)
            cursors = await self._list_cursors([topic for topic in topics if topic.num_children])
            for start in range(0, len(cursors), CURSORS_AT_ONCE):
                some = cursors[start : start + CURSORS_AT_ONCE]
                closed: set[str] = set()
                nodes = await read_open(self._reader.get_many, [each.path for each in some], closed)
                for cursor, node in zip(some, nodes, strict=True):
                    if node is not None:
                        self._add_cursor(cursor, node.data)
                        room.take(cursor.topic, node.data, cursor.node)
                    elif cursor.path in closed:
                        self._figures.unreadable["cursor"] += 1
                        cursor.topic.give_up()
                self._closed |= closed
            now_s = asyncio.get_running_loop().time()
            for topic in topics:
                if topic.kept is not None:
                    self._kept.keep(topic.path, KeptTopic(topic.data, tuple(topic.kept)), changed, now_s)
        return topics

    async def _read_records(self, paths: Sequence[str]) -> list[_Topic]:
        closed: set[str] = set()
        topics = []
        for path, node in zip(paths, await read_open(self._reader.get_many, paths, closed), strict=True):
            topic = None if node is None else await self._topic(path, node.data)
            if topic is not None and node is not None:
                topic.num_children = node.stat.num_children
                topics.append(topic)
        self._figures.unreadable["topic"] += len(closed)
        self._closed |= closed
        return topics

    async def _list_cursors(self, topics: Sequence[_Topic]) -> list[_CursorPath]:
        closed: set[str] = set()
        listed = await read_open(self._reader.children_many, [topic.path for topic in topics], closed)
        self._figures.unreadable["topic"] += len(closed)
        self._closed |= closed
        cursors = []
        for topic, names in zip(topics, listed, strict=True):
            if topic.path in closed:
                topic.give_up()
            cursors += [_CursorPath(topic, node, name) for node, name in cursor_names(names or ()).items()]
        return cursors

    async def _topic(self, path: str, data: bytes) -> _Topic | None:
        """The topic with this record, counted; None if it does not parse."""
        self._figures.add_record("topic", len(data))
        try:
            info = decode_managed_ledger_info(data, path).value
            name = TopicName.of_managed_ledger(path[len(MANAGED_LEDGERS) + 1 :])
            self._references.name(each.ledger_id for each in references_in_topic(path, info))
            ledgers = recorded_ledgers(info)
        except (RecordError, InvalidName, InvalidLedgerList):
            self._figures.unreadable["topic"] += 1
            return None
        namespace = name.namespace_name
        self._figures.add_topic(namespace, topic_figures(ledgers))
        return _Topic(path, data, name, info, ledgers, await self._retention_of(name))

    def _add_cursor(self, cursor: _CursorPath, data: bytes) -> None:
        topic, name = cursor.topic, cursor.name
        self._figures.add_record("cursor", len(data))
        try:
            record = decode_managed_cursor_info(data, cursor.path).value
        except RecordError:
            self._figures.unreadable["cursor"] += 1
            topic.marks = None
            return
        self._references.name(each.ledger_id for each in references_in_cursor(cursor.path, record))
        if record.mark_delete is None:
            topic.marks = None
        elif topic.marks is not None:
            topic.marks[name] = record.mark_delete
        if name not in OF_THE_SYSTEM:
            found = cursor_figures(record, topic.ledgers, wall_clock_ms())
            self._figures.add_cursor(topic.name.namespace_name, topic.managed_ledger, name, found)

    async def _retention_of(self, topic: TopicName) -> RetentionInForce:
        """The retention of the topic's namespace, read once; KEEP_ALL where it is not known."""
        namespace = topic.namespace_name
        if namespace in self._retention:
            return self._retention[namespace]
        try:
            policies = await read_namespace_policies(self._reader, topic)
            found = retention_in_force(TopicPolicies(namespace=policies), self._config)
        except (RecordError, MetadataAccessDenied):
            found = KEEP_ALL
        if namespace not in self._retention:  # no other page has read them meanwhile
            self._retention[namespace] = found
            self._figures.unreadable["policies"] += found is KEEP_ALL
            half = half_retention(found.retention_time_ms, found.retention_size_in_mb)
            self._figures.namespace(namespace).retention_without_effect = bool(half)
        return self._retention[namespace]


async def _check_cluster(reader: MetadataReader) -> None:
    if await reader.exists(MANAGED_LEDGERS) is None and await reader.exists(LEDGERS) is None:
        raise NodeNotFound(
            f"{reader.url} has neither {MANAGED_LEDGERS} nor {LEDGERS}: give the cluster's chroot in the URL", LEDGERS
        )
