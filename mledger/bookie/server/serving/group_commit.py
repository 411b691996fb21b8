"""Group commit: the requests of a turn become one journal record, one sync, one index batch, and then all answers.

- Q8 A response to an add follows the sync of its bytes; by then the entry can be read.
- Q7 A fence takes its place in the order of adds. The answer to a fencing read waits until the fence and every add
  accepted before it are synced, and reflects those adds.
- Requests that arrive during a sync belong to the next turn: there is no timer.
- A change of memory and of the open turn is made as a whole. An error half way, such as a lack of memory, ends the
  process: otherwise a fence that is in memory only would later be answered as durable.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mledger.bookie import request_frames, wire
from mledger.bookie.errors import Code, IndexUnreadable
from mledger.bookie.server.serving.cold_reads import ColdReads
from mledger.bookie.server.serving.counters import Counters
from mledger.bookie.server.serving.index_flushes import IndexFlushes
from mledger.bookie.server.serving.long_polls import LongPolls
from mledger.bookie.server.storage.journal import BLOCK, MOVED, Journal, JournalPosition
from mledger.bookie.server.storage.journal_thread import JournalThread, end_process
from mledger.bookie.server.storage.ledgers import (
    MOST_LEDGERS,
    NO_ENTRY,
    LedgerDescriptor,
    Ledgers,
    PendingRun,
    RequestSpan,
    Sighting,
    check_add,
    check_master_key,
    explicit_confirmed,
    plan_spans,
)
from mledger.bookie.server.storage.loop_writes import LoopWrites
from mledger.bookie.server.storage.reads import JournalReader, Parts, Reader
from mledger.bookie.server.storage.records.journal_changes import ChangeKind, enter
from mledger.bookie.server.storage.records.journal_record import Client, JournalTurn
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.bookie.server.storage.rows.ledger_data import LedgerData
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

LARGEST_TURN = 8 << 20
"""Bytes after which a turn takes no further connection's adds; this limits what is accepted and not synced."""

_NO_ERROR = bytes(4)
_LEAST_ROOM = 8 * BLOCK
_ROOM_LOOK_S = 0.01


