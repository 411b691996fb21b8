"""How much a check of copies asks one bookie for at once: what does not come in time counts as not readable."""

import pytest

from mledger.bookie.client.checks.replica_check import ReplicaCheck
from mledger.bookie.digest import make_digest
from mledger.metastore.records.ledger_metadata import DigestType, LedgerMetadata, LedgerState, Segment
from mledger.metastore.runtime.rate_limiter import RateLimiter
from tests.support.aio import run
from tests.support.bookies.large_answers import AnsweringConnection

COUNT, SIZE = 100, 1 << 20
MOST = 16 << 20
DIGEST = make_digest(DigestType.CRC32C, b"")


class SeparateConnections:
    """A pool with a connection for each bookie."""

    def __init__(self) -> None:
        self.connections: dict[str, AnsweringConnection] = {}

    def opened(self, bookie: str) -> AnsweringConnection:
        return self.connections.setdefault(bookie, AnsweringConnection(SIZE))


@pytest.mark.parametrize("other", [False, True])
def test_large_copies_are_asked_for_some_at_a_time(other: bool) -> None:
    async def main() -> None:
        bookies = ("a:1", "b:1", "c:1")
        metadata = LedgerMetadata(
            3, 2, 2, (Segment(0, bookies),), state=LedgerState.CLOSED, last_entry=COUNT - 1, length=COUNT * SIZE
        )
        pool = SeparateConnections()
        check = ReplicaCheck(pool, RateLimiter())
        if other:
            found = await check.check_other(AnsweringConnection.LEDGER, metadata, DIGEST, "a:1", "d:1")
            assert (found.whole, found.bad, found.away) == (67, (), ())
        else:
            found = await check.check(AnsweringConnection.LEDGER, metadata, DIGEST, COUNT - 1, COUNT * SIZE)
            assert (found.whole, found.bad, found.away) == (2 * COUNT, (), ())
        assert max(connection.most for connection in pool.connections.values()) <= MOST

    run(main())
