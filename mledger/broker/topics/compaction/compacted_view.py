"""What compaction kept of a topic: a ledger that the cursor `__compaction` names, up to that cursor's mark-delete.

Each of its entries has the message id under which the topic stored it. They are in the order of those ids.
Reading does not recover the ledger: whoever compacts closes it before the cursor names it.

If that ledger does not exist any more, there is no view: consumers read what the topic still has, and compaction
begins anew with that.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor
from mledger.events import CompactedLedgerGone
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.orphans.pending_records import compacted_ledgers
from mledger.ledgers.orphans.references import COMPACTED, compacted_topic, custom_texts
from mledger.messages.pulsar_message import PulsarEntry, decode_entry, is_oversized, messages, split_compacted_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)

_PASSWORD = b""  # of compacted ledgers, in Pulsar


class CompactedLedger:
    """One compacted ledger; `horizon` is the last position of the topic that it stands for."""

    def __init__(self, reader: LedgerReader, horizon: Position) -> None:
        self.horizon = horizon
        self.doubted = False
        """Whether entries of it were missing: it may have been deleted."""
        self._reader = reader
        self._after: tuple[Position, int] | None = None  # a position, and the first entry not before it

    @property
    def ledger_id(self) -> int:
        """Its number."""
        return self._reader.ledger_id

    async def read(self, start: Position, entries: int, max_bytes: int) -> list[PayloadRun]:
        """What it has from the topic's position `start` on, as the topic stored it; nothing if that is nothing.

        Raises:
            BookieError: it cannot be read, or was deleted since, as by the next compaction.
            RecordError: an entry of it is damaged.
        """
        first, last = await self._find(start), self._reader.last_entry
        if first > last:
            return []
        stored = await self._stored(first, min(last, first + entries - 1), max(max_bytes, 1))
        found = [self._split(first + index, data) for index, data in enumerate(stored)]
        after = found[-1][0]
        self._after = Position(after.ledger_id, after.entry_id + 1), first + len(found)
        return runs_of(found)

    async def last_message(self) -> tuple[Position, int]:
        """The last message's position, and its index if it is in a batch, else -1; errors as of `read`.

        (-1, -1) if compaction kept nothing.
        """
        last = self._reader.last_entry
        if last < 0:
            return Position(-1, -1), -1
        position, payload = self._split(last, (await self._stored(last, last))[0])
        entry = decode_entry(payload, self._where(last))
        return position, _last_index(entry)

    async def _find(self, start: Position) -> int:
        """The first entry whose message id is not before `start`."""
        if self._after is not None and self._after[0] == start:
            return self._after[1]
        low, high = 0, self._reader.last_entry + 1
        while low < high:
            middle = (low + high) // 2
            if self._split(middle, (await self._stored(middle, middle))[0])[0] < start:
                low = middle + 1
            else:
                high = middle
        return low

    async def _stored(self, first: int, last: int, max_bytes: int | None = None) -> list[bytes]:
        try:
            return await self._reader.read(first, last, max_bytes)
        except (NoSuchLedger, NoSuchEntry):
            self.doubted = True
            raise

    def _split(self, entry: int, data: bytes) -> tuple[Position, bytes]:
        message_id, payload = split_compacted_entry(data, self._where(entry))
        return Position(message_id.ledgerId, message_id.entryId), payload

    def _where(self, entry: int) -> str:
        return f"entry {entry} of compacted ledger {self.ledger_id}"


def _last_index(entry: PulsarEntry) -> int:
    """The index of the last message that compaction kept of a batch; -1 for an entry that is none."""
    if not entry.batched:
        return -1
    if not (entry.encrypted or is_oversized(entry)):
        with contextlib.suppress(RecordError):  # one that cannot be unpacked was kept whole
            kept = [index for index, each in enumerate(messages(entry)) if not each.compacted_out]
            return kept[-1] if kept else -1
    return entry.message_count - 1


def runs_of(entries: Sequence[tuple[Position, bytes]]) -> list[PayloadRun]:
    """Entries in order as runs of consecutive ones."""
    runs: list[PayloadRun] = []
    payloads: list[bytes] = []
    following = None
    for position, payload in entries:
        if position != following:
            payloads = []
            runs.append(PayloadRun(position.ledger_id, position.entry_id, payloads))
        payloads.append(payload)
        following = Position(position.ledger_id, position.entry_id + 1)
    return runs


class CompactedView:
    """Finds a topic's compacted ledger, which compaction replaces now and then."""

    def __init__(self, managed_ledger: ManagedLedger, store: MetadataReader, bookkeeper: BookKeeperReader) -> None:
        self._managed_ledger = managed_ledger
        self._store = store
        self._bookkeeper = bookkeeper
        self._lock = asyncio.Lock()
        self._latest: CompactedLedger | None = None
        self._gone: int | None = None  # a ledger that was named and does not exist

    async def latest(self) -> CompactedLedger | None:
        """The compacted ledger now, None if the topic was never compacted, or if the ledger is gone.

        Raises:
            CursorRecoveryFailed: the cursor of compaction cannot be read now.
            BookieError: the ledger cannot be opened.
            StoreUnavailable: it cannot be found out whether the ledger exists.
            RecordError: it is no compacted ledger, or another topic's: a client may have given its number.
        """
        if COMPACTION not in self._managed_ledger.cursors:
            return None
        async with self._lock:
            cursor = await self._managed_ledger.usable_cursor(COMPACTION)
            ledger_id, horizon = _named(cursor), cursor.mark_delete
            if ledger_id is None or ledger_id == self._gone:
                return None
            if self._latest is None or self._latest.ledger_id != ledger_id or self._latest.doubted:
                self._latest = await self._open(ledger_id, horizon)
            if self._latest is not None:
                self._latest.horizon = horizon
            return self._latest

    async def begin_anew(self) -> None:
        """If the ledger is gone, have the cursor say that nothing is compacted; errors as of `latest` and `flush`.

        The topic then keeps what it still has until that is compacted.
        """
        if await self.is_gone():
            cursor = await self._managed_ledger.usable_cursor(COMPACTION)
            log.warning("compaction_begins_anew", topic=self._managed_ledger.name, gone=self._gone)
            await cursor.begin_anew(cursor.properties)

    async def is_gone(self) -> bool:
        """Whether the compacted ledger that the cursor names does not exist; errors as of `latest`."""
        latest, cursor = await self.latest(), self._managed_ledger.open_cursors.get(COMPACTION)
        return latest is None and cursor is not None and _named(cursor) is not None

    async def _open(self, ledger_id: int, horizon: Position) -> CompactedLedger | None:
        """The ledger; None, and an event that says what is lost, if it does not exist."""
        try:
            try:
                reader = await self._bookkeeper.open_ledger_no_recovery(ledger_id, _PASSWORD)
            except NoSuchLedger:  # a lagging server may not know a new ledger
                await self._store.sync()
                reader = await self._bookkeeper.open_ledger_no_recovery(ledger_id, _PASSWORD)
        except NoSuchLedger:
            self._gone, managed_ledger = ledger_id, self._managed_ledger
            kept_after = managed_ledger.ledger_list.first_position
            event = CompactedLedgerGone(managed_ledger.name, ledger_id, horizon, kept_after)
            log.warning("compacted_ledger_gone", topic=managed_ledger.name, ledger=ledger_id, lost=event.describe())
            managed_ledger.emit(event)
            return None
        self._check_own(reader)
        return CompactedLedger(reader, horizon)

    def _check_own(self, reader: LedgerReader) -> None:
        """Raise RecordError if the ledger's own metadata says that it is something else; older ones say nothing."""
        topic = TopicName.of_managed_ledger(self._managed_ledger.name)
        custom = custom_texts(reader.metadata)
        if custom.get("component", COMPACTED) != COMPACTED or compacted_topic(custom) not in ("", str(topic)):
            raise RecordError(
                f"ledger {reader.ledger_id}, which the cursor {COMPACTION} of {topic} names, is another topic's or no "
                f"compacted ledger: delete that subscription to have {topic} compacted anew"
            )


def _named(cursor: Cursor) -> int | None:
    """The compacted ledger that compaction's cursor names."""
    return next(iter(compacted_ledgers(cursor.properties.items())), None)
