"""What a topic stores and reads: rates, and how long writes take and how large entries are, in Pulsar's buckets.

It counts by the batch into lists. As in Pulsar the figures are those between the last two samples.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from mledger.broker.topics.client_rates import SampledRates

LATENCY_BOUNDS_US = (500, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 1_000_000)
SIZE_BOUNDS = (128, 512, 1_024, 2_048, 4_096, 16_384, 102_400, 1_232_896)
"""Upper bounds in bytes; one more bucket holds what is above the last."""
_US = 1_000_000


class BucketCounts(NamedTuple):
    """How many values fell into each bucket, and their sum."""

    buckets: tuple[int, ...]
    sum: int

    @property
    def observed(self) -> int:
        """How many values there were."""
        return sum(self.buckets)

    def plus(self, other: "BucketCounts") -> "BucketCounts":
        """Those of two topics together."""
        buckets = tuple(map(int.__add__, self.buckets, other.buckets))
        return BucketCounts(buckets, self.sum + other.sum)


NO_LATENCIES = BucketCounts((0,) * (len(LATENCY_BOUNDS_US) + 1), 0)
NO_SIZES = BucketCounts((0,) * (len(SIZE_BOUNDS) + 1), 0)


class StorageRates(NamedTuple):
    """Entries a second: stored, read by cursors, and of these read from bookies."""

    written: float = 0.0
    read: float = 0.0
    missed: float = 0.0


class StorageFigures:
    """The figures of one topic; `latencies` (microseconds) and `sizes` (bytes) are those of the last sample."""

    __slots__ = ("_entries", "_latencies", "_latency_us", "_rates", "_size", "_sizes", "latencies", "sizes")

    def __init__(self) -> None:
        self.latencies, self.sizes = NO_LATENCIES, NO_SIZES
        self._rates = SampledRates(len(StorageRates._fields))
        self._entries = 0
        self._clear()

    def _clear(self) -> None:
        self._latencies, self._sizes = [0] * len(NO_LATENCIES.buckets), [0] * len(NO_SIZES.buckets)
        self._latency_us = self._size = 0

    def stored(self, entries: Sequence[bytes], size: int, took_s: float) -> None:
        """Count entries of `size` bytes that were stored together in so many seconds."""
        count, took_us = len(entries), int(took_s * _US)
        self._entries += count
        self._latencies[bisect_left(LATENCY_BOUNDS_US, took_us)] += count
        self._latency_us += took_us * count
        self._size += size
        if count == 1:
            self._sizes[bisect_left(SIZE_BOUNDS, size)] += 1
            return
        ordered = sorted(map(len, entries))
        low, high, before = bisect_left(SIZE_BOUNDS, ordered[0]), bisect_left(SIZE_BOUNDS, ordered[-1]), 0
        for bucket in range(low, high):
            up_to = bisect_right(ordered, SIZE_BOUNDS[bucket])
            self._sizes[bucket] += up_to - before
            before = up_to
        self._sizes[high] += count - before

    @property
    def rates(self) -> StorageRates:
        """Those between the last two samples."""
        return StorageRates(*self._rates.per_second)

    def sample(self, read: int, missed: int) -> None:
        """Take a sample; `read` and `missed` are how many entries were read so far, and of these from bookies."""
        self._rates.sample((self._entries, read, missed))
        self.latencies = BucketCounts(tuple(self._latencies), self._latency_us)
        self.sizes = BucketCounts(tuple(self._sizes), self._size)
        self._clear()
