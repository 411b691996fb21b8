"""A bookie's metrics, under BookKeeper's names where it has them (monitoring.md), and its health."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from msgspec import Struct

from mledger.bookie.server.process.bookie import ServingBookie
from mledger.bookie.server.storage.directories.disk import Disk, fullest
from mledger.bookie.server.storage.journal import file_numbers, file_path
from mledger.metastore.runtime.durations import Durations
from mledger.metastore.runtime.exposition import Families, expose
from mledger.metastore.runtime.network.connection_limit import ConnectionLimit
from mledger.metastore.runtime.network.http import HttpRequest, HttpResponse, Route

_JOURNAL = {"journalIndex": "0"}
_OK = {"success": "true"}
_FAILED = {"success": "false"}


class BookieState(Struct, frozen=True):
    """A bookie's state as others see it."""

    registered: bool
    read_only: bool
    stopping: bool

    @property
    def ready(self) -> bool:
        """Whether clients can find it."""
        return self.registered and not self.stopping

    @property
    def server_status(self) -> int:
        """BookKeeper's status value: 1 writable, 0 read-only, -1 not registered."""
        return -1 if not self.registered else 0 if self.read_only else 1


class Files(Struct, frozen=True):
    """The journal's files: bytes of each by number, and the disk."""

    sizes: Mapping[int, int]
    disk: Disk


