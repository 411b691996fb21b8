"""Compacts a topic: what the last compaction kept and what came since becomes a new compacted ledger (C12).

It reads twice: first which message of each key is the latest, then the messages themselves. So it
holds the keys in memory, not the messages.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from mledger.bookie.client.ledgers.writer import LedgerWriter
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.topics.compaction.compacted_view import CompactedLedger
from mledger.broker.topics.compaction.compaction_counts import CompactionWork
from mledger.broker.topics.compaction.compaction_plan import LatestMessages
from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor
from mledger.cursors.positions import EARLIEST, next_valid
from mledger.errors import CursorNotFound, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.ledgers.background import Background
from mledger.ledgers.entries.entry import PayloadRun
from mledger.ledgers.ledger_factory import CustomMetadata
from mledger.ledgers.orphans.references import COMPACTED_TOPIC
from mledger.messages.pulsar_message import compacted_entry
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import COMPACTED_LEDGER
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb import PulsarApi_pb2 as pb

if TYPE_CHECKING:
    from mledger.broker.topics.broker_topic import BrokerTopic

log = get_logger(__name__)

ENTRIES = 500
BYTES = 1 << 20
TURN_S = 0.005
"""For how long other work of the loop waits for the messages of one read."""
RETRY_S = 10.0
_ENDED = (ManagedLedgerFenced, ManagedLedgerClosed, CursorNotFound)


def custom_metadata(topic: str, compacted_to: pb.MessageIdData) -> CustomMetadata:
    """What a compacted ledger says of itself, as Pulsar's does."""
    return (
        ("application", b"pulsar"),
        ("component", b"compacted-ledger"),
        (COMPACTED_TOPIC, topic.encode()),
        ("pulsar/compactedTo", compacted_to.SerializeToString()),
    )


