"""Group commit: what came in becomes one journal record, one sync, one batch for the store, and then all answers.

- Q8 A response to an add follows the sync of the bytes it answers, and the store can return the entry by then.
- Q7 A fence takes its place in the order of adds; the answer to a fencing read waits until every add accepted before it
  and the fence mark are synced, and sees those adds.
- What arrives during a sync is the next turn's: there is no timer.
"""

import asyncio
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from bookie import wire
from bookie.errors import Code
from bookie.server.journal import Journal
from bookie.server.ledgers import Ledgers, LedgerState, check_add, check_fence, plan_spans
from bookie.server.reads import Parts, Reader
from bookie.server.store import LedgerRecord, Store

log = logging.getLogger(__name__)

LARGEST_TURN = 8 << 20
"""Bytes after which a turn takes from no further connection."""

EXIT_JOURNAL_FAILED = 74
_TURNS_BETWEEN_LOOKS = 16
_FULL_FILES_BEFORE_FLUSH = 2


class Client(Protocol):
    """Who gets answers: a connection."""

    def send(self, parts: Parts) -> None:
        """Write responses; nothing happens when the connection is gone."""

    def take(self) -> None:
        """Go on with the requests that waited for the turn."""


@dataclass(slots=True)
class Turn:
    """What one record of the journal will hold, and whom to answer when it is synced."""

    sequence: int
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    answers: dict[Client, Parts] = field(default_factory=dict)

    def answer(self, client: Client, parts: Parts) -> None:
        """Have `parts` sent to `client` after the sync."""
        waiting = self.answers.get(client)
        if waiting is None:
            self.answers[client] = parts
        else:
            waiting += parts

    def keep(self, chunk: bytes) -> None:
        """Have frames written to the journal."""
        self.chunks.append(chunk)
        self.size += len(chunk)


class JournalThread(threading.Thread):
    """Writes turns, one after the other. A failed write or sync ends the process: what is durable is not known then."""

    def __init__(self, journal: Journal, synced: Callable[[], None]) -> None:
        super().__init__(name="journal", daemon=True)
        self._journal, self._synced = journal, synced
        self._turns: queue.SimpleQueue[tuple[Turn, int] | None] = queue.SimpleQueue()

    def submit(self, turn: Turn, first_needed: int) -> None:
        """Write a turn; journal files wholly below record `first_needed` may be used again."""
        self._turns.put((turn, first_needed))

    def stop(self) -> None:
        """End after what was submitted is written."""
        self._turns.put(None)
        self.join()

    def run(self) -> None:
        """Write what is submitted until stopped."""
        while (work := self._turns.get()) is not None:
            turn, first_needed = work
            try:
                if first_needed:
                    self._journal.recycle(first_needed)
                self._journal.append(turn.sequence, turn.chunks)
            except BaseException as error:
                log.critical("event=journal_failed sequence=%d error=%r", turn.sequence, str(error), exc_info=True)
                logging.shutdown()
                os._exit(EXIT_JOURNAL_FAILED)
            self._synced()


