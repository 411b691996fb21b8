"""Fixes of the bookie's storage, taken out again."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

import mledger.bookie.server.process.bookie as bookie
import mledger.bookie.server.process.garbage as garbage
import mledger.bookie.server.process.main as main
import mledger.bookie.server.storage.records.journal_changes as journal_changes
import mledger.bookie.server.storage.records.replay as replay
from mledger.bookie import wire
from mledger.bookie.server.process.lost_ledgers import LostLedgers
from mledger.bookie.server.serving.group_commit import GroupCommit
from mledger.bookie.server.serving.index_flushes import IndexFlushes
from mledger.bookie.server.storage.directories.directory import BookieDirectory
from mledger.bookie.server.storage.directories.disk import Reserve
from mledger.bookie.server.storage.directories.journal_files import JournalFiles
from mledger.bookie.server.storage.journal import JournalPosition
from mledger.bookie.server.storage.ledgers import NO_ENTRY, LedgerDescriptor, Ledgers
from mledger.bookie.server.storage.records.journal_changes import ChangeKind, JournalChange
from mledger.bookie.server.storage.records.journal_record import Client, JournalTurn
from mledger.bookie.server.storage.rows.index import Index, Row
from mledger.metastore.errors import MetadataError
from mledger.metastore.store import MetadataReader, MetadataStore
from tests.sim.removed_fixes.patches import Fix, Patches, anything, of_ledgers, small, with_all, with_step


def _accept_empty_journal(patches: Patches) -> None:
    patches.put(BookieDirectory, "check_parts", lambda self: None)
    patches.put(bookie, "plan_missing_files", lambda *_, **__: [])


def _note_no_lost_ledgers(patches: Patches) -> None:
    async def find_none(*_: object) -> LostLedgers:
        return LostLedgers()

    patches.put(main, "find_lost", find_none)


def _match_moves_by_first_entry(patches: Patches) -> None:
    def enter_moved(index: Index, change: JournalChange, _: JournalPosition, row: Row) -> None:
        repeated = change.kind == ChangeKind.REPEAT
        found = index.repeat(row.ledger, row.first) if repeated else index.run_at(row.ledger, row.first)
        if found is not None and found.first == row.first:
            index.move(found, row, repeated=repeated)

    def enter_merged(index: Index, changes: Sequence[JournalChange], place: JournalPosition) -> None:
        journal_changes.enter(index, _merged(changes), place)

    def flushed(self: Any, done: Any) -> None:
        self._flush, self._again = None, False
        done.result()

    patches.put(journal_changes, "_enter_moved", enter_moved)
    patches.put(replay, "enter", enter_merged)
    patches.put(IndexFlushes, "_flushed", flushed)


def _merged(changes: Iterable[JournalChange]) -> list[JournalChange]:
    """Neighbouring runs of a ledger as one, as replay used to find them."""
    found: list[JournalChange] = []
    for change in changes:
        last = found[-1] if found else None
        if (
            last is not None
            and change.source is None
            and change.kind == last.kind == ChangeKind.RUN
            and change.ledger == last.ledger
            and last.at + last.length == change.at
        ):
            found[-1] = replace(last, last=change.last, length=last.length + change.length)
        else:
            found.append(change)
    return found


def _believe_lagging_servers(patches: Patches) -> None:
    def collect(self: Any, reader: MetadataReader) -> Any:
        return before(self, _Unsynced(reader))

    def plan_absent(absent: Sequence[int], *_: object) -> tuple[dict[int, float], list[int]]:
        return dict.fromkeys(absent, 0.0), list(absent)

    before = patches.put(garbage.GarbageCollector, "collect", collect)
    patches.put(garbage, "plan_absent", plan_absent)


class _Unsynced:
    def __init__(self, reader: MetadataReader) -> None:
        self._reader = reader

    async def sync(self) -> None:
        """Believe whatever the server knows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def _end_with_garbage(patches: Patches) -> None:
    async def run(self: Any, store: MetadataStore) -> None:
        steps: Sequence[Callable[[], Any]] = (partial(self.collect, store), self.reclaim)
        for step in steps:
            try:
                await step()
            except MetadataError:
                self._counts.failures += 1

    def mark(self: Any, number: int, error: Exception) -> None:
        raise error

    patches.put(garbage.GarbageCollector, "run", run)
    patches.put(garbage.GarbageCollector, "_mark", mark)


def _trust_page_cache(patches: Patches) -> None:
    patches.put(bookie, "make_durable", lambda *_: None)


