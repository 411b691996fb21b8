"""A bookie without its surroundings: journal, store and turns over one directory, replayed at the start."""

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace

from bookie import wire
from bookie.errors import InvalidBookieDirectory
from bookie.server.auth import AuthFactory
from bookie.server.connection import Connection
from bookie.server.directory import Directory
from bookie.server.journal import Journal, ReplayPlan, journal_files, plan_replay, replay, scan_file
from bookie.server.ledgers import Ledgers, plan_spans
from bookie.server.store import LedgerRecord, Store, StoreConfig
from bookie.server.turn import Turns

log = logging.getLogger(__name__)

_REPLAY_COMMIT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class BookieConfig:
    """Sizes in bytes."""

    journal_file_bytes: int = 64 << 20
    max_frame: int = wire.MAX_FRAME
    store: StoreConfig = field(default_factory=StoreConfig)


class Bookie:
    """The storage of one directory, serving connections. Lives on the running loop."""

    def __init__(
        self, directory: Directory, config: BookieConfig | None = None, auth: AuthFactory | None = None
    ) -> None:
        """Open the directory and replay its journal. CorruptJournal, InvalidBookieDirectory."""
        self._config, self._auth = config or BookieConfig(), auth
        if directory.format is None:
            raise InvalidBookieDirectory(f"{directory.path}: not begun")
        salt = directory.format.salt
        directory.make_journal()
        started = time.monotonic()
        scans = [scan_file(path, salt) for path in journal_files(directory.journal)]
        self.store = Store(directory.store, self._config.store)
        try:
            plan = plan_replay(scans, max(self.store.sequence, 1))
            records = self._replay(plan, salt)
        except BaseException:
            self.store.close()
            raise
        if records:
            log.info("event=journal_replayed first=%d last=%d records=%d", plan.first, plan.last, records)
        journal = Journal(directory.journal, salt, self._config.journal_file_bytes)
        journal.open()
        self._journal = journal
        self.turns = Turns(self.store, journal, plan.last + 1, self._config.max_frame)
        log.info("event=storage_open seconds=%.3f next_sequence=%d", time.monotonic() - started, plan.last + 1)

    def connection(self) -> Connection:
        """The protocol of a new connection."""
        return Connection(self.turns, self._config.max_frame, self._auth)

    async def serve(self, host: str, port: int) -> asyncio.Server:
        """Listen; OSError when the port is taken."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(self.connection, host, port, backlog=1024)

    async def close(self) -> None:
        """Answer what was accepted, write everything out, and close."""
        await self.turns.close()
        self.turns.settle(final=True)
        await asyncio.get_running_loop().run_in_executor(None, self.store.flush)
        self._journal.close()
        self.store.close()

    def _replay(self, plan: ReplayPlan, salt: bytes) -> int:
        """Apply the journal's records to the store, and have it flush them, so that every journal file is free."""
        ledgers, records, size = Ledgers(self.store), 0, 0
        for sequence, frames in replay(plan, salt):
            self._apply(ledgers, frames)
            records, size = records + 1, size + len(frames)
            if size >= _REPLAY_COMMIT_BYTES:
                self.store.commit(sequence)
                size = 0
        if self.store.dirty or self.store.sequence != plan.last + 1:
            self.store.commit(plan.last + 1)
            self.store.flush()
        return records

    def _apply(self, ledgers: Ledgers, frames: bytes) -> None:
        """Apply one record: it was accepted once, so nothing is checked again, and what is there already is left."""
        scan = wire.scan(frames, 0, len(frames), len(frames))
        for request in scan.requests:
            if isinstance(request, wire.AddRun):
                self._apply_adds(ledgers, frames, request)
            else:
                read = wire.decode_read(frames[request.start : request.end])
                state = ledgers.get(read.ledger)
                state.record = replace(state.record or LedgerRecord(read.master_key), fenced=True)
                self.store.put_ledger(read.ledger, state.record)

    def _apply_adds(self, ledgers: Ledgers, frames: bytes, run: wire.AddRun) -> None:
        state = ledgers.get(run.ledger)
        if state.record is None:
            state.record = LedgerRecord(run.master_key)
            self.store.put_ledger(run.ledger, state.record)
        for span in plan_spans(state.highest, run):
            value = frames[run.starts[span.first] : run.starts[span.last]]
            entry = int(run.entries[span.first])
            if not span.repeated:
                self.store.put_run(run.ledger, entry, value)
            elif not self._holds(run.ledger, entry, value):
                self.store.put_repeat(run.ledger, entry, value)
        state.highest = max(state.highest, int(run.entries.max()))

    def _holds(self, ledger: int, entry: int, frame: bytes) -> bool:
        """Whether a flush before the crash kept this very frame."""
        run = self.store.run_at(ledger, entry)
        index = -1 if run is None else run.index(entry)
        return run is not None and index >= 0 and run.frame(index) == frame and self.store.repeat(ledger, entry) is None
