"""A bookie's storage, opened and served: journal, index and turns over one directory, replayed at the start."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from tempfile import TemporaryDirectory

from msgspec import Struct, field
from msgspec.structs import replace

from mledger.bookie import wire
from mledger.bookie.errors import InvalidBookieDirectory
from mledger.bookie.server.process.lost_ledgers import LostLedgers
from mledger.bookie.server.serving.auth import AuthFactory
from mledger.bookie.server.serving.connection import Connection
from mledger.bookie.server.serving.counters import Counters
from mledger.bookie.server.serving.entry_lists import EntryLists
from mledger.bookie.server.serving.group_commit import LARGEST_TURN, GroupCommit
from mledger.bookie.server.serving.receive_room import FRAMES, MOST_BYTES, ReceiveRoom
from mledger.bookie.server.serving.version3_service import Version3Service
from mledger.bookie.server.storage.directories.directory import BookieDirectory
from mledger.bookie.server.storage.directories.directory_parts import (
    cut_files,
    missing_files,
    older_journal,
    plan_cut_files,
    plan_missing_files,
)
from mledger.bookie.server.storage.directories.disk import (
    LARGEST_COMPACTION,
    LITTLE_BYTES,
    Disk,
    Reserve,
    damage_named,
    disk_of,
    fullest,
    plan_compacting,
    plan_flushing,
    plan_index_room,
    says_full,
)
from mledger.bookie.server.storage.directories.journal_files import free_bytes, release_half
from mledger.bookie.server.storage.journal import (
    Journal,
    ReplayPlan,
    file_numbers,
    file_size,
    has_reached,
    make_durable,
    plan_continued,
    plan_replay,
    scan_file,
)
from mledger.bookie.server.storage.reads import JournalReader
from mledger.bookie.server.storage.records.replay import replay
from mledger.bookie.server.storage.rows.index import Index
from mledger.bookie.server.storage.rows.index_options import IndexConfig, remove_spare_files, unwritten_of
from mledger.bookie.server.storage.rows.ledger_data import NOT_BEGUN, LedgerData
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.connection_limit import ConnectionLimit
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates

log = get_logger(__name__)

_THREADS = 4
_TURNS_A_FILE = 8
"""A turn has at most this part of a journal file: of those accepted before the last file is taken on a full disk, all
must fit it, and leave room for fences and for the next start."""


class BookieConfig(Struct, frozen=True):
    """Sizes in bytes; `sync`: an entry is on the disk when it is acknowledged (Q8).

    `write_on_loop`: small turns are written on the loop while the disk is quick. For a bookie whose loop has all of its
    clients: while one waits for the disk, the others do.
    """

    journal_file_bytes: int = 64 << 20
    max_frame: int = wire.MAX_FRAME
    index: IndexConfig = field(default_factory=IndexConfig)
    turn_bytes: int = LARGEST_TURN
    sync: bool = True
    write_on_loop: bool = False


class ServingBookie:
    """The storage of one directory, serving connections. Lives on the running loop."""

    def __init__(
        self,
        directory: BookieDirectory,
        config: BookieConfig | None = None,
        auth: AuthFactory | None = None,
        gate: ConnectionLimit | None = None,
        tls: RenewedCertificates | None = None,
    ) -> None:
        """Open the directory and replay its journal.

        Of an unserved directory the caller notes first what a former one may have held (`note_lost`), calls
        `directory.finish` then, and serves afterwards.

        Raises CorruptJournal, InvalidBookieDirectory.
        """
        config = config or BookieConfig()
        self._config, self._auth, self._gate, self._tls = config, auth, gate, tls
        if directory.format is None:
            raise InvalidBookieDirectory(f"{directory.path}: not initialised as a bookie's directory")
        self._directory = directory.path
        self.salt, self.journal_path, started = directory.format.salt, directory.journal, time.monotonic()
        with damage_named(directory.path):
            self._reserve = Reserve(directory.path, config.index.reserve_bytes)
            directory.check_parts()
            directory.make_journal()
            self._reserve.tend(keep=False)  # one that a former start released under a quota stays so for this one
            self.index = self._open_index(directory)
            self.index.make_room = partial(self._reserve.tend, keep=False)
            try:
                directory.keep_parts()
                plan, records, unused = self._replay(directory)
                if not directory.unserved:
                    directory.finish()
            except BaseException as error:
                self._give_up(error)
                raise
        self._served: set[Connection] = set()
        self._room = ReceiveRoom(max(MOST_BYTES, FRAMES * config.max_frame))
        self.threads = ThreadPoolExecutor(_THREADS, "storage")
        """For work on many rows of the index, or on its flush, off the loop: `close` waits for it."""
        path, turn = self.journal_path, min(config.turn_bytes, config.journal_file_bytes // _TURNS_A_FILE)
        self._files = JournalReader(path)
        self.turns = GroupCommit(
            self.index, self._journal, self._files, plan.last + 1, config.max_frame, turn, on_loop=config.write_on_loop
        )
        self._service = Version3Service(
            self.turns, EntryLists(self.index, path), partial(fullest, (path, directory.path)), config.max_frame
        )
        self.counters.replayed_records, self.counters.replay_s = records, time.monotonic() - started
        self.turns.recycle(unused)
        self.tend_reserves()
        log.info("storage_open", seconds=round(time.monotonic() - started, 3), next_sequence=plan.last + 1)

    def _open_index(self, directory: BookieDirectory) -> Index:
        """Open the index. Where there is little room, RocksDB's own log goes elsewhere until the process ends."""
        config, make = self._config.index, not directory.complete
        little = free_bytes(directory.path) < LITTLE_BYTES
        with contextlib.ExitStack() as stack:
            while True:
                if little and remove_spare_files(directory.index):
                    with contextlib.suppress(OSError):  # there may be no room elsewhere
                        config = replace(config, logs=stack.enter_context(TemporaryDirectory(prefix="mledger-")))
                try:
                    return Index(directory.index, config, make=make)
                except Exception as error:  # RocksDB's have no class of their own
                    if not says_full(error):
                        raise
                    if not self._release_room():
                        if little:
                            raise
                        little = True

    def _release_room(self) -> bool:
        """Release space for the index, also of the journal's where that is on the same disk; False if none is left."""
        if self._reserve.release():
            return True
        path = self.journal_path
        return self._reserve.is_on_disk_of(path) and release_half(path, self._config.journal_file_bytes)

    def _give_up(self, error: BaseException) -> None:
        """Leave the next start what it needs after one that `error` ended; what else fails here is only logged.

        The space goes first: to close the index flushes it, which fails again where a disk is full.
        """
        for step in (self._release_room, self.index.close) if says_full(error) else (self.index.close,):
            try:
                step()
            except Exception as failed:  # RocksDB's have no class of their own
                log.warning("start_not_undone", directory=self._directory, error=failed)

    def _replay(self, directory: BookieDirectory) -> tuple[ReplayPlan, int, list[int]]:
        """Bring the index up to the journal's end and open a file to write to; records replayed, files without any.

        Q10: only durable bytes of the journal are read.
        """
        index, path, salt = self.index, self.journal_path, self.salt
        numbers = file_numbers(path)
        missing = plan_missing_files(numbers, index.live, index.file, complete=directory.complete)
        if missing:
            raise missing_files(directory.path, path, missing)
        behind = [number for number in numbers if number >= index.file]
        sizes = index.file_sizes()
        cut = plan_cut_files({number: file_size(path, number) for number in behind}, sizes)
        if cut and directory.complete:
            raise cut_files(directory.path, path, cut)
        make_durable(path, behind)
        scans = [scan_file(path, number, salt) for number in behind]
        plan = plan_replay(scans, max(index.sequence, 1))
        known = directory.complete and index.file in sizes  # former versions may have noted another file
        if known and not has_reached(scans, index.sequence, index.file, index.live):
            raise older_journal(directory.path, path, index.file, index.sequence - 1)
        records = replay(index, path, salt, plan)
        if records:
            log.info("journal_replayed", first=plan.first, last=plan.last, records=records)
        if not directory.complete:
            index.recount()  # former versions also counted replaced repeats
        needed = partial(self._reserve.needed_of, path)
        size, sync = self._config.journal_file_bytes, self._config.sync
        self._journal = Journal(path, salt, size, max(numbers, default=0), needed, sync=sync)
        self._journal.open(plan_continued(scans, plan.last, index.live))
        index.note_size(self._journal.current, self._journal.size)
        index.commit(plan.last + 1, self._journal.current)
        index.flush()  # from here on, replay needs no file before the current one
        live, current = index.live, self._journal.current
        empty = [scan.file for scan in scans if not scan.first and scan.file < current]
        return plan, records, [file for file in empty if live.get(file, 0) <= 0]

    async def note_lost(self, lost: LostLedgers) -> None:
        """Note durably the ledgers of which entries and fences may be lost, before anything is served.

        Raises:
            BookieError: as of `damage_named`, the index cannot be written.
        """
        index, loop = self.index, asyncio.get_running_loop()
        with damage_named(self._directory):
            index.put_ledgers(_lacking(index))
            index.put_ledgers(_with_known(index, lost))
            index.keep_known_from(lost.known_from)
            await loop.run_in_executor(self.threads, index.flush)

    @property
    def counters(self) -> Counters:
        """The counts since the bookie was opened."""
        return self.turns.counters

    @property
    def journal_file_bytes(self) -> int:
        """The size of a journal file."""
        return self._config.journal_file_bytes

    @property
    def files(self) -> JournalReader:
        """Reads the journal's files."""
        return self._files

    def connection(self) -> Connection:
        """The protocol of a new connection."""
        known = self._auth, self._gate, self._tls, self._served, self._room
        return Connection(self.turns, self._service, self._config.max_frame, *known)

    def disk_left(self, path: str) -> Disk:
        """The disk of `path`, without the bytes that should be reserved on it for the index and are not. OSError."""
        disk = disk_of(path)
        return replace(disk, free=max(disk.free - self._reserve.needed_of(path), 0))

    def may_compact(self, largest: int) -> bool:
        """Whether the index is whole, and its disk has room for compactions of `largest` bytes at most. OSError."""
        if self.index.damaged or self._reserve.refused:
            return False
        return plan_compacting(free_bytes(self._directory), self._reserve.missing, self.index.size, largest)

    def tend_reserves(self) -> None:
        """Reserve space for the time when a disk is full, where there is room; release it where the disk is full.

        The journal reserves nothing of what was released for the index. The index is compacted while there is room for
        that. While there is none to flush it, the journal begins no other file, after which it would be flushed.
        """
        self._reserve.tend()
        flushing = plan_flushing(
            free_bytes(self._directory), self._reserve.missing, unwritten_of(self.index.families())
        )
        self._journal.index_room = None if flushing else self._index_room
        self.index.keep_compacted(self.may_compact(LARGEST_COMPACTION))
        free = free_bytes(self.journal_path) - self._reserve.needed_of(self.journal_path)
        if free >= 3 * self.journal_file_bytes:
            self.turns.keep_reserve()

    def _index_room(self) -> int:
        """Bytes that the journal may take before the index is flushed."""
        return plan_index_room(unwritten_of(self.index.families()), self._config.index.memtable_bytes)

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Listen; OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self.connection, host, port, backlog=1024)

    def cut_off(self) -> None:
        """End all connections without another answer, and refuse new ones: this directory is not the bookie's any more.

        What it acknowledged would be sought elsewhere.
        """
        if self._gate is not None:
            self._gate.most = 0
        for connection in list(self._served):
            connection.abort()

    async def close(self) -> None:
        """Answer all accepted requests, end the connections, flush the index, and close."""
        await self.turns.close()
        for connection in list(self._served):
            connection.end()
        loop = asyncio.get_running_loop()
        # A cancelled collection may still have a thread at work; the index cannot be closed before that ends.
        await loop.run_in_executor(None, partial(self.threads.shutdown, cancel_futures=True))
        await loop.run_in_executor(None, self.index.flush)
        self._journal.close()
        self._files.close()
        self.index.close()


def _lacking(index: Index) -> Iterator[tuple[int, LedgerData]]:
    """The records that an older copy of the directory has, each of which may lack what came later."""
    for ledger in index.ledger_ids():
        if (known := index.ledger(ledger)) is not None:
            lacking = replace(known, lacking=True, whole_from=NOT_BEGUN)
            if lacking != known:
                yield ledger, lacking


def _with_known(index: Index, lost: Iterable[tuple[int, LedgerData]]) -> Iterator[tuple[int, LedgerData]]:
    """The records of lost ledgers; an older copy of the directory knows some, and their fences and keys stay."""
    for ledger, record in lost:
        known = index.ledger(ledger)
        if known is not None:
            fenced, limbo = known.fenced or record.fenced, known.limbo or record.limbo
            record = replace(known, fenced=fenced, limbo=limbo)
        yield ledger, record
