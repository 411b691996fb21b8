"""Reads a cluster's metadata once through, some topics at a time, and adds up its figures (M9: it cannot write)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from pyroaring import BitMap64

from mledger.admin.topic_names import managed_ledger_paths
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.config import ManagedLedgerConfig, half_retention
from mledger.exporter.bookie_disks import ask_disks
from mledger.exporter.bookie_states import read_bookie_states
from mledger.exporter.cluster_figures import ClusterFigures
from mledger.exporter.kept_topics import KeptTopics
from mledger.exporter.orphan_suspects import LedgerReferences
from mledger.exporter.replication_marks import read_marks
from mledger.exporter.topic_figures import untrimmed
from mledger.exporter.topic_summary import UNREADABLE, TopicRecords, TopicSummary, records_of_topic
from mledger.ledgers.retention import KEEP_ALL, RetentionInForce, TopicPolicies, retention_in_force
from mledger.metastore.closed_nodes import read_open
from mledger.metastore.cluster.policies import read_namespace_policies
from mledger.metastore.errors import MetadataAccessDenied, NodeNotFound, RecordError
from mledger.metastore.records.paths import LEDGERS, MANAGED_LEDGERS, TopicName, cursor_names
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.store import MetadataReader

TOPICS_AT_ONCE = 200
PAGES_AT_ONCE = 4
CURSORS_AT_ONCE = 400
NAMED = 10

_MANAGED_LEDGER = slice(len(MANAGED_LEDGERS) + 1, None)

log = get_logger(__name__)


class _CursorPath(NamedTuple):
    topic: TopicRecords
    node: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.topic.path}/{self.node}"


class ClusterReader:
    """Reads rounds; `config` has the broker's default retention and its limit of ranges in a cursor's record.

    With `connector` each round also asks the bookies for their disks.
    """

    def __init__(self, config: ManagedLedgerConfig, worst: int, connector: BookieConnector | None = None) -> None:
        self._config, self._worst, self._connector = config, worst, connector
        self._of_others = BitMap64()
        self._kept = KeptTopics()
        self._closed: frozenset[str] = frozenset()

    async def read(self, reader: MetadataReader) -> ClusterFigures:
        """One round; what was read of topics before counts as long as it has not changed.

        Topics and cursors that access control closes are passed over, and counted as unreadable.

        Raises:
            StoreUnavailable: the store does not answer.
            MetadataAccessDenied: bookies, the marks of ledgers, or all topics may not be listed.
            NodeNotFound: there is no cluster.
        """
        await self._kept.begin(reader, asyncio.get_running_loop().time())
        await reader.sync()
        await _check_cluster(reader)
        this = _Round(reader, self._config, self._worst, self._of_others, self._kept)
        figures = await this.read()
        if self._connector is not None:
            figures.disks = await ask_disks(reader, self._connector)
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
            if MANAGED_LEDGERS in folders:
                raise MetadataAccessDenied(
                    f"{MANAGED_LEDGERS} is closed to this client by its access control list: figures without any topic "
                    f"would look well ({self._reader.url})",
                    MANAGED_LEDGERS,
                )
            await asyncio.gather(*pages)
            self._figures.unreadable["folder"] += len(folders)
            self._closed |= folders
        finally:
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)

    async def _read_topics(self, paths: Sequence[str]) -> None:
        """Count the topics at `paths`: those that are kept, and then the others, which are read."""
        unknown: list[str] = []
        named: list[int] = []
        for path in paths:
            kept = self._kept.get(path)
            if kept is None:
                unknown.append(path)
            else:
                await self._count(path, kept, named)
        with self._kept.reading() as changed:
            for topic in await self._read_unknown(unknown):
                summary = topic.summary()
                if not topic.closed:
                    self._kept.keep(topic.path, summary, changed, asyncio.get_running_loop().time())
                await self._count(topic.path, summary, named)
        self._references.name(named)

    async def _count(self, path: str, topic: TopicSummary, named: list[int]) -> None:
        """Add a topic to the figures, and to `named` the ledgers that it names."""
        figures, namespace, now_ms = self._figures, topic.namespace, wall_clock_ms()
        named += topic.named
        figures.add_record("topic", topic.size)
        figures.add_topic(namespace, topic.figures)
        for cursor in topic.cursors:
            figures.add_record("cursor", cursor.size)
            figures.add_cursor(namespace, path[_MANAGED_LEDGER], cursor.name, cursor.figures.figures(now_ms))
        for size in topic.other_sizes:
            figures.add_record("cursor", size)
        figures.unreadable["cursor"] += topic.unreadable
        retention = self._retention.get(namespace)
        if retention is None:
            retention = await self._read_retention(TopicName.of_managed_ledger(path[_MANAGED_LEDGER]))
        if topic.consumed:
            figures.add_untrimmed(namespace, untrimmed(topic.consumed, retention, now_ms))

    async def _read_unknown(self, paths: Sequence[str]) -> list[TopicRecords]:
        """Read topics and their cursors."""
        topics = await self._read_records(paths)
        cursors = await self._list_cursors([topic for topic in topics if topic.num_children])
        for start in range(0, len(cursors), CURSORS_AT_ONCE):
            some = cursors[start : start + CURSORS_AT_ONCE]
            closed: set[str] = set()
            nodes = await read_open(self._reader.get_many, [each.path for each in some], closed)
            for cursor, node in zip(some, nodes, strict=True):
                if node is not None:
                    cursor.topic.add_cursor(cursor.node, cursor.name, node.data)
                elif cursor.path in closed:
                    cursor.topic.add_closed()
            self._closed |= closed
        return topics

    async def _read_records(self, paths: Sequence[str]) -> list[TopicRecords]:
        closed: set[str] = set()
        topics = []
        for path, node in zip(paths, await read_open(self._reader.get_many, paths, closed), strict=True):
            if node is None:
                continue
            try:
                topics.append(records_of_topic(path, node.data, node.stat.num_children))
            except UNREADABLE:
                self._figures.add_record("topic", len(node.data))
                self._figures.unreadable["topic"] += 1
        self._figures.unreadable["topic"] += len(closed)
        self._closed |= closed
        return topics

    async def _list_cursors(self, topics: Sequence[TopicRecords]) -> list[_CursorPath]:
        closed: set[str] = set()
        listed = await read_open(self._reader.children_many, [topic.path for topic in topics], closed)
        self._closed |= closed
        cursors = []
        for topic, names in zip(topics, listed, strict=True):
            if topic.path in closed:
                topic.add_closed()
            cursors += [_CursorPath(topic, node, name) for node, name in cursor_names(names or ()).items()]
        return cursors

    async def _read_retention(self, topic: TopicName) -> RetentionInForce:
        """The retention of the topic's namespace, read once; KEEP_ALL where it is not known."""
        namespace = topic.namespace_name
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
