"""Deduplication of a topic's messages, with its state in the cursor `pulsar.dedup` as in Pulsar.

The properties of the cursor's mark-delete position are the highest sequence ids by producer up to
there. Opening reads the entries behind it, so that the state is exact after a crash.
"""

import time

from mledger.broker.protocol.entry_facts import metadata_of
from mledger.broker.protocol.requests import SendRun
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.sequence_ids import Duplicate, SequenceIds
from mledger.cursors.cursor import Cursor
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs import get_logger
from mledger.pb.PulsarApi_pb2 import MessageMetadata
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)

CURSOR = "pulsar.dedup"
READ_ENTRIES = 500


class TopicDeduplication:
    """What one topic knows of its producers' sequence ids."""

    def __init__(self, cursor: Cursor, ids: SequenceIds, settings: BrokerSettings) -> None:
        self.ids = ids
        self._cursor = cursor
        self._settings = settings
        self._since_snapshot = 0
        self._snapshot_at = time.monotonic()
        self._left_at: dict[str, float] = {}

    @classmethod
    async def open(cls, managed_ledger: ManagedLedger, settings: BrokerSettings) -> "TopicDeduplication":
        """Recover the state: the cursor's properties, and what was stored after them."""
        cursor = await managed_ledger.open_cursor(CURSOR)
        ids = SequenceIds(cursor.properties)
        replayed = 0
        while entries := await cursor.read(READ_ENTRIES):
            replayed += len(entries)
            for entry in entries:
                metadata = metadata_of(entry.payload)
                if metadata is not None and is_last_chunk(metadata):
                    ids.store(metadata.producer_name, max(metadata.sequence_id, metadata.highest_sequence_id))
        log.info("deduplication_opened", topic=managed_ledger.name, producers=len(ids.stored), replayed=replayed)
        return cls(cursor, ids, settings)

    def judge(self, producer: str, run: SendRun) -> list[Duplicate]:
        """What each send is; those that are new count as sent."""
        ids = zip(run.sequence_ids, run.highest_ids, strict=True)
        return [
            Duplicate.NO if _is_chunk_before_last(run, index) else self.ids.send(producer, sequence_id, highest_id)
            for index, (sequence_id, highest_id) in enumerate(ids)
        ]

    def stored(self, producer: str, run: SendRun, last: Position) -> None:
        """The entries of a run are stored, the last one at `last`; snapshots the state when it is due."""
        ids = zip(run.sequence_ids, run.highest_ids, strict=True)
        complete = [max(each) for index, each in enumerate(ids) if not _is_chunk_before_last(run, index)]
        if complete:
            self.ids.store(producer, max(complete))
        self._since_snapshot += len(run)
        due_s = self._settings.deduplication_snapshot_interval_s
        if self._since_snapshot >= self._settings.deduplication_entries_interval or (
            due_s and time.monotonic() - self._snapshot_at >= due_s
        ):
            self.snapshot(last)

    def snapshot(self, last: Position) -> None:
        """Keep the state up to `last` with the cursor."""
        self._forget_inactive()
        self._since_snapshot, self._snapshot_at = 0, time.monotonic()
        self._cursor.acknowledge_cumulative(last, dict(self.ids.stored))

    def joined(self, producer: str) -> None:
        """A producer is open."""
        self._left_at.pop(producer, None)

    def left(self, producer: str) -> None:
        """A producer is closed; its sequence ids count for a while."""
        self._left_at[producer] = time.monotonic()

    def _forget_inactive(self) -> None:
        now, most = time.monotonic(), self._settings.deduplication_producers
        for name, at in list(self._left_at.items()):
            if now - at >= self._settings.deduplication_inactivity_s or len(self.ids.stored) > most:
                self.ids.forget(name)
                del self._left_at[name]


def _is_chunk_before_last(run: SendRun, index: int) -> bool:
    unusual = run.unusual.get(index)
    if unusual is None or not unusual.is_chunk:
        return False
    metadata = metadata_of(run.entries[index])
    return metadata is not None and not is_last_chunk(metadata)


def is_last_chunk(metadata: MessageMetadata) -> bool:
    """Whether the entry completes its message: it is no chunk, or the last one."""
    if not metadata.HasField("chunk_id"):
        return True
    return metadata.chunk_id >= metadata.num_chunks_from_msg - 1