class GroupCommit:
    """Accepts adds and fences, and answers them once they are durable. Lives on the loop."""

    def __init__(
        self,
        index: Index,
        journal: Journal,
        files: JournalReader,
        sequence: int,
        max_frame: int = wire.MAX_FRAME,
        largest: int = LARGEST_TURN,
        on_loop: bool = False,
    ) -> None:
        """`sequence`: the first record; `largest`: bytes after which a turn takes no adds; `on_loop`: by LoopWrites."""
        self._loop = asyncio.get_running_loop()
        self.counters = Counters()
        self.largest = largest
        self._journal, self._index, self._files = journal, index, files
        self.ledgers = Ledgers(index, MOST_LEDGERS)
        self.reader = Reader(index, files, max_frame)
        self.long_polls = LongPolls(self._loop)
        self.cold_reads = ColdReads(files)
        self.read_only = False
        self.given_back: set[int] = set()
        """Files handed to the journal's thread, which may still exist. Numbers are never reused."""
        self._sequence = sequence
        self._open = JournalTurn()
        self._flying: JournalTurn | None = None
        self._moves: deque[JournalTurn] = deque()
        self._scheduled = False
        self._waiting: deque[Client] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._file = journal.current
        self.flushes = IndexFlushes(index)
        self._moved_last = self._closing = False
        self._thread = (LoopWrites if on_loop else JournalThread)(journal, self._wake)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether adds must wait: a sync is in progress, the open turn is full, or the bookie is stopping."""
        return self._flying is not None or self._open.size >= self.largest or self._closing

    @property
    def unsynced_bytes(self) -> int:
        """Bytes accepted and not synced yet."""
        return self._open.size + (self._flying.size if self._flying is not None else 0)

    @property
    def unsynced_adds(self) -> int:
        """Adds accepted and not synced yet."""
        return self._open.adds + (self._flying.adds if self._flying is not None else 0)

    @property
    def sync_s(self) -> float:
        """How long the record in progress has taken; 0 if there is none."""
        return self._loop.time() - self._flying.flown_at if self._flying is not None else 0.0

    @property
    def clients_waiting(self) -> int:
        """Connections that are not read from until adds are accepted again."""
        return len(self._waiting)

    @property
    def file(self) -> int:
        """The number of the journal file that was written last."""
        return self._file

    def owed(self, client: Client) -> int:
        """Bytes of answers that wait for the sync of the open turn or of the one in progress."""
        flying = self._flying.owed.get(client, 0) if self._flying is not None else 0
        return self._open.owed.get(client, 0) + flying

    @property
    def full(self) -> bool:
        """Whether the disk has no room for another journal file; the rest of the current file is kept for fences."""
        return self._journal.last_room is not None

    def _change_refused(self) -> Code:
        """Why no ledger's record can be changed now: the disk is full and its reserve is used up."""
        room = self._journal.last_room
        fits = room is None or self._accepted() + _LEAST_ROOM <= room
        return Code.OK if fits else Code.IO_ERROR

    def _accepted(self) -> int:
        """The most bytes that the journal gets of what is accepted and not synced: turns, and moves that wait."""
        flying = self._flying.size if self._flying is not None else 0
        return flying + sum(turn.most_size + BLOCK for turn in (self._open, *self._moves))

    def keep_reserve(self) -> None:
        """Reserve a journal file for the time when the disk is full."""
        self._thread.keep_reserve()

    def wait(self, client: Client) -> None:
        """Call `client.take()` when adds are accepted again."""
        self._waiting.append(client)

    def add(self, client: Client, buffer: bytes | bytearray, run: request_frames.AddRun) -> None:
        """Accept the adds of a run from a receive buffer, or refuse them."""
        if run.lowest < 0:
            self._add_one_by_one(client, buffer, run)
            return
        try:
            state = self.ledgers.get(run.ledger)
        except IndexUnreadable:
            self._refuse(client, run, Code.IO_ERROR)
            return
        code = Code.READ_ONLY if self.full else check_add(state, run, read_only=self.read_only)
        if code:
            self._refuse(client, run, code)
            return
        view = memoryview(buffer)
        spans = [
            (span, bytes(view[run.starts[span.first] : run.starts[span.last]]))
            for span in plan_spans(state.highest, run)
        ]
        responses = run.responses()
        try:
            self._accept(state, run, spans)
            self._open.answer(client, [responses])
            self._schedule()
        except BaseException as error:
            end_process("turn_failed", error)
        if state.confirmed is not None or self.long_polls:
            self.confirm(state, run.last_confirmed(buffer))

    def _add_one_by_one(self, client: Client, buffer: bytes | bytearray, run: request_frames.AddRun) -> None:
        """Refuse negative entry ids and accept the others."""
        for number in range(len(run)):
            single = run.part(number, number + 1)
            if single.entries[0] < 0:
                self._refuse(client, single, Code.BAD_REQUEST)
            else:
                self.add(client, buffer, single)

    def _refuse(self, client: Client, run: request_frames.AddRun, code: Code) -> None:
        self.counters.adds_refused += len(run)
        log.warning("add_refused", ledger=run.ledger, entry=run.entries[0], count=len(run), code=code)
        client.send([run.responses(code)])

    def _accept(
        self, state: LedgerDescriptor, run: request_frames.AddRun, spans: Sequence[tuple[RequestSpan, bytes]]
    ) -> None:
        turn = self._open
        if (record := state.keyed(run.master_key, run)) is not state.record:
            state.record = record
            turn.changed[run.ledger] = state
        for span, frames in spans:
            first, last = int(run.entries[span.first]), int(run.entries[span.last - 1])
            turn.keep(ChangeKind.REPEAT if span.repeated else ChangeKind.RUN, run.ledger, first, last, frames)
            turn.add_bytes += len(frames)
            state.pending.append(PendingRun(first, last, frames, span.repeated))
            turn.states.append(state)
            state.repeats = state.repeats or span.repeated
        state.highest = max(state.highest, run.highest)
        state.commit = turn
        turn.adds += len(run)

    def read(self, client: Client, request: wire.ReadRequest) -> None:
        """Answer a read; a fencing one when the fence and all adds before it are durable (Q7)."""
        try:
            state = self.ledgers.get(request.ledger)
        except IndexUnreadable:
            client.send([request.refusal(Code.IO_ERROR)])
            return
        fencing = request.fencing and request.ledger >= 0 and request.version <= wire.VERSION
        if fencing:
            code = self.fence(state, request.master_key)
            if code:
                client.send([request.refusal(code)])
                return
        parts = self.reader.answer(state, request)
        self._count_read(parts[0])
        if fencing:
            self.answer_when_durable(client, state, parts)
        else:
            client.send(parts)

    def answer_when_durable(self, client: Client, state: LedgerDescriptor, parts: Parts) -> None:
        """Send an answer once everything accepted for a ledger is synced."""
        waits_for = state.commit
        if isinstance(waits_for, JournalTurn) and not waits_for.synced:
            waits_for.answer(client, parts)
        else:
            client.send(parts)

    def confirmed(self, state: LedgerDescriptor) -> int:
        """The last add confirmed of a ledger, as far as this bookie knows; from now on it is kept in memory.

        OSError, wire.MalformedFrame when its last entry cannot be read.
        """
        if state.confirmed is None:
            last = self.reader.entry(state, wire.LAST_ENTRY)
            of_last = NO_ENTRY if last is None else int(wire.ENTRY_HEAD.unpack_from(last)[2])
            explicit = state.record.explicit_lac if state.record is not None else b""
            state.confirmed = max(of_last, explicit_confirmed(explicit))
        return state.confirmed

    def confirm(self, state: LedgerDescriptor, confirmed: int) -> None:
        """Note the last add confirmed that a writer sends, if this bookie keeps it in memory for the ledger.

        Long polls may wait for a ledger that has left memory since; they are woken in any case.
        """
        if state.confirmed is not None:
            if confirmed <= state.confirmed:
                return
            state.confirmed = confirmed
        self.long_polls.advance(state.ledger, confirmed)

    def _count_read(self, head: bytes | memoryview) -> None:
        """Count an answer by its first bytes: length 4, header word 4, error 4."""
        self.counters.read(int.from_bytes(head[:4], "big"), refused=head[8:12] != _NO_ERROR)

    def fence(self, state: LedgerDescriptor, master_key: bytes) -> Code:
        """Fence a ledger, durably with everything accepted for it; return the code, which may be a refusal."""
        code = check_master_key(state, master_key)
        fenced = state.record is not None and state.record.fenced
        if not code and not fenced:
            code = self._change_refused()
        if code:
            self.counters.fences_refused += 1
            log.warning("fence_refused", ledger=state.ledger, code=code)
            return code
        if not fenced:
            self.change(state, replace(state.keyed(master_key), fenced=True))
            self.counters.fences += 1
            log.info("ledger_fenced", ledger=state.ledger, highest=state.highest)
        return Code.OK

    def change(self, state: LedgerDescriptor, record: LedgerData) -> None:
        """Write a ledger's record with the open turn."""
        try:
            state.record = record
            self._open.changed[state.ledger] = state
            state.commit = self._open
            self._schedule()
        except BaseException as error:
            end_process("turn_failed", error)

    def delete(self, ledger: int, seen: Sighting, needed: Mapping[int, int], *, left: bool = False) -> bool:
        """Delete a ledger that the metadata store no longer has, or whose bookies this one has `left`.

        `needed` is what the index said of it when it was `seen`. False if it has changed, or the index is crowded.
        """
        state = self.ledgers.get(ledger)
        if state is not seen[0] or state.commit is not seen[1] or not state.durable or self._index.crowded:
            return False
        try:
            self._index.delete_ledger(ledger, needed, left=left)
        except MemoryError as error:  # it may have put a part; other errors are those of reads before that
            end_process("index_not_written", error)
        self._commit_now()
        self.ledgers.forget(ledger)
        return True

    def current(self, row: Row, *, repeated: bool) -> bool:
        """Whether the index still has this row and no turn in progress concerns its ledger."""
        durable = self.ledgers.get(row.ledger).durable
        return durable and self._index.found(row.ledger, row.first, repeated=repeated) == row

    def move(self, runs: Sequence[tuple[bool, Row, bytes]]) -> "asyncio.Future[None]":
        """Write runs again at the journal's end; done when the index names their new place. All must be current.

        DiskFull when that would take more than half of the room left on a full disk by what is accepted.
        """
        done = self._loop.create_future()
        turn = JournalTurn(MOVED, done=done)
        for repeated, row, frames in runs:
            kind, source = ChangeKind.REPEAT if repeated else ChangeKind.RUN, JournalPosition(row.file, row.offset)
            turn.keep(kind, row.ledger, row.first, row.last, frames, source=source)
        self._journal.check_room(self._accepted() + 2 * (turn.most_size + _LEAST_ROOM))
        self._moves.append(turn)
        self._schedule()
        return done

    def recycle(self, files: Sequence[int]) -> None:
        """Give back files of which the flushed index names nothing; the journal's thread does it later."""
        self.given_back.update(files)
        for file in files:
            self._files.forget(file)
            self._index.forget_file(file)
        self._commit_now()
        self._thread.recycle(files)

    def _commit_now(self) -> None:
        """Apply what was put outside a turn. An error ends the process: memory and index would differ from here on."""
        try:
            self._index.commit(self._index.sequence, self._index.file)
        except BaseException as error:
            end_process("index_not_written", error)

    async def drain(self) -> None:
        """Return when everything accepted is durable and answered."""
        await self._idle.wait()
        await self.flushes.done()

    async def close(self) -> None:
        """Accept no more adds, drain, then end the journal's thread."""
        self._closing = True
        self.cold_reads.close()
        await self.drain()
        await self.flushes.close()
        self._thread.stop()

    def _schedule(self) -> None:
        self._idle.clear()
        if not self._open.empty and not self._open.begun:
            self._open.begun = self._loop.time()
        if self._flying is None and not self._scheduled:
            self._loop.call_soon(self._seal)
            self._scheduled = True

    def _seal(self) -> None:
        """Hand a turn to the journal: the open one; or a move if that is empty or a turn was written just before."""
        self._scheduled = False
        if self._flying is not None:
            return
        if self._moves and self._open.empty:
            self._fly(self._moves.popleft())
        elif not self._open.empty:
            turn, self._open = self._open, JournalTurn()
            self._fly(turn)

    def _fly(self, turn: JournalTurn) -> None:
        """Write a turn, under a sequence number that no other turn gets, whatever happens to this one."""
        try:
            turn.seal()
            turn.sequence, self._sequence = self._sequence, self._sequence + 1
            self._flying, turn.flown_at = turn, self._loop.time()
            self._thread.submit(turn.sequence, turn)
        except BaseException as error:
            end_process("turn_failed", error)

    def _wake(self, place: JournalPosition) -> None:
        """Called on the journal's thread: the turn in progress is synced, its payload is at `place`.

        If the loop was closed meanwhile, nobody waits for an answer, and the next start finds the turn in the journal.
        """
        try:
            self._loop.call_soon_threadsafe(self._done, place)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _done(self, place: JournalPosition) -> None:
        """Complete the durable turn. An error from here on ends the process: memory, index and journal would differ.

        While the index has no room for it, the turn stays in progress: the loop would wait, maybe for good.
        """
        try:
            if not self.flushes.make_room():
                self._loop.call_later(_ROOM_LOOK_S, self._done, place)
                return
            self._finish(place)
            self._go_on()
        except BaseException as error:
            end_process("turn_failed", error)

    def _finish(self, place: JournalPosition) -> None:
        """Enter the turn in progress in the index, and answer it.

        Until it is in the index, which happens before anything else on this loop, its entries are read from memory.
        """
        turn, self._flying = self._flying, None
        assert turn is not None
        turn.synced = True
        for client, parts in turn.answers.items():
            client.send(parts)
        self.counters.written(turn, self._journal.write_s, self._journal.sync_s, self._loop.time())
        enter(self._index, turn.changes, place)
        self._index.commit(turn.sequence + 1, place.file, self._journal.size)
        for state in turn.states:
            state.pending.pop(0)
        if place.file != self._file:
            self._file = place.file
            self.flushes.start()
        if turn.done is not None and not turn.done.done():
            turn.done.set_result(None)
        turn.release()
        self._moved_last = turn.kind == MOVED

    def _go_on(self) -> None:
        """Take the requests that waited, and write the next turn: a move if one waits and the last turn was none."""
        if self._moves and not self._moved_last:
            self._fly(self._moves.popleft())
            return
        for _ in range(len(self._waiting)):
            if self.busy:
                break
            self._waiting.popleft().take()
        self._seal()
        if self._flying is None:
            self.ledgers.shrink()
            self._idle.set()
