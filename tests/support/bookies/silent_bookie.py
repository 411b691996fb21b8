"""A registered bookie that accepts connections and never answers, as on a frozen machine."""

import contextlib
import socket
from collections.abc import AsyncIterator

from mledger.metastore.cluster.bookies import register
from mledger.metastore.url import open_store


@contextlib.asynccontextmanager
async def silent_bookie(url: str) -> AsyncIterator[str]:
    """Yields its id. It is registered while the context lasts. Nothing accepts or reads: the operating system does."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        host, port = listening.getsockname()
        bookie_id = f"{host}:{port}"
        async with await open_store(url) as store:
            await register(store, bookie_id, host, port)
            yield bookie_id