class Compactor:
    """Compacts one open topic. `background` keeps what goes on after a compaction."""

    def __init__(self, topic: "BrokerTopic", background: Background) -> None:
        self._topic = topic
        self._background = background
        self._settling: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Leave what is not settled to the next owner of the topic."""
        if self._settling is not None:
            self._settling.cancel()

    async def compact(self, work: CompactionWork) -> None:
        """Compact up to the last entry; nothing if nothing came since the last time. `work` counts what it does.

        Raises:
            BrokerRefusal: another program compacts the topic.
            MledgerError: the topic cannot be read, or the compacted ledger not be written.
        """
        if self._settling is not None:
            await asyncio.wait([self._settling])
        topic, managed_ledger = self._topic, self._topic.managed_ledger
        if COMPACTION not in managed_ledger.cursors:
            await managed_ledger.open_cursor(COMPACTION)
        cursor = await managed_ledger.usable_cursor(COMPACTION)
        self._check_alone()
        await topic.compacted.begin_anew()  # if what was compacted is gone
        before, start, last = await topic.compacted.latest(), cursor.mark_delete, managed_ledger.last_confirmed
        if last <= start or not managed_ledger.ledger_list.exists(last):
            log.info("compaction_not_needed", topic=topic.name, compacted_to=start)
            return
        log.info("compaction_begun", topic=topic.name, start=start, last=last)
        latest = LatestMessages(keep_keyless=topic.settings.compaction_keeps_keyless)
        async for position, entry in self._entries(before, start, last):
            latest.note(position, entry)
            work.read_bytes += len(entry)
        ledgers = managed_ledger.compacted_ledgers
        writer = await ledgers.create(custom_metadata(str(topic.name), self._message_id(last)))
        try:
            await self._write(writer, latest, self._entries(before, start, last), work)
            await writer.close()
            former = cursor.properties.get(COMPACTED_LEDGER)
            doubted = [] if former is None or not await topic.attached.is_compacted(former) else [former]
            await ledgers.doubt(doubted)
            self._check_alone()
            ledgers_now = managed_ledger.ledger_list  # a cursor may have left a consumed ledger meanwhile (R9)
            moved = next_valid(ledgers_now, cursor.mark_delete) != next_valid(ledgers_now, start)
            if moved or cursor.properties.get(COMPACTED_LEDGER) != former:
                raise BrokerRefusal(pb.ConsumerBusy, f"another program compacted {topic.name} meanwhile")
            durable = cursor.acknowledge_cumulative(last, {COMPACTED_LEDGER: writer.ledger_id})
        except BaseException:
            await ledgers.discard(writer)
            raise
        settling = self._settle(cursor, [writer.ledger_id, *doubted])
        self._settling = self._background.spawn(settling, "end of compaction", endless=True)
        await asyncio.gather(cursor.flush(), durable)
        log.info("compacted", topic=topic.name, ledger=writer.ledger_id, compacted_to=last, entries=work.kept)
        work.done = True

    def _check_alone(self) -> None:
        subscription = self._topic.subscriptions.get(COMPACTION)
        if subscription is not None and subscription.consumers:
            raise BrokerRefusal(pb.ConsumerBusy, f"another program is compacting {self._topic.name}")

    async def _entries(
        self, before: CompactedLedger | None, start: Position, last: Position
    ) -> AsyncIterator[tuple[Position, bytes]]:
        """What was kept before, then the topic's entries after `start` up to `last`."""
        at = EARLIEST
        while before is not None and (runs := await before.read(at, ENTRIES, BYTES)):
            async for each in _in_turns(runs):
                yield each
            at = Position(runs[-1].ledger_id, runs[-1].first_entry + len(runs[-1].payloads))
        name = f"{COMPACTION}-{secrets.token_hex(4)}"
        cursor = await self._topic.managed_ledger.open_cursor(name, initial=start, durable=False)
        try:
            while runs := await cursor.read_runs(ENTRIES, BYTES, last):
                async for each in _in_turns(runs):
                    yield each
        finally:
            await cursor.close()

    async def _write(
        self,
        writer: LedgerWriter,
        latest: LatestMessages,
        entries: AsyncIterator[tuple[Position, bytes]],
        work: CompactionWork,
    ) -> None:
        """Write what is kept of the entries."""
        held: list[bytes] = []
        size = 0

        async def write() -> None:
            await writer.append(held)
            work.kept += len(held)
            work.written_bytes += size

        async for position, entry in entries:
            kept = latest.plan_kept(position, entry)
            work.read_bytes += len(entry)
            work.removed = latest.removed
            if kept is not None:
                held.append(compacted_entry(self._message_id(position), kept))
                size += len(held[-1])
            if len(held) >= ENTRIES or size >= BYTES:
                await write()
                held, size = [], 0
        if held:
            await write()

    def _message_id(self, position: Position) -> pb.MessageIdData:
        index = self._topic.name.partition_index
        partition = -1 if index is None else index
        return pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id, partition=partition)

    async def _settle(self, cursor: Cursor, ledger_ids: Iterable[int]) -> None:
        """Once the cursor's state is durable: keep the ledger that it names, delete the one before."""
        while True:
            try:
                await cursor.flush()
                named = cursor.properties.get(COMPACTED_LEDGER)
                for each in ledger_ids:
                    await self._topic.managed_ledger.compacted_ledgers.settle(each, named=each == named)
            except _ENDED:
                return
            except MledgerError as error:
                log.warning("compacted_ledgers_not_settled", topic=self._topic.name, error=error)
                await asyncio.sleep(RETRY_S)
            else:
                return


async def _in_turns(runs: Sequence[PayloadRun]) -> AsyncIterator[tuple[Position, bytes]]:
    """Entries one by one; the loop serves others in between."""
    loop = asyncio.get_running_loop()
    turn_ends = loop.time() + TURN_S
    for ledger_id, first, payloads in runs:
        for entry_id, payload in enumerate(payloads, first):
            yield Position(ledger_id, entry_id), payload
            if loop.time() >= turn_ends:
                await asyncio.sleep(0)
                turn_ends = loop.time() + TURN_S
