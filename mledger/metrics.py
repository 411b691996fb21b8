"""An owner's metrics for Prometheus, under Pulsar's names where they exist (monitoring.md), and its health.

Topics are read some at a time, so that a scrape of ten thousand of them does not delay appends. A
thread formats the text.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from mledger.counters import NamespaceCounters, namespace_of
from mledger.ledgers.entries.entry_cache import EntryCache
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, HttpServer, Route
from mledger.metastore.store import SessionState
from mledger.metrics_options import MetricsOptions
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.state import TopicState

if TYPE_CHECKING:
    from mledger.cluster import Cluster

TOPICS_AT_ONCE = 100


class _CursorFigures(NamedTuple):
    name: str
    backlog: int
    failing: bool
    behind_s: float


class _TopicFigures(NamedTuple):
    """A topic's figures at the time of the scrape."""

    managed_ledger: str
    state: TopicState
    entries: int
    size: int
    ledgers: int
    cursors: tuple[_CursorFigures, ...]
    unrecovered: int

    @property
    def backlog(self) -> int:
        """Entries not acknowledged, summed over the cursors."""
        return sum(cursor.backlog for cursor in self.cursors)


MoreMetrics = Callable[[], Awaitable[Callable[[Families], None]]]
"""Reads figures of the process on its loop, some at a time; what it returns adds them to the metrics, on a thread."""


class OwnerMetrics:
    """Serves the metrics of the topics that one Cluster has open, and `more` of the process that owns them."""

    def __init__(self, cluster: "Cluster", options: MetricsOptions, more: MoreMetrics | None = None) -> None:
        self._cluster, self._options, self._more = cluster, options, more

    def routes(self) -> dict[str, Route]:
        """The served paths and their handlers."""
        return {"/metrics": self.metrics, "/health": self.health, "/heartbeat": self.heartbeat}

    async def metrics(self, asked: HttpRequest) -> HttpResponse:
        """All metrics."""
        figures = [each async for each in self._read_figures()]
        counters = dict(self._cluster.counters.namespaces)
        loop = asyncio.get_running_loop()
        more = None if self._more is None else await self._more()
        return await loop.run_in_executor(None, self._expose, figures, counters, more, asked)

    async def health(self, _: HttpRequest) -> HttpResponse:
        """200 while connected to the metadata store; 503 when the topics may be lost to another owner."""
        session = self._cluster.metadata.session_state
        states = [topic.state for topic in self._cluster.opened.values()]
        well = session is SessionState.CONNECTED
        health = {
            "status": "ok" if well else "metadata store away",
            "session": session.name.lower(),
            "topics": len(states),
            "fenced": states.count(TopicState.FENCED),
        }
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return HttpResponse(json.dumps(health).encode() + b"\n", "application/json", status)

    async def heartbeat(self, _: HttpRequest) -> HttpResponse:
        """200: the process is running."""
        return HttpResponse(b"OK\n")

    async def _read_figures(self) -> AsyncIterator[_TopicFigures]:
        topics = list(self._cluster.opened.values())
        for number, topic in enumerate(topics, 1):
            yield _figures(topic)
            if number % TOPICS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _expose(
        self,
        figures: Sequence[_TopicFigures],
        counters: dict[str, NamespaceCounters],
        more: Callable[[Families], None] | None,
        asked: HttpRequest,
    ) -> HttpResponse:
        families = Families()
        cluster = {"cluster": self._options.cluster_name}
        families.gauge("pulsar_ml_count", "Managed ledgers open here", len(figures), cluster)
        for state in TopicState:
            count = sum(each.state is state for each in figures)
            families.gauge("mledger_topics", "Topics open here, by state", count, cluster | {"state": state.value})
        if (cache := self._cluster.cache) is not None:
            _cached(families, cache, cluster)
        for namespace, topics in _by_namespace(figures):
            self._namespace(families, namespace, topics)
        for namespace, counts in counters.items():
            _counted(families, counts, cluster | {"namespace": namespace})
        if more is not None:
            more(families)
        return expose(families, asked)

    def _namespace(self, families: Families, namespace: str, topics: Sequence[_TopicFigures]) -> None:
        labels = {"cluster": self._options.cluster_name, "namespace": namespace}
        cursors, waiting = sum(len(each.cursors) for each in topics), sum(each.unrecovered for each in topics)
        backlog, size = sum(each.backlog for each in topics), sum(each.size for each in topics)
        families.gauge("pulsar_topics_count", "Topics of the namespace open here", len(topics), labels)
        families.gauge(
            "pulsar_subscriptions_count", "Cursors of the namespace's open topics", cursors + waiting, labels
        )
        families.gauge("mledger_cursors_not_recovered", "Cursors whose state is not known yet", waiting, labels)
        every = [cursor for each in topics for cursor in each.cursors]
        failing, behind = (
            sum(cursor.failing for cursor in every),
            max((cursor.behind_s for cursor in every), default=0.0),
        )
        families.gauge("mledger_cursors_not_persisted", "Cursors whose last write failed", failing, labels)
        families.gauge(
            "mledger_cursor_oldest_unpersisted_seconds", "Age of the oldest change that is not durable", behind, labels
        )
        families.gauge(
            "pulsar_ml_NumberOfMessagesInBacklog", "Entries not acknowledged, over all cursors", backlog, labels
        )
        families.gauge("pulsar_ml_StoredMessagesSize", "Payload bytes kept", size, labels)
        if not self._options.topics:
            families.gauge("pulsar_msg_backlog", "Entries not acknowledged, over all cursors", backlog, labels)
            families.gauge("pulsar_storage_size", "Payload bytes kept", size, labels)
            return
        for topic in topics:
            name = _topic_name(topic.managed_ledger)
            named = labels | {"topic": name}
            families.gauge("pulsar_msg_backlog", "Entries not acknowledged, over all cursors", topic.backlog, named)
            families.gauge("pulsar_storage_size", "Payload bytes kept", topic.size, named)
            families.gauge("mledger_topic_entries", "Entries kept", topic.entries, named)
            families.gauge("mledger_topic_ledgers", "Ledgers in the list", topic.ledgers, named)
            for cursor in topic.cursors:
                both = named | {"subscription": cursor.name}
                families.gauge("pulsar_subscription_back_log", "Entries not acknowledged", cursor.backlog, both)


