"""Reads a cluster's metadata once through, some topics at a time, and adds up its figures (M9: it cannot write)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import BitMap64

from mledger.admin.topic_names import managed_ledger_paths
from mledger.config import ManagedLedgerConfig, half_retention
from mledger.errors import InvalidLedgerList
from mledger.exporter.bookie_states import read_bookie_states
from mledger.exporter.cluster_figures import ClusterFigures
from mledger.exporter.orphan_suspects import LedgerReferences
from mledger.exporter.replication_marks import read_marks
from mledger.exporter.topic_figures import cursor_figures, recorded_ledgers, topic_figures, untrimmed
from mledger.ledgers.ledger_list import LedgerList
from mledger.ledgers.references import references_in_cursor, references_in_topic
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, TopicPolicies, retention_in_force
from mledger.metastore.cluster.policies import read_namespace_policies
from mledger.metastore.errors import InvalidName, MetadataAccessDenied, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info, decode_managed_ledger_info
from mledger.metastore.records.paths import LEDGERS, MANAGED_LEDGERS, TopicName, cursor_names
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataReader, Node
from mledger.topics.backlog_quota import KEPT as OF_THE_SYSTEM

TOPICS_AT_ONCE = 200
PAGES_AT_ONCE = 4
CURSORS_AT_ONCE = 400


@dataclass(slots=True)
class _Topic:
    """A topic while its cursors are read; `marks` are their mark-deletes, None once one of them is unknown."""

    path: str
    name: TopicName
    info: ManagedLedgerInfo
    ledgers: LedgerList
    retention: RetentionInForce
    marks: dict[str, Position] | None = field(default_factory=dict)

    @property
    def managed_ledger(self) -> str:
        return self.path[len(MANAGED_LEDGERS) + 1 :]


class _CursorPath(NamedTuple):
    topic: _Topic
    node: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.topic.path}/{self.node}"


class ClusterReader:
    """Reads rounds; `config` has the broker's default retention and its limit of ranges in a cursor's record."""

    def __init__(self, config: ManagedLedgerConfig, worst: int) -> None:
        self._config, self._worst = config, worst
        self._of_others = BitMap64()

    async def read(self, reader: MetadataReader) -> ClusterFigures:
        """One round. StoreUnavailable, MetadataAccessDenied; NodeNotFound if there is no cluster."""
        await reader.sync()
        await _check_cluster(reader)
        return await _Round(reader, self._config, self._worst, self._of_others).read()


class _Round:
    """One reading of the whole cluster."""

    def __init__(self, reader: MetadataReader, config: ManagedLedgerConfig, worst: int, of_others: BitMap64) -> None:
        self._reader, self._config = reader, config
        self._figures = ClusterFigures(worst, config.max_unacked_ranges_to_persist_in_metadata_store)
        self._references = LedgerReferences(reader, of_others)
        self._retention: dict[str, RetentionInForce] = {}

    async def read(self) -> ClusterFigures:
        """Bookies, marks, ledgers, and then what names them: the order that `orphan_suspects` needs."""
        figures, references = self._figures, self._references
        figures.bookies = await read_bookie_states(self._reader)
        figures.marks = await read_marks(self._reader)
        figures.unreadable["mark"] += figures.marks.unreadable
        listed = await self._list_ledgers()
        await references.name_pending()
        await self._read_all_topics()
        await references.name_pending()
        await references.name_kept()
        if listed:
            figures.orphans = await references.suspects(wall_clock_ms())
        return figures

    async def _list_ledgers(self) -> bool:
        try:
            await self._references.list_ledgers()
        except (RecordError, NodeNotFound):
            self._figures.unreadable["ledger"] += 1
            return False
        return True

    async def _read_all_topics(self) -> None:
        """Read all topics, some pages at once: while one waits for its nodes, another is counted."""
        pages: set[asyncio.Task[None]] = set()
        try:
            async for paths in managed_ledger_paths(self._reader):
                for start in range(0, len(paths), TOPICS_AT_ONCE):
                    while len(pages) >= PAGES_AT_ONCE:
                        done, pages = await asyncio.wait(pages, return_when=asyncio.FIRST_COMPLETED)
                        for page in done:
                            page.result()
                    pages.add(asyncio.ensure_future(self._read_topics(paths[start : start + TOPICS_AT_ONCE])))
            await asyncio.gather(*pages)
        finally:
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)

    async def _read_topics(self, paths: Sequence[str]) -> None:
        topics = []
        parents = []
        for path, node in zip(paths, await self._reader.get_many(paths), strict=True):
            topic = None if node is None else await self._topic(path, node)
            if topic is not None and node is not None:
                topics.append(topic)
                if node.stat.num_children:
                    parents.append(topic)
        listed = await self._reader.children_many([topic.path for topic in parents])
        cursors = [
            _CursorPath(topic, node, name)
            for topic, names in zip(parents, listed, strict=True)
            for node, name in cursor_names(names or ()).items()
        ]
        for start in range(0, len(cursors), CURSORS_AT_ONCE):
            some = cursors[start : start + CURSORS_AT_ONCE]
            nodes = await self._reader.get_many([each.path for each in some])
            for cursor, node in zip(some, nodes, strict=True):
                if node is not None:
                    self._add_cursor(cursor, node)
        now_ms = wall_clock_ms()
        for topic in topics:
            if topic.marks is not None:
                found = untrimmed(topic.name, topic.info, topic.ledgers, topic.marks, topic.retention, now_ms)
                self._figures.add_untrimmed(topic.name.namespace_name, found)

    async def _topic(self, path: str, node: Node) -> _Topic | None:
        """The topic whose record is in the node, counted; None if it does not parse."""
        self._figures.add_record("topic", len(node.data))
        try:
            info = decode_managed_ledger_info(node.data, path).value
            name = TopicName.of_managed_ledger(path[len(MANAGED_LEDGERS) + 1 :])
            self._references.name(each.ledger_id for each in references_in_topic(path, info))
            ledgers = recorded_ledgers(info)
        except (RecordError, InvalidName, InvalidLedgerList):
            self._figures.unreadable["topic"] += 1
            return None
        namespace = name.namespace_name
        self._figures.add_topic(namespace, topic_figures(ledgers))
        return _Topic(path, name, info, ledgers, await self._retention_of(name))

    def _add_cursor(self, cursor: _CursorPath, node: Node) -> None:
        topic, name = cursor.topic, cursor.name
        self._figures.add_record("cursor", len(node.data))
        try:
            record = decode_managed_cursor_info(node.data, cursor.path).value
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
