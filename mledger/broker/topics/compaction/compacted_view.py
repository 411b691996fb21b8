"""What compaction kept of a topic: a ledger that the cursor `__compaction` names, up to that cursor's mark-delete.

Each of its entries has the message id under which the topic stored it. They are in the order of those ids.
Reading does not recover the ledger: whoever compacts closes it before the cursor names it.
"""

import asyncio
from collections.abc import Sequence

from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cursors.compaction import COMPACTION
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.pending_records import compacted_ledgers
from mledger.ledgers.references import COMPACTED, COMPACTED_TOPIC
from mledger.messages.pulsar_message import decode_entry, messages, split_compacted_entry
from mledger.metastore.errors import RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.topics.managed_ledger import ManagedLedger

_PASSWORD = b""  # of compacted ledgers, in Pulsar


class CompactedLedger:
    """One compacted ledger; `horizon` is the last position of the topic that it stands for."""

    def __init__(self, reader: LedgerReader, horizon: Position) -> None:
        self.horizon = horizon
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
        stored = await self._reader.read(first, min(last, first + entries - 1), max(max_bytes, 1))
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
        position, payload = self._split(last, (await self._reader.read(last, last))[0])
        entry = decode_entry(payload, self._where(last))
        if not entry.batched or entry.encrypted:
            return position, entry.message_count - 1 if entry.batched else -1
        kept = [index for index, each in enumerate(messages(entry, self._where(last))) if not each.compacted_out]
        return position, kept[-1] if kept else -1

    async def _find(self, start: Position) -> int:
        """The first entry whose message id is not before `start`."""
        if self._after is not None and self._after[0] == start:
            return self._after[1]
        low, high = 0, self._reader.last_entry + 1
        while low < high:
            middle = (low + high) // 2
            if self._split(middle, (await self._reader.read(middle, middle))[0])[0] < start:
                low = middle + 1
            else:
                high = middle
        return low

    def _split(self, entry: int, data: bytes) -> tuple[Position, bytes]:
        message_id, payload = split_compacted_entry(data, self._where(entry))
        return Position(message_id.ledgerId, message_id.entryId), payload

    def _where(self, entry: int) -> str:
        return f"entry {entry} of compacted ledger {self.ledger_id}"


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

    def __init__(self, managed_ledger: ManagedLedger, bookkeeper: BookKeeperReader) -> None:
        self._managed_ledger = managed_ledger
        self._bookkeeper = bookkeeper
        self._lock = asyncio.Lock()
        self._latest: CompactedLedger | None = None

    async def latest(self) -> CompactedLedger | None:
        """The compacted ledger now, None if the topic was never compacted.

        Raises:
            CursorRecoveryFailed: the cursor of compaction cannot be read now.
            BookieError: the ledger cannot be opened.
            RecordError: it is no compacted ledger, or another topic's: a client may have given its number.
        """
        managed_ledger = self._managed_ledger
        if COMPACTION not in managed_ledger.cursors:
            return None
        async with self._lock:
            cursor = await managed_ledger.usable_cursor(COMPACTION)
            ledger_id, horizon = next(iter(compacted_ledgers(cursor.properties.items())), None), cursor.mark_delete
            if ledger_id is None:
                return None
            if self._latest is None or self._latest.ledger_id != ledger_id:
                reader = await self._bookkeeper.open_ledger_no_recovery(ledger_id, _PASSWORD)
                self._check_own(reader)
                self._latest = CompactedLedger(reader, horizon)
            self._latest.horizon = horizon
            return self._latest

    def _check_own(self, reader: LedgerReader) -> None:
        """Raise RecordError if the ledger's own metadata says that it is something else; older ones say nothing."""
        topic = TopicName.of_managed_ledger(self._managed_ledger.name)
        custom = {key: value.decode("utf-8", "replace") for key, value in reader.metadata.custom_metadata}
        if custom.get("component", COMPACTED) != COMPACTED or custom.get(COMPACTED_TOPIC, str(topic)) != str(topic):
            raise RecordError(
                f"ledger {reader.ledger_id}, which the cursor {COMPACTION} of {topic} names, is another topic's or no "
                f"compacted ledger: delete that subscription to have {topic} compacted anew"
            )
