"""The clients of commands that only look: their types have no method that writes (rule M9)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bookie.client.client import BookKeeperReader, ClientConfig
from metastore.store import MetadataReader
from metastore.url import open_reader


@dataclass(frozen=True, slots=True)
class Looking:
    """A metadata store and the bookies, to look at."""

    metadata: MetadataReader
    bookies: BookKeeperReader


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Looking]:
    """Connect to the cluster at `url` to look; StoreUnavailable when no server answers in time."""
    async with await open_reader(url) as reader:
        bookies = BookKeeperReader(reader, ClientConfig())
        try:
            yield Looking(reader, bookies)
        finally:
            await bookies.close()
