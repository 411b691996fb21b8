"""Keeps a dispatcher's index of delayed entries in buckets: seals, loads, merges and ends them, one at a time (D3).

Whatever fails leaves the entries in memory, or to be read from the topic again, and is tried again later.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from mledger.bookie.errors import EntryTooLarge
from mledger.broker.dispatch.waiting.delayed_bucket import (
    BucketLimits,
    DelayedEntry,
    StoredBucket,
    in_order,
    plan_segments,
)
from mledger.broker.dispatch.waiting.delayed_index import DelayedIndex
from mledger.broker.topics.delayed.bucket_store import LOST, BucketStore
from mledger.metastore.errors import MledgerError
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

RETRY_MS = 10_000
_ANY_TIME_MS = 1 << 62


class DelayedBuckets:
    """The buckets of one driver's index."""

    def __init__(self, store: BucketStore, index: DelayedIndex) -> None:
        self._store = store
        self._index = index
        self._limits = index.limits or BucketLimits()
        self._task: asyncio.Task[None] | None = None
        self._now_ms = 0
        self._not_before_ms = 0
        self._stopped = False
        self.on_change: Callable[[], None] = lambda: None
        """Called once something is done, after which more may be due."""

    def run(self, now_ms: int) -> None:
        """Start what is to be done now; `on_change` is called once it is done."""
        if self._task is not None or self._stopped:
            return
        self._now_ms = now_ms
        work = self._plan(now_ms)
        if work is not None:
            self._index.storage_busy = True
            self._task = asyncio.get_running_loop().create_task(work)
            self._task.add_done_callback(self._done)

    def stop(self) -> None:
        """Begin nothing more; what is being stored is stored."""
        self._stopped = True

    def cancel(self) -> None:
        """Begin nothing more, and end what is being done: the topic is closed."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def settled(self) -> None:
        """Wait until nothing is being stored."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._index.storage_busy = False
        if not task.cancelled() and (error := task.exception()) is not None:
            where = {"message": "a bucket of delayed messages failed", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(where)
            self._not_before_ms = self._now_ms + RETRY_MS
        if not self._stopped:
            self.on_change()

    def _plan(self, now_ms: int) -> Coroutine[Any, Any, None] | None:
        index, stored = self._index, self._index.stored
        load_ms = stored.next_load_ms()
        if load_ms is not None and load_ms <= now_ms and (segment := stored.plan_load(now_ms)) is not None:
            return self._load(*segment)
        if now_ms < self._not_before_ms:
            return None
        if consumed := stored.consumed(now_ms):
            return self._end(consumed)
        if index.seal_due:
            return self._seal()
        if 0 < self._limits.max_buckets < stored.bucket_count:
            if neighbours := stored.plan_merge(self._limits.max_buckets):
                return self._merge(neighbours)
            self._not_before_ms = now_ms + RETRY_MS
        return None

    async def _load(self, bucket: StoredBucket, segment: int) -> None:
        try:
            entries = await self._store.read(bucket, segment)
        except LOST as error:
            await self._give_up(bucket, error)
        except MledgerError as error:
            self._failed("delayed_messages_not_loaded", error)
            self._index.stored.load_failed(bucket, self._now_ms + RETRY_MS)
        else:
            self._index.load(bucket, segment, entries)

    async def _give_up(self, bucket: StoredBucket, error: MledgerError) -> None:
        """A bucket cannot be read any more: what it knew is read from the topic."""
        self._failed("delayed_messages_lost", error)
        await self._end([bucket])

    async def _end(self, buckets: Sequence[StoredBucket]) -> None:
        self._index.drop(buckets)
        try:
            await self._store.delete(buckets)
        except MledgerError as error:  # the cursor tries again by itself
            self._failed("delayed_messages_not_ended", error)

    async def _plan_seal(self) -> Sequence[DelayedEntry]:
        """The entries of the next bucket; the loop serves others while that is planned."""
        plan = self._index.plan_seal()
        while True:
            try:
                next(plan)
            except StopIteration as planned:
                entries: Sequence[DelayedEntry] = planned.value
                return entries
            await asyncio.sleep(0)

    async def _seal(self) -> None:
        entries = await self._plan_seal()
        if not entries:
            return
        stored = False
        try:
            bucket, segments = await self._write(entries)
            self._index.sealed(bucket, segments)
            stored = True
            self._log("delayed_messages_sealed", bucket, len(entries))
        except MledgerError as error:
            self._failed("delayed_messages_not_sealed", error)
        finally:
            if not stored:
                self._index.seal_failed()

    async def _merge(self, neighbours: Sequence[tuple[StoredBucket, int]]) -> None:
        old = [bucket for bucket, _ in neighbours]
        found: list[list[DelayedEntry]] = []
        try:
            for bucket, first in neighbours:
                try:
                    found += [await self._store.read(bucket, each) for each in range(first, len(bucket.segments))]
                except LOST as error:
                    await self._give_up(bucket, error)
                    return
            entries = in_order(found)
            new, _ = await self._write(entries, old)
        except MledgerError as error:
            self._failed("delayed_messages_not_merged", error)
        else:
            self._index.expose(self._index.stored.merged(old, new))
            self._log("delayed_messages_merged", new, len(entries))

    async def _write(
        self, entries: Sequence[DelayedEntry], replacing: Sequence[StoredBucket] = ()
    ) -> tuple[StoredBucket, list[list[DelayedEntry]]]:
        segments = plan_segments(entries, self._limits)
        try:
            return await self._store.write(segments, replacing), segments
        except EntryTooLarge:  # times far apart make many segments
            segments = plan_segments(entries, replace(self._limits, max_segment_ms=_ANY_TIME_MS))
            return await self._store.write(segments, replacing), segments

    def _log(self, event: str, bucket: StoredBucket, count: int) -> None:
        log.info(
            event,
            topic=self._store.topic,
            cursor=self._store.cursor,
            bucket=bucket.name,
            ledger=bucket.stored_in,
            messages=count,
            segments=len(bucket.segments),
        )

    def _failed(self, event: str, error: MledgerError) -> None:
        self._not_before_ms = self._now_ms + RETRY_MS
        log.warning(event, topic=self._store.topic, cursor=self._store.cursor, error=error)
