"""The payloads to append: distinct ones, repeated in turn, so that an entry's number determines its content."""

import itertools
from collections.abc import Iterator
from random import Random

from demo.flights import encode, rows

POOL_BYTES = 32 << 20
POOL_ENTRIES = 65_521  # prime: no two batches of one run are alike
SMALLEST_POOL = 509
FLIGHTS = "flights"


def pool(kind: str) -> list[bytes]:
    """Distinct payloads: `flights` rows as JSON, or random ones of `kind` bytes."""
    if kind == FLIGHTS:
        return [encode(row) for row in itertools.islice(rows(), POOL_ENTRIES)]
    size = int(kind)
    count = max(SMALLEST_POOL, min(POOL_ENTRIES, POOL_BYTES // size))
    random = Random(size)  # the same in every process, so that a reader knows what was appended
    return [number.to_bytes(8, "big") + random.randbytes(size - 8) for number in range(count)]


def batches(payloads: list[bytes], size: int) -> Iterator[list[bytes]]:
    """Endless batches of `size` payloads, going round the pool."""
    doubled = payloads + payloads[:size]
    start = 0
    while True:
        yield doubled[start : start + size]
        start = (start + size) % len(payloads)
