"""A bookie's storage and protocol, served on the test's own event loop without a metadata store or a process."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

from mledger.bookie.server.process.bookie import BookieConfig, ServingBookie
from mledger.bookie.server.process.lost_ledgers import LostLedgers
from mledger.bookie.server.serving.auth import AuthFactory
from mledger.bookie.server.storage.directories.directory import BookieDirectory, new_format
from mledger.bookie.server.storage.rows.ledger_data import LedgerData

SMALL = BookieConfig(journal_file_bytes=1 << 20)


@dataclass
class LocalBookie:
    """Its address and its parts."""

    bookie: ServingBookie
    address: tuple[str, int]


@contextlib.asynccontextmanager
async def serving(
    path: Path,
    *,
    config: BookieConfig = SMALL,
    auth: AuthFactory | None = None,
    port: int = 0,
    lost: Iterable[tuple[int, LedgerData]] = (),
    known_from: int = 0,
) -> AsyncIterator[LocalBookie]:
    """A bookie on the directory `path`. It closes with the context; the directory can be served again. Port 0: any.

    `lost` is what it notes of ledgers before it serves, and `known_from` the first that it knows from the beginning.
    """
    directory = BookieDirectory(str(path))
    if directory.format is None:
        directory.begin(new_format("bookie", "instance"))
    bookie = ServingBookie(directory, config, auth)
    if lost or directory.unserved:
        noted = LostLedgers()
        noted.known_from = known_from
        for ledger, record in lost:
            noted.add(ledger, record)
        await bookie.note_lost(noted)
    directory.finish()
    server = await bookie.serve("127.0.0.1", port)
    try:
        yield LocalBookie(bookie, server.sockets[0].getsockname()[:2])
    finally:
        server.close()
        await bookie.close()
        directory.unlock()
