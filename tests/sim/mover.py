"""Replicates a ledger from one bookie to another, as BookKeeper's workers of re-replication do.

Of a ledger that is not closed, all ensembles but the last are replicated: their entries are final, and its writer, or
its recovery, goes on meanwhile. A worker ends with its session; without the lock, the other bookie may have deleted
again what it was given.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.frames import recovery_parts
from mledger.bookie.client.connections.pool import Lane
from mledger.bookie.digest import master_key
from mledger.bookie.errors import BookieUnavailable
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.errors import NodeExists, NodeNotFound
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.records.paths import underreplication_lock_path
from mledger.metastore.store import MetadataStore

_WAIT_S = 2.0


class _Added:
    """Listens to the adds of one ledger until so many entries are stored."""

    def __init__(self, count: int) -> None:
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _stored(self, count: int) -> None:
        self._left -= count
        if self._left <= 0 and not self.done.done():
            self.done.set_result(None)

    def acknowledged_run(self, connection: BookieConnection, first: int, last: int) -> None:
        self._stored(last - first + 1)

    def acknowledged(self, connection: BookieConnection, entries: list[int]) -> None:
        self._stored(len(entries))

    def refused(self, connection: BookieConnection, entry: int, code: int) -> None:
        self.connection_lost(connection, f"error {code}")

    def connection_lost(self, connection: BookieConnection, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(BookieUnavailable(f"{connection.bookie_id}: {reason}"))

    def writable_again(self, connection: BookieConnection) -> None:
        """There is nothing to wait for."""


async def move_fragment(
    store: MetadataStore, client: BookKeeper, ledger: int, bookies: Sequence[str], which: float
) -> str:
    """Copy what a bookie has of a ledger, then name the other bookie in its place; what was done, in words."""
    lock = underreplication_lock_path(ledger)
    try:
        await store.create(lock, b"", ephemeral=True, parents=True)
    except NodeExists:
        return "is being replicated already"
    try:
        return await _move(store, client, ledger, bookies, which)
    finally:
        with contextlib.suppress(NodeNotFound):
            await store.delete(lock)


async def _move(store: MetadataStore, client: BookKeeper, ledger: int, bookies: Sequence[str], which: float) -> str:
    ledgers = LedgerStore(store)
    await store.sync()
    metadata, version = await ledgers.read(ledger)
    settled, last_entry = _settled(metadata)
    named = sorted({bookie for segment in settled for bookie in segment.bookies})
    others = [bookie for bookie in bookies if bookie not in named]
    if not settled or not others:
        return "is not moved: its only ensemble is written, or there is no other bookie"
    source, target = named[int(which * len(named))], others[int(which * 100) % len(others)]
    reader = await client.open_ledger_no_recovery(ledger)
    entries = [(await reader.read_entry(entry)).stored for entry in range(last_entry + 1)]
    if entries:
        connection = await client._pool.connection(target, Lane.RECOVERY)
        added = _Added(len(entries))
        connection.listen(ledger, added)
        try:
            connection.write(b"".join(recovery_parts(entries, master_key(b""))))
            async with asyncio.timeout(_WAIT_S):
                await added.done
        except TimeoutError:
            return f"is not moved: {target} does not answer"
        finally:
            connection.unlisten(ledger, added)
    stat = await store.exists(underreplication_lock_path(ledger))
    if stat is None or stat.ephemeral_owner != store.owner_at(underreplication_lock_path(ledger)):
        return "is not moved: the lock ended with its session"
    segments = tuple(
        Segment(segment.first_entry, tuple(target if bookie == source else bookie for bookie in segment.bookies))
        for segment in settled
    )
    written = metadata.segments[len(settled) :]
    await ledgers.put(ledger, replace(metadata, segments=(*segments, *written)), version)
    return f"was moved from {source} to {target}" + (", and is not closed" if written else "")


def _settled(metadata: LedgerMetadata) -> tuple[tuple[Segment, ...], int]:
    """The ensembles whose entries are final, and the last of those entries."""
    if metadata.state is LedgerState.CLOSED:
        return metadata.segments, metadata.last_entry
    return metadata.segments[:-1], metadata.segments[-1].first_entry - 1
