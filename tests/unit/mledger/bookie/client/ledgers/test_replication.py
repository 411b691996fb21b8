"""What a bookie gets that takes a place in an ensemble: nothing from which it would prove a false absence."""

import asyncio
import random

import pytest

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run

ENSEMBLE = ("one", "two", "three")


class HeardConnection:
    """A connection that keeps what was written to it."""

    closed = congested = False
    acknowledged_at = heard_at = 0.0

    def __init__(self, bookie_id):
        self.bookie_id, self.written = bookie_id, b""

    def listen(self, *_):
        """Its answers are given by the test."""

    unlisten = listen

    def write(self, frames):
        self.written += frames


class ConnectionsOfATest:
    """A pool that makes a new connection each time; nobody knows of other bookies."""

    closed = False
    quarantine = Quarantine(0.0, lambda: 0.0, lambda _: 0.0)

    def __init__(self):
        self.made = {}

    async def connections(self, bookies, _):
        self.made |= {bookie: HeardConnection(bookie) for bookie in bookies}
        return {bookie: self.made[bookie] for bookie in bookies}

    async def usable(self, *_, **__):
        raise StoreUnavailable("the test has no list of bookies")


@pytest.mark.parametrize(
    ("both_have", "sent"),
    [(3, b"<3><4><5>"), (5, b"<5>"), (2, b"<1><2><3><4><5>")],
    ids=["a part of the batch", "all but the last entry", "none of it"],
)
def test_no_acknowledged_entry_is_left_out_between_those_that_a_returning_bookie_gets(both_have, sent):
    """It may have lost them with its disk, and would take the first one that it gets for the end of what it lacks."""

    async def main():
        pool, quorum = ConnectionsOfATest(), WriteQuorum(3, 3, 2)

        def frame(payloads, first, *_):
            return [part for entry in range(first, first + len(payloads)) for part in (b"<%d" % entry, b">")]

        async def commit(*_):
            raise AssertionError("the ensemble is the same")

        replication = Replication(7, ENSEMBLE, quorum, frame, commit, pool, ClientConfig(), rng=random.Random(1))
        await replication.start()
        one, two, three = (pool.made[bookie] for bookie in ENSEMBLE)
        replication.append([b""] * 2, 0)
        for connection in (one, two, three):
            replication.acknowledged_run(connection, 0, 1)
        replication.append([b""] * 4, 0)
        replication.acknowledged_run(two, 2, 5)
        replication.acknowledged_run(three, 2, both_have - 1)
        replication.connection_lost(two, "its disk was lost")
        replication.connection_lost(one, "the test ended it")
        while pool.made["two"] is two or not pool.made["two"].written:
            await asyncio.sleep(0)
        assert pool.made["two"].written == sent
        await asyncio.sleep(0)
        replication.stop(StoreUnavailable("the test is over"))

    run(main())
