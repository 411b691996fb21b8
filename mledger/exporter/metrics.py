"""The exporter's metrics for Prometheus (monitoring.md), and its health."""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus

from mledger.bookie.client.connections.bookie_info import BookieInfo
from mledger.exporter.bookie_states import BookieStates
from mledger.exporter.cluster_figures import ClusterFigures, NamespaceFigures
from mledger.exporter.replication_marks import ReplicationMarks
from mledger.exporter.rounds import ClusterReading, ReadingRounds
from mledger.exporter.worst_cursors import RankedCursor
from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route
from mledger.metastore.store import MAX_REQUEST_BYTES, SessionState

_SECOND_MS = 1000.0


class ExporterMetrics:
    """Serves what the rounds have found so far; a scrape reads no metadata."""

    def __init__(self, rounds: ReadingRounds) -> None:
        self._rounds = rounds

    def routes(self) -> dict[str, Route]:
        """The served paths and their handlers."""
        return {"/metrics": self.metrics, "/health": self.health, "/heartbeat": self.heartbeat}

    async def metrics(self, asked: HttpRequest) -> HttpResponse:
        """All metrics."""
        families = Families()
        add_rounds(families, self._rounds)
        return await asyncio.get_running_loop().run_in_executor(None, _expose, families, self._rounds.reading, asked)

    async def health(self, _: HttpRequest) -> HttpResponse:
        """200 if the last round was complete; 503 before the first one, and after one that failed."""
        rounds = self._rounds
        well = rounds.reading is not None and not rounds.error
        health = {
            "status": "ok" if well else "no reading yet" if not rounds.error else "the last round failed",
            "reading_age_s": round(rounds.age_s, 3),
            "rounds": rounds.completed,
            "error": rounds.error,
        }
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return HttpResponse(json.dumps(health).encode() + b"\n", "application/json", status)

    async def heartbeat(self, _: HttpRequest) -> HttpResponse:
        """200: the process is running."""
        return HttpResponse(b"OK\n")


def _expose(families: Families, reading: ClusterReading | None, asked: HttpRequest) -> HttpResponse:
    if reading is not None:
        add_reading(families, reading)
    return expose(families, asked)


def add_rounds(families: Families, rounds: ReadingRounds) -> None:
    """Add the metrics of the exporter itself."""
    gauge = families.gauge
    gauge("mledger_exporter_reading_age_seconds", "Time since the last complete reading began", rounds.age_s)
    gauge(
        "mledger_exporter_connected",
        "Whether the session with the metadata store is alive",
        rounds.session is SessionState.CONNECTED,
    )
    families.total("mledger_exporter_rounds", "Complete readings", rounds.completed)
    for kind, count in sorted({"store_unavailable": 0, **rounds.failures}.items()):
        families.total("mledger_exporter_failed_rounds", "Readings that failed, by error", count, {"kind": kind})


def add_reading(families: Families, reading: ClusterReading) -> None:
    """Add the metrics of a reading."""
    figures = reading.figures
    families.gauge("mledger_exporter_round_seconds", "How long the last complete reading took", reading.round_s)
    families.gauge(
        "mledger_exporter_round_requests", "Nodes and lists of children that it asked for", reading.requested
    )
    for namespace, sums in sorted(figures.namespaces.items()):
        _namespace(families, namespace, sums)
    _worst(families, figures)
    _records(families, figures)
    _marks(families, figures.marks, reading.at_ms)
    _bookies(families, figures.bookies)
    _disks(families, figures.disks)
    if figures.orphans is not None:
        found = figures.orphans
        for kind, count in (("data", found.data_ledgers), ("cursor", found.cursor_ledgers)):
            families.gauge(
                "mledger_cluster_suspected_orphans",
                "Ledgers that no record named at two looks: only suspected",
                count,
                {"kind": kind},
            )
        families.gauge(
            "mledger_cluster_unnamed_ledgers_unchecked", "Unnamed ledgers not looked at again", found.unchecked
        )


