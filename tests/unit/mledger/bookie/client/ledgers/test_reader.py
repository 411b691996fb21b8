"""How much a reader asks for at once: answers that do not come in time are asked for again."""

import asyncio
from types import SimpleNamespace

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.client.ledgers.reader import Bounds, LedgerReader
from mledger.bookie.digest import make_digest
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from tests.support.aio import run
from tests.support.bookies.large_answers import AnsweringConnection

BOOKIES = ("a:1", "b:1", "c:1")
COUNT, SIZE = 200, 1 << 20
MOST = 32 << 20


def test_large_entries_of_a_striped_ledger_are_asked_for_some_at_a_time() -> None:
    async def main() -> int:
        connection = AnsweringConnection(SIZE)

        async def connections(bookies, *, within_s):
            return dict.fromkeys(bookies, connection)

        loop = asyncio.get_running_loop()
        pool = SimpleNamespace(quarantine=Quarantine(30.0, loop.time, lambda _: loop.time()), connections=connections)
        metadata = LedgerMetadata(
            3, 2, 2, (Segment(0, BOOKIES),), state=LedgerState.CLOSED, last_entry=COUNT - 1, length=COUNT * SIZE
        )
        reader = LedgerReader(
            AnsweringConnection.LEDGER,
            Bounds(metadata, COUNT - 1, COUNT * SIZE),
            make_digest(DigestType.CRC32C, b""),
            pool,
            ClientConfig(),
            report=lambda _: None,
            reread=None,
        )
        assert [len(payload) for payload in await reader.read(0, COUNT - 1)] == [SIZE] * COUNT
        return connection.most

    assert run(main()) <= MOST
