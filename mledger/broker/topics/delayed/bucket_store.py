"""A subscription's buckets of delayed messages in ledgers that its cursor names (R10, D3).

A bucket counts from the write of the cursor's record on that names it. The same write ends those that it replaces. A
crash before it leaves a ledger with a pending record, a crash after it one with a deletion record: the next opening of
the topic deletes both. A Java broker, which has no such records, finds and leaves the same names.
"""

import asyncio
from collections.abc import Iterable, Sequence

from mledger.bookie.errors import DigestMismatch, NoSuchEntry, NoSuchLedger, Unauthorized
from mledger.broker.dispatch.waiting.delayed_bucket import DelayedEntry, SegmentSummary, StoredBucket, plan_kept
from mledger.broker.topics.delayed.bucket_format import (
    belongs,
    bucket_name,
    custom_metadata,
    decode_segment,
    decode_summaries,
    encode_segment,
    encode_summaries,
    parse_bucket_name,
)
from mledger.cursors.cursor import Cursor
from mledger.ledgers.orphans.pending_records import bucket_ledgers, is_ledger_id
from mledger.metastore.errors import MledgerError, RecordError
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

LOST = (NoSuchLedger, NoSuchEntry, RecordError)
"""What a bucket that cannot be read again raises: it is given up, and what it knew is read from the topic."""


async def encode_in_turns(segments: Sequence[Sequence[DelayedEntry]]) -> tuple[tuple[SegmentSummary, ...], list[bytes]]:
    """The summaries of segments, and the entries of the bucket's ledger.

    A segment takes some 20 ms: the loop serves others after each.
    """
    summaries: list[SegmentSummary] = []
    encoded: list[bytes] = []
    for segment in segments:
        summaries.append(SegmentSummary.of(segment))
        encoded.append(encode_segment(segment))
        await asyncio.sleep(0)
    return tuple(summaries), [encode_summaries(summaries), *encoded]


class BucketStore:
    """Reads and writes the buckets of one cursor; `topic` is the topic's name."""

    def __init__(self, cursor: Cursor, topic: str) -> None:
        self._cursor = cursor
        self.topic = topic
        self.buckets: list[StoredBucket] = []
        """The buckets that count, by their ledgers."""

    @property
    def cursor(self) -> str:
        """The cursor's name."""
        return self._cursor.name

    @property
    def ledgers(self) -> list[int]:
        """The ledgers of all buckets that the cursor names, also of those that do not count yet, or no longer."""
        return bucket_ledgers(self._cursor.cursor_properties.items())

    async def recover(self) -> None:
        """Find the buckets that the cursor names, and delete those that nobody needs.

        Raises:
            BookieError, StoreUnavailable: one cannot be read now.
        """
        names = [(name, found) for name in self._cursor.cursor_properties if (found := parse_bucket_name(name))]
        if not names:
            return
        stored = await asyncio.gather(*(self._find(name, *ledgers) for name, ledgers in names))
        foreign = [name for (name, _), bucket in zip(names, stored, strict=True) if bucket is None]
        self.buckets, merged = plan_kept(bucket for bucket in stored if bucket is not None)
        passed = [each for each in self.buckets if each.end < self._cursor.mark_delete.ledger_id or not each.segments]
        await self._cursor.detach_ledgers(foreign, delete=False)
        await self.delete([*merged, *passed])
        log.info("delayed_messages_found", topic=self.topic, cursor=self._cursor.name, buckets=len(self.buckets))

    async def _find(self, name: str, start: int, end: int) -> StoredBucket | None:
        """The bucket of that name, without segments if it is lost; None if the ledger is not this subscription's."""
        text = self._cursor.cursor_properties[name]
        try:
            if not is_ledger_id(text):
                return None
            reader = await self._cursor.open_attached(int(text))
            if not belongs(dict(reader.metadata.custom_metadata), self.topic, self._cursor.name):
                self._warn(name, f"ledger {text} is not a bucket of this subscription")
                return None
            (data,) = await reader.read(0, 0)
            return StoredBucket(start, end, decode_summaries(data, f"entry 0 of ledger {text}"), name, int(text))
        except (DigestMismatch, Unauthorized) as error:
            self._warn(name, str(error))
            return None
        except LOST as error:
            self._warn(name, str(error))
            return StoredBucket(start, end, (), name, int(text))

    def _warn(self, name: str, error: str) -> None:
        log.warning(
            "delayed_messages_lost",
            topic=self.topic,
            cursor=self._cursor.name,
            bucket=name,
            error=error,
            hint="the messages are there: the index of them is built again by reading",
        )

    async def write(
        self, segments: Sequence[Sequence[DelayedEntry]], replacing: Sequence[StoredBucket] = ()
    ) -> StoredBucket:
        """Store a bucket with these segments, in place of others; durable on return.

        Raises MledgerError: it is not stored, or that is not known yet.
        """
        ledgers = [entry.ledger_id for segment in segments for entry in segment]
        start = min(ledgers) if not replacing else min(each.start for each in replacing)
        end = max(ledgers) if not replacing else max(each.end for each in replacing)
        name = bucket_name(start, end)
        summaries, entries = await encode_in_turns(segments)
        stored_in = await self._cursor.attach_ledger(
            name,
            custom_metadata(name, self.topic, self._cursor.name),
            entries,
            [each.name for each in replacing],
        )
        bucket = StoredBucket(start, end, summaries, name, stored_in)
        self._replace(replacing, bucket)
        return bucket

    async def read(self, bucket: StoredBucket, segment: int) -> list[DelayedEntry]:
        """The entries of a segment. Raises BookieError, RecordError, StoreUnavailable."""
        reader = await self._cursor.open_attached(bucket.stored_in)
        (data,) = await reader.read(segment + 1, segment + 1)
        return decode_segment(data, f"entry {segment + 1} of ledger {bucket.stored_in}")

    async def delete(self, buckets: Iterable[StoredBucket]) -> None:
        """Delete buckets, which count no longer at once. Raises MledgerError: that is not durable yet."""
        gone = list(buckets)
        self._replace(gone)
        await self._cursor.detach_ledgers([each.name for each in gone])

    async def clear(self) -> None:
        """Delete all buckets of a cursor that was moved, which has moved whether that becomes durable now or not.

        Those that are found again later are not wrong: of what they cover, all that is unacknowledged is read.
        """
        try:
            await self.delete(self.buckets)
        except MledgerError as error:
            log.warning("delayed_messages_not_deleted", topic=self.topic, cursor=self._cursor.name, error=error)

    def _replace(self, gone: Sequence[StoredBucket], *new: StoredBucket) -> None:
        left = [each for each in self.buckets if not any(each is other for other in gone)]
        self.buckets = sorted([*left, *new], key=lambda each: each.start)
