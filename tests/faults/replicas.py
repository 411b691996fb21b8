"""Reads each replica of a ledger's entries separately, straight from its bookie."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from mledger.bookie import wire
from mledger.bookie.client.connections.frames import open_entry
from mledger.bookie.digest import make_digest
from mledger.bookie.errors import Code
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata
from mledger.metastore.store import MetadataReader

_DIGEST = make_digest(DigestType.CRC32C, b"")
_BATCH_BYTES = 1 << 20
_ANSWER_S = 120.0

Address = tuple[str, int]


@dataclass(slots=True)
class Copies:
    """The payloads of each entry, one for every bookie of its ensemble that has it; `bad` ones fail their digest."""

    payloads: dict[int, list[bytes]] = field(default_factory=dict)
    bad: list[tuple[str, int]] = field(default_factory=list)  # bookie, entry


async def copies(store: MetadataReader, ledger_id: int, addresses: Mapping[str, Address] | None = None) -> Copies:
    """Every copy of every entry of a closed ledger. `addresses`: where bookies are, if not where their ids say."""
    metadata, _ = await LedgerStoreReader(store).read(ledger_id)
    found = Copies()
    for bookie, first, last in _spans(metadata):
        host, port = bookie.rsplit(":", 1)
        address = (addresses or {}).get(bookie, (host, int(port)))
        await _read(found, bookie, address, ledger_id, first, last)
    return found


def _spans(metadata: LedgerMetadata) -> list[tuple[str, int, int]]:
    """Bookie, first and last entry of every segment (all bookies of an ensemble have all entries: E = Wq)."""
    assert metadata.ensemble_size == metadata.write_quorum
    ends = [segment.first_entry - 1 for segment in metadata.segments[1:]] + [metadata.last_entry]
    return [
        (bookie, segment.first_entry, end)
        for segment, end in zip(metadata.segments, ends, strict=True)
        for bookie in segment.bookies
    ]


async def _read(found: Copies, bookie: str, address: Address, ledger_id: int, first: int, last: int) -> None:
    reader, writer = await asyncio.open_connection(*address, limit=2 * _BATCH_BYTES)
    entry = first
    try:
        while entry <= last:
            writer.write(wire.encode_batch_read(ledger_id, entry, 1, 0, _BATCH_BYTES))
            try:
                async with asyncio.timeout(_ANSWER_S):
                    head = await reader.readexactly(4)
                    body = await reader.readexactly(int.from_bytes(head, "big"))
            except TimeoutError:
                raise TimeoutError(f"bookie {bookie} does not answer a read of {ledger_id}:{entry}") from None
            response = wire.decode_response(head + body)
            if response.error != Code.OK:
                assert response.error in (Code.NO_ENTRY, Code.NO_LEDGER, Code.IO_ERROR), response
                entry += 1
                continue
            for stored in wire.batch_entries(response.body):
                opened = open_entry(stored, ledger_id, entry, _DIGEST)
                if opened is None:
                    found.bad.append((bookie, entry))
                elif entry <= last:
                    found.payloads.setdefault(entry, []).append(opened.payload)
                entry += 1
    finally:
        writer.close()
