"""A registered bookie that takes connections and never answers, as a frozen machine's does."""

import contextlib
import socket
from collections.abc import AsyncIterator

from mledger.metastore.cluster.bookies import register
from mledger.metastore.url import open_store


@contextlib.asynccontextmanager
async def silent_bookie(url: str) -> AsyncIterator[str]:
    """Its id; it is registered for as long as the context lasts. Nobody accepts or reads: the system does."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        host, port = listening.getsockname()
        bookie_id = f"{host}:{port}"
        async with await open_store(url) as store:
            await register(store, bookie_id, host, port)
            yield bookie_id