@dataclass(frozen=True, slots=True)
class MetricsServer:
    """The address of a metrics server."""

    host: str
    port: int


@asynccontextmanager
async def serve_metrics(
    cluster: "Cluster", options: MetricsOptions | None = None, more: MoreMetrics | None = None
) -> AsyncIterator[MetricsServer]:
    """Serve `/metrics`, `/health` and `/heartbeat` over HTTP for the topics that `cluster` has open, with `more`.

    Raises OSError if the port is in use.
    """
    found = options or MetricsOptions()
    server = HttpServer(OwnerMetrics(cluster, found, more).routes())
    port = await server.start(found.host, found.port)
    try:
        yield MetricsServer(found.host, port)
    finally:
        await server.close()


def _figures(topic: ManagedLedger) -> _TopicFigures:
    cursors = tuple(
        _CursorFigures(name, cursor.backlog, cursor.is_failing, cursor.behind_s)
        for name, cursor in topic.open_cursors.items()
    )
    found = topic.ledger_list
    waiting = len(topic.cursors) - len(cursors)
    return _TopicFigures(
        topic.name, topic.state, found.total_entries, found.total_size, len(found.ids), cursors, max(waiting, 0)
    )


def _by_namespace(figures: Sequence[_TopicFigures]) -> Iterator[tuple[str, list[_TopicFigures]]]:
    found: dict[str, list[_TopicFigures]] = {}
    for each in figures:
        found.setdefault(namespace_of(each.managed_ledger), []).append(each)
    yield from sorted(found.items())


def _topic_name(managed_ledger: str) -> str:
    """The topic as Pulsar labels it: persistent://tenant/namespace/topic."""
    return str(TopicName.of_managed_ledger(managed_ledger))


def _cached(families: Families, cache: EntryCache, labels: dict[str, str]) -> None:
    families.gauge("pulsar_ml_cache_used_size", "Bytes that cached entries take", cache.size, labels)
    families.gauge("pulsar_ml_cache_entries", "Cached entries", cache.entries, labels)
    families.total("pulsar_ml_cache_inserted_entries", "Entries added", cache.inserted_entries, labels)
    families.total("pulsar_ml_cache_evicted_entries", "Entries that left", cache.evicted_entries, labels)
    families.original("pulsar_ml_cache_evictions", "How often the cache was full", cache.evictions, labels)


def _counted(families: Families, counts: NamespaceCounters, labels: dict[str, str]) -> None:
    for name, help_text, value in (
        ("mledger_added_entries", "Entries acknowledged to their writers", counts.added),
        ("mledger_added_bytes", "Payload bytes of acknowledged entries", counts.added_bytes),
        ("mledger_failed_batches", "Batches that failed", counts.batches_failed),
        ("mledger_add_timeouts", "Ledgers failed by managedLedgerAddEntryTimeoutSeconds", counts.adds_timed_out),
        ("mledger_reads", "Reads from bookies", counts.reads),
        ("mledger_read_entries", "Entries read from bookies", counts.entries_read),
        ("mledger_failed_reads", "Reads that failed", counts.reads_failed),
        ("mledger_cache_hits", "Entries found in the cache or shared with another read", counts.cache_hits),
        ("mledger_cache_misses", "Entries that the cache did not have", counts.cache_misses),
        (
            "mledger_cursor_states_not_persisted",
            "Failed writes of cursor states, which stay in memory and are retried",
            counts.states_not_persisted,
        ),
        (
            "mledger_skipped_lost_entries",
            "Entries that no bookie has, acknowledged unread (autoSkipNonRecoverableData)",
            counts.lost_entries_skipped,
        ),
        ("mledger_failed_opens", "Topics that could not be opened", counts.opens_failed),
        ("mledger_recovered_ledgers", "Ledgers recovered by opening topics", counts.ledgers_recovered),
        ("mledger_recovered_cursors", "Cursors recovered", counts.cursors_recovered),
        (
            "mledger_delayed_cursor_recoveries",
            "Failed recoveries of cursors, which are retried",
            counts.cursor_recoveries_delayed,
        ),
        ("mledger_fenced_topics", "Topics that another owner took", counts.fenced),
    ):
        families.total(name, help_text, value, labels)
    for name, help_text, value in (
        ("pulsar_ml_cursor_persistLedgerSucceed", "Cursor states written to cursor ledgers", counts.states_in_ledgers),
        (
            "pulsar_ml_cursor_persistLedgerErrors",
            "Failed writes of cursor states to cursor ledgers",
            counts.states_in_ledgers_failed,
        ),
        ("pulsar_ml_cursor_persistZookeeperSucceed", "Cursor records written", counts.states_in_records),
        (
            "pulsar_ml_cursor_persistZookeeperErrors",
            "Writes of cursor records with an unknown outcome",
            counts.states_in_records_failed,
        ),
    ):
        families.original(name, help_text, value, labels)
    families.seconds("mledger_add_seconds", "From accepting a batch to its acknowledgement", counts.add_times, labels)
    families.seconds("mledger_open_seconds", "Opening of a topic, until it accepts entries", counts.open_times, labels)
