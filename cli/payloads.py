"""Payloads to publish, in batches: lines of a file or of stdin, or made to a count and size."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

BATCH_ENTRIES = 500
BATCH_BYTES = 1024 * 1024


def lines(stream: BinaryIO) -> Iterator[bytes]:
    """Each line without its newline; empty ones too."""
    for line in stream:
        yield line.removesuffix(b"\n")


def made(count: int, size: int) -> Iterator[bytes]:
    """`count` payloads of `size` bytes: their number with leading zeros, or as many of its last digits as fit."""
    for number in range(count):
        yield f"{number:0{size}d}"[-size:].encode()


def batches(payloads: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The payloads in lists of at most 500 entries and about 1 MiB."""
    batch: list[bytes] = []
    size = 0
    for payload in payloads:
        batch.append(payload)
        size += len(payload)
        if len(batch) == BATCH_ENTRIES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
