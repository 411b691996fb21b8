"""What a bookie gets that takes a place in an ensemble: all that does not count yet, and no gap before that."""

import asyncio
import random

import pytest

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.bookie.client.plans.topology import ONE_RACK
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run


class HeardConnection:
    """A connection that keeps what was written to it."""

    closed = congested = False
    acknowledged_at = heard_at = 0.0

    def __init__(self, bookie_id):
        self.bookie_id, self.written = bookie_id, b""  # frames as <entry>

    def listen(self, *_):
        """Its answers are given by the test."""

    unlisten = listen

    def write(self, frames):
        self.written += frames


class ConnectionsOfATest:
    """A pool that makes a new connection each time, to the bookies `others` too, if anybody knows of them."""

    closed = False
    quarantine = Quarantine(0.0, lambda: 0.0, lambda _: 0.0)

    def __init__(self, others=()):
        self.made, self._others = {}, set(others)

    async def connections(self, bookies, _):
        self.made |= {bookie: HeardConnection(bookie) for bookie in bookies}
        return {bookie: self.made[bookie] for bookie in bookies}

    async def usable(self, *_, **__):
        if not self._others:
            raise StoreUnavailable("the test has no list of bookies")
        return self._others, ONE_RACK

    async def writing(self, *ensemble, ack_quorum, commit=None):
        """Entries on their way to these bookies, and the connections to them."""

        def frame(payloads, first, *_):
            return [part for entry in range(first, first + len(payloads)) for part in (b"<%d" % entry, b">")]

        quorum = WriteQuorum(len(ensemble), len(ensemble), ack_quorum)
        replication = Replication(7, ensemble, quorum, frame, commit, self, ClientConfig(), rng=random.Random(1))
        await replication.start()
        return replication, *(self.made[bookie] for bookie in ensemble)


@pytest.mark.parametrize(
    ("both_have", "sent"),
    [(2, b"<2><3><4><5>"), (3, b"<3><4><5>"), (5, b"<5>"), (6, b"<5>")],
    ids=[
        "nothing of the batch",
        "a part of it",
        "all but the last entry",
        "all of it",
    ],
)
def test_no_acknowledged_entry_is_left_out_between_those_that_a_returning_bookie_gets(both_have, sent):
    """It may have lost them with its disk, and would take the first one that it gets for the end of what it lacks."""

    async def main():
        pool = ConnectionsOfATest()
        replication, one, two, three = await pool.writing("one", "two", "three", ack_quorum=2)
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


def test_a_new_member_gets_all_that_did_not_count_though_another_one_is_lost_at_once():
    """The metadata names both from then on, and what was acknowledged while it was written counts at once."""

    async def main():
        pool, committed = ConnectionsOfATest(("four", "five")), asyncio.Event()

        async def commit(*_):
            for connection in (one, two, three):
                replication.acknowledged_run(connection, 0, 3)
            pool.made["four"].closed = True
            committed.set()

        replication, one, two, three, *lost = await pool.writing(*"123", "d", "e", ack_quorum=3, commit=commit)
        replication.append([b""] * 4, 0)
        for connection in lost:
            replication.connection_lost(connection, "the test ended it")
        await committed.wait()
        while not pool.made["five"].written:
            await asyncio.sleep(0)
        assert pool.made["five"].written == b"<0><1><2><3>"
        replication.stop(StoreUnavailable("the test is over"))

    run(main())


@pytest.mark.parametrize(
    ("size", "sent", "committed"),
    [(20 << 10, b"<2><3><4>", []), (40 << 10, b"<4>", [(4, ("one", "two", "three"))])],
    ids=["entries that are held", "entries that are too large for that"],
)
def test_no_gap_is_left_in_a_segment_by_a_bookie_that_is_started_again(size, sent, committed):
    """It gets what was acknowledged meanwhile; else the segment ends there, as re-replication looks at ends (Q6)."""

    async def main():
        pool, found = ConnectionsOfATest(), []

        async def commit(*change):
            found.append(change)
            raise StoreUnavailable("nothing depends on it")

        replication, one, two, three = await pool.writing("one", "two", "three", ack_quorum=2, commit=commit)
        replication.append([b""] * 2, 0)
        for connection in (one, two, three):
            replication.acknowledged_run(connection, 0, 1)
        replication.connection_lost(three, "it was started again")
        for entry in (2, 3, 4):
            replication.append([bytes(size)], 0)
            for connection in (one, two):
                replication.acknowledged_run(connection, entry, entry)
        await replication._changes.settled()
        assert pool.made["three"].written == sent
        assert found == committed
        assert replication.failure is None
        replication.stop(StoreUnavailable("the test is over"))

    run(main())
