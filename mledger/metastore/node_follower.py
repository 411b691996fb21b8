"""Follows a node of a metadata store for as long as the store is open."""

import asyncio
from collections.abc import Awaitable, Callable

from mledger.metastore.errors import StoreClosed
from mledger.metastore.runtime.logs.failed_rounds import Failed, OutlivedRound
from mledger.metastore.store import MetadataReader

RETRY_S = 1.0


async def follow_node(
    store: MetadataReader,
    path: str,
    look: Callable[[], Awaitable[None]],
    failed: Failed,
    *,
    children: bool = False,
) -> None:
    """Call `look` now and whenever the node has changed, or its children; returns once the store is closed.

    If `look` or the watch fails, in whatever way, `failed` is told, and both begin again after RETRY_S seconds.
    """
    while True:
        with OutlivedRound(failed):
            try:
                async with store.watch(path, children=children) as changes:
                    await look()  # what came before the watch
                    async for _ in changes:
                        await look()
            except StoreClosed:
                return
        await asyncio.sleep(RETRY_S)