class BookieMetrics:
    """Answers HTTP requests for one bookie's metrics and health."""

    def __init__(
        self, bookie: ServingBookie, gate: ConnectionLimit, directory: str, state: Callable[[], BookieState]
    ) -> None:
        self._bookie, self._gate, self._directory, self._state = bookie, gate, directory, state

    def routes(self) -> dict[str, Route]:
        """The paths that are served; those of BookKeeper's own HTTP server among them."""
        return {
            "/metrics": self.metrics,
            "/health": self.health,
            "/heartbeat": self.heartbeat,
            "/api/v1/bookie/is_ready": self.is_ready,
            "/api/v1/bookie/state": self.state,
        }

    async def metrics(self, asked: HttpRequest) -> HttpResponse:
        """All metrics."""
        files = await asyncio.get_running_loop().run_in_executor(None, self._look)
        return expose(self._gather(files), asked)

    async def health(self, _: HttpRequest) -> HttpResponse:
        """200 while the bookie is registered, read-only or not; 503 otherwise."""
        state = self._state()
        said = {
            "status": "ok" if state.ready else "not registered",
            "read_only": state.read_only,
            "registered": state.registered,
            "stopping": state.stopping,
        }
        return _json(said, HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def heartbeat(self, _: HttpRequest) -> HttpResponse:
        """Answer that the process is alive."""
        return HttpResponse(b"OK\n")

    async def is_ready(self, _: HttpRequest) -> HttpResponse:
        """As BookKeeper's endpoint of that name: 200 or 503."""
        if self._state().ready:
            return HttpResponse(b"OK")
        return HttpResponse(b"Bookie is not ready", status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def state(self, _: HttpRequest) -> HttpResponse:
        """As BookKeeper's endpoint of that name."""
        state = self._state()
        return _json(
            {
                "running": True,
                "readOnly": state.read_only,
                "shuttingDown": state.stopping,
                "availableForHighPriorityWrites": not state.stopping,
            }
        )

    def _look(self) -> Files:
        path = self._bookie.journal_path
        sizes = {}
        for number in file_numbers(path):
            try:
                sizes[number] = os.stat(file_path(path, number)).st_size
            except FileNotFoundError:  # it was removed meanwhile
                continue
        return Files(sizes, fullest([path, self._directory]))

    def _gather(self, files: Files) -> Families:
        families = Families()
        self._serving(families)
        self._requests(families)
        self._journal(families)
        self._storage(families, files)
        return families

    def _serving(self, families: Families) -> None:
        state, gate = self._state(), self._gate
        families.gauge("bookie_SERVER_STATUS", "1 takes entries, 0 read-only, -1 not registered", state.server_status)
        families.gauge("mledger_bookie_connections", "Connections of clients", gate.inside)
        families.gauge("mledger_bookie_connections_limit", "Connections that there may be", gate.most)
        families.total("mledger_bookie_connections_refused", "Connections closed for being too many", gate.refused)

    def _requests(self, families: Families) -> None:
        counts = self._bookie.counters
        name, text = "bookkeeper_server_ADD_ENTRY", "Adds of entries, and ms from their arrival to their answer"
        families.milliseconds(name, text, counts.add_times, _OK)
        families.milliseconds(name, text, _counted(counts.adds_refused), _FAILED)
        families.seconds("mledger_bookie_add_seconds", "From an add's arrival to its answer", counts.add_times)
        families.original("bookie_WRITE_BYTES", "Bytes of add requests", counts.add_bytes)
        name, text = "bookkeeper_server_READ_ENTRY", "Reads; their times are not taken"
        families.milliseconds(name, text, _counted(counts.reads - counts.reads_refused), _OK)
        families.milliseconds(name, text, _counted(counts.reads_refused), _FAILED)
        families.original("bookie_READ_BYTES", "Bytes of answers to reads", counts.read_bytes)
        families.total("mledger_bookie_fences", "Ledgers fenced", counts.fences)
        families.total("mledger_bookie_fences_refused", "Fences refused, for a wrong password", counts.fences_refused)

    def _journal(self, families: Families) -> None:
        counts, turns = self._bookie.counters, self._bookie.turns
        labels = _JOURNAL | _OK
        families.milliseconds("bookie_journal_JOURNAL_SYNC", "ms of each sync of the journal", counts.syncs, labels)
        families.seconds("mledger_bookie_sync_seconds", "Of each sync of the journal", counts.syncs)
        families.milliseconds("bookie_journal_JOURNAL_FLUSH_LATENCY", "ms of each write to it", counts.writes, labels)
        families.original("bookie_journal_JOURNAL_WRITE_BYTES", "Bytes given to it", counts.journal_bytes, _JOURNAL)
        families.gauge("bookie_journal_JOURNAL_QUEUE_SIZE", "Adds accepted, not synced", turns.unsynced_adds, _JOURNAL)
        families.gauge("bookie_journal_JOURNAL_MEMORY_USED", "Their bytes", turns.unsynced_bytes, _JOURNAL)
        families.gauge("bookie_journal_JOURNAL_MEMORY_MAX", "Bytes of a full turn", turns.largest, _JOURNAL)
        families.gauge(
            "mledger_bookie_connections_waiting", "Not read from until a sync is done", turns.clients_waiting
        )
        families.gauge(
            "mledger_bookie_replayed_records", "Journal records replayed at the start", counts.replayed_records
        )
        families.gauge("mledger_bookie_replay_seconds", "How long the storage took to open", counts.replay_s)

    def _storage(self, families: Families, files: Files) -> None:
        garbage, live = self._bookie.counters.garbage, self._bookie.index.live
        current = self._bookie.turns.file
        needed = sum(max(live.get(number, 0), 0) for number in files.sizes if number < current)
        total = sum(size for number, size in files.sizes.items() if number < current)
        labels = {"ledgerDir": self._directory}
        usage = "bookie_ledger_dir_" + re.sub(r"[^a-zA-Z0-9_]", "_", self._directory) + "_usage"
        families.gauge(usage, "Percent of the disk in use", 100 * files.disk.used_share)
        families.gauge("mledger_bookie_disk_free_bytes", "Free on the fullest disk", files.disk.free)
        families.gauge("bookie_ledger_writable_dirs", "1 unless the disk is full", 0 if self._state().read_only else 1)
        families.gauge("bookie_ledgers_count", "Ledgers held, at the last collection", garbage.ledgers, labels)
        families.gauge("bookie_ACTIVE_ENTRY_LOG_TOTAL", "Journal files in use", len(files.sizes), labels)
        families.gauge("bookie_ACTIVE_ENTRY_LOG_SPACE_BYTES", "Their bytes", sum(files.sizes.values()), labels)
        families.gauge("mledger_bookie_live_bytes", "Bytes of files written full that entries need", needed)
        families.gauge("mledger_bookie_garbage_bytes", "Bytes of files written full that nothing needs", total - needed)
        families.original("bookie_DELETED_LEDGER_TOTAL", "Ledgers deleted", garbage.ledgers_deleted, labels)
        families.original("bookie_MAJOR_COMPACTION_TOTAL", "Files emptied", garbage.files_emptied, labels)
        families.original("bookie_RECLAIMED_DELETION_SPACE_BYTES", "Bytes given back", garbage.bytes_reclaimed, labels)
        families.milliseconds("bookie_THREAD_RUNTIME", "ms of each collection", garbage.times, labels | _OK)
        families.gauge(
            "mledger_bookie_damaged_files", "Journal files kept because they cannot be read", garbage.damaged_files
        )
        damaged = int(self._bookie.index.damaged)
        families.gauge("mledger_bookie_index_damaged", "1: the index has a damaged block", damaged)
        families.total("mledger_bookie_collections_failed", "Collections that failed", garbage.failures)


def _counted(count: int) -> Durations:
    """`count` observations whose times are not known."""
    times = Durations()
    times.count = count
    return times


def _json(said: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(json.dumps(said).encode() + b"\n", "application/json", status)
