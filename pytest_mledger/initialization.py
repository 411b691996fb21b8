"""A short program for the fork server: creates the nodes that every cluster has."""

import asyncio
from collections.abc import Sequence

from mledger.metastore.cluster.layout import initialize
from mledger.metastore.url import open_store


def main(arguments: Sequence[str]) -> int:
    """Initialise the cluster whose metadata URL is the only argument; returns the exit code."""
    (url,) = arguments
    asyncio.run(_initialize(url))
    return 0


async def _initialize(url: str) -> None:
    async with await open_store(url) as store:
        await initialize(store)
