"""Deduplication of a topic's messages, with its state in the cursor `pulsar.dedup` as in Pulsar.

The properties of the cursor's mark-delete position are the highest sequence ids by producer up to
there. Opening reads the entries behind it, so that the state is exact after a crash. So does the next
producer after a failure: bookies may have entries that they did not answer in time.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

from mledger.broker.protocol.entry_facts import is_last_chunk, metadata_of
from mledger.broker.protocol.requests import SendRun
from mledger.broker.protocol.varints import signed
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.producers.sequence_ids import Duplicate, SequenceIds
from mledger.config import CURSOR_ZNODE_LIMIT
from mledger.cursors.cursor import Cursor
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.ledgers.entries.entry import Entry
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)

READ_ENTRIES = 500
SNAPSHOT_BYTES = CURSOR_ZNODE_LIMIT * 9 // 10
"""What producers may take of the cursor's record: a state that it cannot hold is never kept, nor the topic trimmed."""
PRODUCER_BYTES = 20
"""What one takes there besides its name, at most."""
READ_BYTES = 4 << 20
"""At once, of each topic that is opened: a broker takes over many of another one's."""


class TopicDeduplication:
    """What one topic knows of its producers' sequence ids; `connected` gives the names of those that are open."""

    def __init__(
        self,
        managed_ledger: ManagedLedger,
        cursor: Cursor,
        settings: BrokerSettings,
        connected: Callable[[], Collection[str]],
    ) -> None:
        self.ids = SequenceIds(cursor.properties)
        self._managed_ledger = managed_ledger
        self._cursor = cursor
        self.settings = settings
        self._connected = connected
        self._since_snapshot = 0
        self._snapshot_at = time.monotonic()
        self._reached = cursor.mark_delete
        self._gone_since: dict[str, float] = {}
        self._in_doubt = False
        self._settling = asyncio.Lock()

    @classmethod
    async def open(
        cls, managed_ledger: ManagedLedger, settings: BrokerSettings, connected: Callable[[], Collection[str]]
    ) -> "TopicDeduplication":
        """Recover the state: the cursor's properties, and what was stored after them.

        Of a topic that was not deduplicated before, what it has counts for nothing, as in Pulsar.
        """
        cursor = await managed_ledger.open_cursor(DEDUPLICATION, initial="latest")
        opened = cls(managed_ledger, cursor, settings, connected)
        while entries := await cursor.read(READ_ENTRIES, READ_BYTES):
            opened._take(entries)
        log.info(
            "deduplication_opened",
            topic=managed_ledger.name,
            producers=len(opened.ids.stored),
            replayed=opened._since_snapshot,
        )
        return opened

    def _take(self, entries: Sequence[Entry]) -> None:
        """Take in stored entries, the next ones behind those that are known."""
        for entry in entries:
            metadata = metadata_of(entry.payload)
            if metadata is None or not is_last_chunk(metadata):
                continue
            producer: str | bytes = metadata.producer_name  # bytes if they are not UTF-8: no producer is called so
            if isinstance(producer, str):
                highest = signed(metadata.highest_sequence_id) if metadata.HasField("highest_sequence_id") else -1
                self.ids.store(producer, max(signed(metadata.sequence_id), highest))
        self._since_snapshot += len(entries)
        self._reached = entries[-1].position

    def failed(self, producer: str) -> None:
        """A producer's sends failed: whether they are stored is known once their ledger has ended (`settle`)."""
        self.ids.fail(producer)
        self._in_doubt = True

    async def settle(self) -> None:
        """Find out which sends that failed are stored after all; call it before a producer sends any of them again.

        Raises:
            BrokerRefusal: the ledger in which they failed cannot be ended now.
            MledgerError: what is stored cannot be read.
        """
        managed_ledger = self._managed_ledger
        async with self._settling:
            if not self._in_doubt:
                return
            if not managed_ledger.end_known:
                await managed_ledger.roll_over()
            if not managed_ledger.end_known:
                why = f"what {managed_ledger.name} has stored is not known since a send failed: try again"
                raise BrokerRefusal(pb.ServiceNotReady, why)
            while self._reached < managed_ledger.last_confirmed:
                behind = Position(self._reached.ledger_id, self._reached.entry_id + 1)
                entries = await managed_ledger.read(behind, READ_ENTRIES, READ_BYTES)
                if not entries:
                    break
                self._take(entries)
            self._in_doubt = False

    def judge(self, producer: str, run: SendRun) -> list[Duplicate]:
        """What each send is; those that are new count as sent."""
        ids = zip(run.sequence_ids, run.highest_ids, strict=True)
        return [
            self.ids.send_chunk(producer, sequence_id)
            if _is_chunk_before_last(run, index)
            else self.ids.send(producer, sequence_id, highest_id)
            for index, (sequence_id, highest_id) in enumerate(ids)
        ]

    def stored(self, producer: str, run: SendRun, last: Position) -> None:
        """The entries of a run are stored, the last one at `last`; snapshots the state when it is due."""
        ids = zip(run.sequence_ids, run.highest_ids, strict=True)
        complete = [max(each) for index, each in enumerate(ids) if not _is_chunk_before_last(run, index)]
        if complete:
            self.ids.store(producer, max(complete))
        self._since_snapshot += len(run)
        self._reached = last
        if self._since_snapshot >= self.settings.deduplication_entries_interval:
            self.snapshot()
        else:
            self.snapshot_if_due()

    def snapshot_if_due(self) -> None:
        """Keep the state with the cursor if it changed, and was kept last so long ago that it is time."""
        due_s = self.settings.deduplication_snapshot_interval_s
        if self._since_snapshot and due_s and time.monotonic() - self._snapshot_at >= due_s:
            self.snapshot()

    def snapshot(self) -> None:
        """Keep the state with the cursor, and let go of the entries that it covers.

        If it cannot be kept, the cursor stays and holds them: opening the topic reads them again.
        """
        self._forget_inactive()
        self._since_snapshot, self._snapshot_at = 0, time.monotonic()
        try:
            reached = max(self._reached, self._cursor.mark_delete)
            self._cursor.acknowledge_cumulative(reached, dict(self.ids.stored))
        except MledgerError as error:
            topic, count = self._managed_ledger.name, len(self.ids.stored)
            log.error("sequence_ids_not_kept", topic=topic, producers=count, error=error)

    def _forget_inactive(self) -> None:
        """Forget producers that have not been open for a while; of more than can be kept, those that went first."""
        now, most, connected = time.monotonic(), self.settings.deduplication_producers, self._connected()
        gone = {name: self._gone_since.get(name, now) for name in self.ids.stored if name not in connected}
        size = sum(map(self._size, self.ids.stored))
        for name in sorted(gone, key=gone.__getitem__):
            too_many = len(self.ids.stored) > most or size > SNAPSHOT_BYTES
            if too_many or now - gone[name] >= self.settings.deduplication_inactivity_s:
                self.ids.forget(name)
                del gone[name]
                size -= self._size(name)
        self._gone_since = gone

    @staticmethod
    def _size(producer: str) -> int:
        """About how many bytes of the cursor's record a producer takes."""
        return len(producer.encode()) + PRODUCER_BYTES


async def keep_sequence_ids(managed_ledger: ManagedLedger) -> None:
    """Keep with the cursor what producers have sent to a topic that no broker serves, before that is deleted.

    Raises:
        MledgerError: what is stored cannot be read.
    """
    deduplication = await TopicDeduplication.open(managed_ledger, BrokerSettings(), lambda: ())
    deduplication.snapshot()


def _is_chunk_before_last(run: SendRun, index: int) -> bool:
    unusual = run.unusual.get(index)
    if unusual is None or not unusual.is_chunk:
        return False
    metadata = metadata_of(run.entries[index])
    return metadata is not None and not is_last_chunk(metadata)