def _use_sequence_twice(patches: Patches) -> None:
    def fly(self: Any, turn: JournalTurn) -> None:
        turn.seal()
        turn.sequence, turn.flown_at, self._flying = self._sequence, self._loop.time(), turn
        self._thread.submit(turn.sequence, turn)

    def done(self: Any, place: JournalPosition) -> None:
        self._finish(place)
        self._sequence += 1
        self._go_on()

    patches.put(GroupCommit, "_fly", fly)
    patches.put(GroupCommit, "_done", done)


def _keep_no_reserve(patches: Patches) -> None:
    patches.put(Reserve, "tend", lambda self, **_: None)
    patches.put(Reserve, "missing", property(lambda self: 0))
    patches.put(JournalFiles, "keep_reserve", lambda self: None)
    patches.put(bookie, "plan_continued", lambda *_: None)


def _count_superseded_repeats(patches: Patches) -> None:
    def put_repeat(self: Any, row: Row) -> None:
        key = row.ledger.to_bytes(8, "big") + row.first.to_bytes(8, "big")
        self._batch.put(key, row.value(), self._in_repeats)
        self._put_repeats[key] = row
        self._count(row.file, row.length)

    patches.put(Index, "put_repeat", put_repeat)


def _keep_every_ledger(patches: Patches) -> None:
    def get(self: Any, ledger: int) -> LedgerDescriptor:
        state = self._states.get(ledger)
        if state is None:
            state = self._states[ledger] = self._load(ledger)
        return state  # type: ignore[no-any-return]

    patches.put(Ledgers, "get", get)


def _answer_before_sync(patches: Patches) -> None:
    def fly(self: Any, turn: JournalTurn) -> None:
        before(self, turn)
        answers, turn.answers = turn.answers, {}
        for client, parts in answers.items():
            client.send(parts)

    before = patches.put(GroupCommit, "_fly", fly)


def _answer_fence_early(patches: Patches) -> None:
    def read(self: Any, client: Client, request: wire.ReadRequest) -> None:
        state = self.ledgers.get(request.ledger)
        if not (request.fencing and request.ledger >= 0 and request.version <= wire.VERSION):
            before(self, client, request)
            return
        code = self.fence(state, request.master_key)
        if code:
            client.send([request.refusal(code)])
            return
        row = self._index.last_run(request.ledger)
        synced = replace(state, pending=[], highest=NO_ENTRY if row is None else row.last)
        client.send(self.reader.answer(synced, request))

    before = patches.put(GroupCommit, "read", read)


FIXES: Sequence[Fix] = (
    (
        "S1",
        "a bookie began anew on an empty journal directory and answered that it had none of its entries",
        _accept_empty_journal,
        with_step("journal unmounted"),
    ),
    (
        "S2",
        "replay merged runs, a move found its row by the first entry only, and a file begun during a flush stayed "
        "unflushed: entries were unreadable after a kill",
        _match_moves_by_first_entry,
        with_step("kill after move"),
    ),
    (
        "S4",
        "garbage collection believed a metadata server that lagged, and deleted ledgers newer than its state",
        _believe_lagging_servers,
        with_all(with_step("lag"), small),
    ),
    (
        "lost-disk",
        "a bookie with an empty disk answered that it never had the entries that it had lost",
        _note_no_lost_ledgers,
        with_step("lost disk"),
    ),
    ("S5", "an error of garbage collection ended the bookie", _end_with_garbage, with_step("bad file")),
    (
        "S6",
        "a restart trusted unsynced records in the page cache, which a power loss then took",
        _trust_page_cache,
        with_all(with_step("kill at disk change", "sync fails"), with_step("power loss", "power loss at disk change")),
    ),
    (
        "S8",
        "after an exception behind a sync a sequence was used twice: the next start found the journal corrupt",
        _use_sequence_twice,
        with_step("batch fails"),
    ),
    ("S9", "a bookie could not be started on a full disk", _keep_no_reserve, with_step("disk full")),
    (
        "S10",
        "superseded repeats counted as live for good, and kept their files",
        _count_superseded_repeats,
        with_all(of_ledgers, with_step("recover")),
    ),
    ("S11", "reads kept every ledger in memory", _keep_every_ledger, small),
    ("answer-before-sync", "an add was answered before its sync", _answer_before_sync, anything),
    (
        "early-fence",
        "a fence was answered past adds that were accepted and not synced",
        _answer_fence_early,
        with_all(of_ledgers, with_step("slow disk")),
    ),
)
