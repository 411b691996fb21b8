"""Reads every replica of a topic's entries by itself, straight from its bookie."""

import asyncio

from bookie import wire
from bookie.client.framing import open_entry
from bookie.digest import make_digest
from bookie.errors import Code
from metastore.ledger_metadata import DigestType, LedgerMetadata
from metastore.ledgers import LedgerStoreReader
from metastore.store import MetadataReader

_DIGEST = make_digest(DigestType.CRC32C, b"")
_BATCH_BYTES = 1 << 20


async def copies(store: MetadataReader, ledger_ids: list[int]) -> dict[tuple[int, int], list[bytes]]:
    """The payloads of each entry, one for every bookie of its ensemble that holds it; each passed its digest."""
    found: dict[tuple[int, int], list[bytes]] = {}
    for ledger_id in ledger_ids:
        metadata, _ = await LedgerStoreReader(store).read(ledger_id)
        for bookie, first, last in _spans(metadata):
            for entry, payload in await _read(bookie, ledger_id, first, last):
                found.setdefault((ledger_id, entry), []).append(payload)
    return found


def _spans(metadata: LedgerMetadata) -> list[tuple[str, int, int]]:
    """Bookie, first and last entry of every segment (all bookies of an ensemble hold all entries: E = Wq)."""
    assert metadata.ensemble_size == metadata.write_quorum
    ends = [segment.first_entry - 1 for segment in metadata.segments[1:]] + [metadata.last_entry]
    return [
        (bookie, segment.first_entry, end)
        for segment, end in zip(metadata.segments, ends, strict=True)
        for bookie in segment.bookies
    ]


async def _read(bookie: str, ledger_id: int, first: int, last: int) -> list[tuple[int, bytes]]:
    host, port = bookie.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    found, entry = [], first
    try:
        while entry <= last:
            writer.write(wire.encode_batch_read(ledger_id, entry, 1, 0, _BATCH_BYTES))
            head = await reader.readexactly(4)
            response = wire.decode_response(head + await reader.readexactly(int.from_bytes(head, "big")))
            if response.error != Code.OK:
                assert response.error in (Code.NO_ENTRY, Code.NO_LEDGER), response
                entry += 1
                continue
            for stored in wire.batch_entries(response.body):
                opened = open_entry(stored, ledger_id, entry, _DIGEST)
                assert opened is not None, f"bookie {bookie}: entry {ledger_id}:{entry} fails its digest"
                if entry <= last:
                    found.append((entry, opened.payload))
                entry += 1
    finally:
        writer.close()
    return found