def _namespace(families: Families, namespace: str, sums: NamespaceFigures) -> None:
    labels = {"namespace": namespace}
    gauge = families.gauge
    gauge("mledger_cluster_topics", "Topics", sums.topics, labels)
    gauge("mledger_cluster_ledgers", "Ledgers in the lists of topics", sums.ledgers, labels)
    gauge("mledger_cluster_entries", "Entries in closed ledgers", sums.entries, labels)
    gauge("mledger_cluster_stored_bytes", "Payload bytes in closed ledgers", sums.size, labels)
    for state, cursors in sums.by_state.items():
        stated = {**labels, "state": state}
        gauge("mledger_cluster_cursors", "Cursors, by where their state is", cursors.cursors, stated)
        gauge("mledger_cluster_backlog_entries", "Recorded entries not acknowledged", cursors.backlog, stated)
        gauge(
            "mledger_cluster_backlog_age_seconds",
            "How long the oldest of them has waited at least",
            cursors.oldest_ms / _SECOND_MS,
            stated,
        )
    gauge("mledger_cluster_holes", "Ranges acknowledged above mark-deletes, in cursors' records", sums.holes, labels)
    gauge("mledger_cluster_most_holes", "Those of the cursor with the most", sums.most_holes, labels)
    gauge(
        "mledger_cluster_cursors_near_range_limit",
        "Cursors with 80 % of the ranges that a record may have",
        sums.near_range_limit,
        labels,
    )
    gauge("mledger_cluster_untrimmed_ledgers", "Ledgers that nothing keeps", sums.untrimmed_ledgers, labels)
    gauge("mledger_cluster_untrimmed_bytes", "Payload bytes of them", sums.untrimmed_size, labels)
    gauge(
        "mledger_cluster_retention_without_effect",
        "Whether the namespace's retention keeps nothing, because one of its limits is 0",
        sums.retention_without_effect,
        labels,
    )


def _worst(families: Families, figures: ClusterFigures) -> None:
    for name, help_text, unit, worst in (
        ("backlog_entries", "Recorded entries not acknowledged, of the worst cursors", 1.0, figures.backlogs),
        ("backlog_age_seconds", "How long the oldest has waited at least, of the worst", _SECOND_MS, figures.ages),
        ("holes", "Ranges acknowledged above mark-delete, of the worst cursors", 1.0, figures.holes),
    ):
        for ranked in worst.worst_first():
            families.gauge(f"mledger_cluster_worst_{name}", help_text, ranked.value / unit, labels_of(ranked))


def labels_of(ranked: RankedCursor) -> dict[str, str]:
    """The labels of a cursor."""
    namespace, topic = "", ranked.managed_ledger
    try:
        found = TopicName.of_managed_ledger(ranked.managed_ledger)
        namespace, topic = found.namespace_name, str(found)
    except InvalidName:  # its name is shown as it is stored
        pass
    return {"namespace": namespace, "topic": topic, "subscription": ranked.cursor, "state": ranked.state}


def _records(families: Families, figures: ClusterFigures) -> None:
    gauge = families.gauge
    gauge("mledger_exporter_range_limit", "Ranges that a cursor's record may have", figures.range_limit)
    gauge("mledger_exporter_record_limit_bytes", "Bytes that a record may have", MAX_REQUEST_BYTES)
    for kind, sizes in figures.sizes.items():
        labels = {"kind": kind}
        gauge("mledger_cluster_largest_record_bytes", "Bytes of the largest record", sizes.largest, labels)
        gauge("mledger_cluster_records_near_limit", "Records near the limit of their size", sizes.near_limit, labels)
    for kind in ("topic", "cursor", "folder", "policies", "mark", "ledger"):
        gauge(
            "mledger_cluster_unreadable_records",
            "Records that do not parse or may not be read",
            figures.unreadable[kind],
            {"kind": kind},
        )


def _marks(families: Families, marks: ReplicationMarks, at_ms: int) -> None:
    gauge = families.gauge
    gauge("mledger_cluster_underreplicated_ledgers", "Ledgers marked as lacking replicas", marks.ledgers)
    waited_ms = 0 if marks.oldest_ms is None else max(0, at_ms - marks.oldest_ms)
    gauge("mledger_cluster_underreplicated_age_seconds", "Age of the oldest mark", waited_ms / _SECOND_MS)
    gauge("mledger_cluster_replicating_ledgers", "Ledgers that are being replicated", marks.replicating)
    gauge("mledger_cluster_autorecovery_enabled", "Whether auto-recovery is switched on", marks.enabled)
    for bookie, count in sorted(marks.missing.items()):
        gauge(
            "mledger_cluster_missing_replicas",
            "Marked ledgers whose replicas a bookie lacks",
            count,
            {"bookie": bookie},
        )


def _bookies(families: Families, bookies: BookieStates) -> None:
    for state, ids in (("writable", bookies.writable), ("read_only", bookies.read_only), ("missing", bookies.missing)):
        families.gauge("mledger_cluster_bookies", "Bookies, by state", len(ids), {"state": state})
        for bookie in ids:
            families.gauge("mledger_cluster_bookie", "A bookie and its state", 1, {"bookie": bookie, "state": state})


def _disks(families: Families, disks: Mapping[str, BookieInfo]) -> None:
    for bookie, disk in sorted(disks.items()):
        labels = {"bookie": bookie}
        families.gauge("mledger_cluster_bookie_disk_bytes", "Size of a bookie's disks", disk.total_bytes, labels)
        families.gauge("mledger_cluster_bookie_free_bytes", "Free on a bookie's disks", disk.free_bytes, labels)