class Turns:
    """Accepts adds and fences, and answers them when they are durable. Lives on the loop."""

    def __init__(self, store: Store, journal: Journal, sequence: int, max_frame: int = wire.MAX_FRAME) -> None:
        """`sequence` is the first record to write."""
        self._loop = asyncio.get_running_loop()
        self._store, self._journal = store, journal
        self.ledgers = Ledgers(store)
        self.reader = Reader(store, max_frame)
        self.read_only = False
        self._open = Turn(sequence)
        self._flying: Turn | None = None
        self._synced = sequence - 1
        self._scheduled = False
        self._waiting: deque[Client] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._first_needed = self._looked_at = 0
        self._flush: asyncio.Future[None] | None = None
        self._thread = JournalThread(journal, self._wake)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether adds have to wait: a sync is under way, or the open turn is full."""
        return self._flying is not None or self._open.size >= LARGEST_TURN

    def wait(self, client: Client) -> None:
        """Have `client.take()` called when adds are taken again."""
        self._waiting.append(client)

    def add(self, client: Client, buffer: bytearray, run: wire.AddRun) -> None:
        """Take the adds of a run from a receive buffer, or refuse them."""
        if run.entries[0] < 0 or run.entries.min() < 0:
            self._add_checked(client, buffer, run)
            return
        state = self.ledgers.get(run.ledger)
        code = check_add(state, run, read_only=self.read_only)
        if code:
            self._refuse(client, run, code)
            return
        self._accept(state, buffer, run)
        self._open.answer(client, [wire.add_responses(run)])
        self._schedule()

    def _add_checked(self, client: Client, buffer: bytearray, run: wire.AddRun) -> None:
        """Refuse negative entry ids, take the others one by one."""
        for index in range(len(run)):
            single = run.part(index, index + 1)
            if single.entries[0] < 0:
                self._refuse(client, single, Code.BAD_REQUEST)
            else:
                self.add(client, buffer, single)

    def _refuse(self, client: Client, run: wire.AddRun, code: Code) -> None:
        log.warning("event=add_refused ledger=%d entry=%d count=%d code=%d", run.ledger, run.entries[0], len(run), code)
        client.send([wire.add_responses(run, code)])

    def _accept(self, state: LedgerState, buffer: bytearray, run: wire.AddRun) -> None:
        turn, store, view = self._open, self._store, memoryview(buffer)
        if state.record is None:
            state.record = LedgerRecord(run.master_key)
            store.put_ledger(run.ledger, state.record)
        for span in plan_spans(state.highest, run):
            frames = bytes(view[run.starts[span.first] : run.starts[span.last]])
            turn.keep(frames)
            entry = int(run.entries[span.first])
            if span.repeated:
                store.put_repeat(run.ledger, entry, frames)
                state.repeats = True
            else:
                store.put_run(run.ledger, entry, frames)
        state.highest = max(state.highest, int(run.entries.max()))
        state.turn = turn.sequence

    def read(self, client: Client, request: wire.ReadRequest, frame: bytes) -> None:
        """Answer a read; a fencing one when the fence and all adds before it are durable (Q7)."""
        state = self.ledgers.get(request.ledger)
        if request.fencing and request.ledger >= 0 and request.version <= wire.VERSION:
            code = check_fence(state, request.master_key)
            if code:
                log.warning("event=fence_refused ledger=%d code=%d", request.ledger, code)
                client.send([request.refusal(code)])
                return
            self._fence(state, request.master_key, frame)
        self.settle()
        parts = self.reader.answer(state, request)
        if not request.fencing or state.turn <= self._synced:
            client.send(parts)
        elif state.turn == self._open.sequence:
            self._open.answer(client, parts)
        elif self._flying is not None:
            self._flying.answer(client, parts)

    def _fence(self, state: LedgerState, master_key: bytes, frame: bytes) -> None:
        if state.record is not None and state.record.fenced:
            return
        state.record = replace(state.record or LedgerRecord(master_key), fenced=True)
        log.info("event=ledger_fenced ledger=%d highest=%d", state.ledger, state.highest)
        self._store.put_ledger(state.ledger, state.record)
        self._open.keep(frame)
        state.turn = self._open.sequence
        self._schedule()

    def settle(self, *, final: bool = False) -> None:
        """Let the store return everything that was accepted; `final`: have nothing replayed at the next start."""
        if self._store.dirty or final:
            self._store.commit(self._open.sequence)

    def delete(self, ledger: int) -> None:
        """Forget a ledger that the metadata store no longer has."""
        self.settle()
        self._store.delete_ledger(ledger)
        self._store.commit(self._open.sequence)
        self.ledgers.forget(ledger)

    async def drain(self) -> None:
        """Return when everything accepted is durable and answered."""
        await self._idle.wait()
        if self._flush is not None:
            await asyncio.wait([self._flush])

    async def close(self) -> None:
        """Drain, then end the journal's thread."""
        await self.drain()
        self._thread.stop()

    def _schedule(self) -> None:
        self._idle.clear()
        if self._flying is None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._seal)

    def _seal(self) -> None:
        """Hand the open turn to the journal, and to the store while the journal syncs."""
        self._scheduled = False
        turn = self._open
        if self._flying is not None or not turn.chunks:
            return
        self._flying, self._open = turn, Turn(turn.sequence + 1)
        self._thread.submit(turn, self._first_needed)
        self._first_needed = 0
        if self._store.dirty:
            self._store.commit(turn.sequence)

    def _wake(self) -> None:
        """On the journal's thread: the turn under way is synced."""
        self._loop.call_soon_threadsafe(self._done)

    def _done(self) -> None:
        """The turn under way is durable: answer it, take what waited, and go on."""
        turn, self._flying = self._flying, None
        if turn is None:
            return
        self._synced = turn.sequence
        for client, parts in turn.answers.items():
            client.send(parts)
        for _ in range(len(self._waiting)):
            if self.busy:
                break
            self._waiting.popleft().take()
        self._look_after_journal(turn.sequence)
        if self._open.chunks:
            self._seal()
        else:
            self.ledgers.shrink(self._synced)
            self._idle.set()

    def _look_after_journal(self, sequence: int) -> None:
        """Find what the store has flushed, and have it flush when the journal fills first."""
        full = self._journal.full_files
        if not full or sequence - self._looked_at < _TURNS_BETWEEN_LOOKS:
            return
        self._looked_at = sequence
        self._first_needed = self._store.flushed_sequence()
        if full >= _FULL_FILES_BEFORE_FLUSH and self._flush is None:
            started = time.monotonic()
            self._flush = self._loop.run_in_executor(None, self._store.flush)
            self._flush.add_done_callback(lambda done: self._flushed(done, started))

    def _flushed(self, done: "asyncio.Future[None]", started: float) -> None:
        self._flush = None
        log.info("event=store_flushed seconds=%.3f", time.monotonic() - started)
        if done.exception() is not None:
            log.critical("event=store_flush_failed error=%r", str(done.exception()))
            logging.shutdown()
            os._exit(EXIT_JOURNAL_FAILED)
