"""What the metadata store lists of a cluster's bookies, waited for."""

import asyncio

from mledger.metastore.cluster.bookies import list_bookies


async def listed_as(store, read_only):
    """Wait until the only bookie is listed, as a read-only or a writable one."""
    while [each.read_only for each in await list_bookies(store)] != [read_only]:
        await asyncio.sleep(0.02)
