"""Clients of a cluster, and ledgers that a test writes by hand."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence

from mledger.bookie import wire
from mledger.bookie.client import BookKeeper, ClientConfig
from mledger.bookie.client.ledgers.reader import LedgerReader
from mledger.bookie.digest import make_digest, master_key
from mledger.bookie.errors import RecoveryUndecided
from mledger.metastore.cluster.ledgers import LedgerStore
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.url import open_store
from tests.support.bookies.raw_bookie import RawBookieClient

QUICK = ClientConfig(replace_retry_s=0.05)
"""Retries replacements at once."""


@contextlib.asynccontextmanager
async def client(url: str, config: ClientConfig = QUICK, seed: int = 1) -> AsyncIterator[BookKeeper]:
    """A client with a metadata session of its own."""
    async with await open_store(url) as store:
        bookkeeper = BookKeeper(store, config, rng=random.Random(seed))
        try:
            yield bookkeeper
        finally:
            await bookkeeper.close()


async def open_when_reachable(bookkeeper: BookKeeper, ledger: int) -> LedgerReader:
    """Open the ledger. The client may briefly take a restarted bookie for dead."""
    while True:
        try:
            return await bookkeeper.open_ledger(ledger)
        except RecoveryUndecided:
            await asyncio.sleep(0.02)


def stored_entry(
    ledger: int, number: int, payload: bytes, length: int, last_add_confirmed: int, digest: bytes | None = None
) -> bytes:
    """An entry as bookies store it, with CRC32C, or with the `digest` given."""
    head = wire.ENTRY_HEAD.pack(ledger, number, last_add_confirmed, length)
    return head + (digest or make_digest(DigestType.CRC32C, b"").value(head, payload)) + payload


async def lay_down_ledger(
    url: str,
    ensemble: Sequence,
    write_quorum: int,
    ack_quorum: int,
    placed: Sequence[tuple[int, bytes]] = (),
    *,
    last_entry: int | None = None,
    length: int = 0,
    entries_of: int | None = None,
) -> int:
    """Create a ledger's metadata over the bookies `ensemble`, and store `placed`: (ensemble index, stored entry).

    With `last_entry` the ledger is closed. Returns its id, which is that of `entries_of` if given.
    """
    async with await open_store(url) as store:
        records = LedgerStore(store)
        ledger = await records.next_id() if entries_of is None else entries_of
        closed = last_entry is not None
        metadata = LedgerMetadata(
            len(ensemble),
            write_quorum,
            ack_quorum,
            (Segment(0, tuple(bookie.bookie_id for bookie in ensemble)),),
            state=LedgerState.CLOSED if closed else LedgerState.OPEN,
            last_entry=last_entry if last_entry is not None else -1,
            length=length,
        )
        await records.create(ledger, metadata)
    for index, stored in placed:
        await store_raw(ensemble[index], stored)
    return ledger


async def store_raw(bookie, stored: bytes) -> None:
    """Store an entry on one bookie only."""
    async with RawBookieClient(bookie) as raw:
        answer = await raw.ask(wire.encode_add(master_key(b""), stored))
        assert answer.error == 0


async def read_raw(bookie, ledger: int, entry: int) -> wire.Response:
    """What one bookie stores of an entry."""
    async with RawBookieClient(bookie) as raw:
        return await raw.ask(wire.encode_read(ledger, entry))


async def holders(bookies, ledger: int, entry: int) -> set[str]:
    """The ids of the bookies that store an entry."""
    return {bookie.bookie_id for bookie in bookies if (await read_raw(bookie, ledger, entry)).error == 0}


def payloads(count: int, start: int = 0, size: int = 20) -> list[bytes]:
    """Distinct payloads."""
    return [f"entry {number}".encode().ljust(size, b".") for number in range(start, start + count)]
