"""What a bookie gets that takes a place in an ensemble: all that does not count yet, and no gap before that."""

import asyncio
import random

import pytest

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.bookie.client.plans.topology import ONE_RACK
from mledger.bookie.errors import LedgerFenced
from mledger.metastore.errors import StoreUnavailable
from tests.support.aio import run

CONFIG = ClientConfig()


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

    async def writing(self, *ensemble, ack_quorum, commit=None, config=CONFIG):
        """Entries on their way to these bookies, and the connections to them."""

        def frame(payloads, first, *_):
            return [part for entry in range(first, first + len(payloads)) for part in (b"<%d" % entry, b">")]

        quorum = WriteQuorum(len(ensemble), len(ensemble), ack_quorum)
        replication = Replication(7, ensemble, quorum, frame, commit, self, config, rng=random.Random(1))
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


ALL = ("one", "two", "three")


async def with_a_bookie_away(pool, commit, *, size=40 << 10, acknowledged=(2, 3, 4), **settings):
    """Entries 0 to 4 of which the third bookie was sent two: it was lost then, and returns with the third one.

    The others have those that are `acknowledged`.
    """
    replication, one, two, three = await pool.writing(*ALL, ack_quorum=2, commit=commit, **settings)
    replication.append([b""] * 2, 0)
    for connection in (one, two, three):
        replication.acknowledged_run(connection, 0, 1)
    replication.connection_lost(three, "it was started again")
    for entry in (2, 3, 4):
        replication.append([bytes(size)], 0)
        for connection in (one, two) if entry in acknowledged else ():
            replication.acknowledged_run(connection, entry, entry)
    await replication._changes.settled()
    return replication


@pytest.mark.parametrize(
    ("size", "acknowledged", "sent", "committed"),
    [
        (20 << 10, (2, 3, 4), b"<2><3><4>", []),
        (40 << 10, (2, 3, 4), b"<4>", [(4, ALL)]),
        (80 << 10, (2, 3), b"<4>", [(4, ALL)]),
    ],
    ids=["entries that are held", "entries that are too large for that", "and others on their way"],
)
def test_no_gap_is_left_in_a_segment_by_a_bookie_that_is_started_again(size, acknowledged, sent, committed):
    """It gets what was acknowledged meanwhile; else the segment ends there, as re-replication looks at ends (Q6).

    It has the first entry of the next segment: AutoRecovery fences an open ledger that lacks a copy of that one.
    """

    async def main():
        pool, found = ConnectionsOfATest(), []

        async def commit(*change):
            found.append(change)
            raise StoreUnavailable("nothing depends on it")

        replication = await with_a_bookie_away(pool, commit, size=size, acknowledged=acknowledged)
        assert pool.made["three"].written == sent
        assert found == committed
        assert replication.failure is None
        replication.stop(StoreUnavailable("the test is over"))

    run(main())


def test_who_learns_that_the_ledger_was_fenced_when_a_gap_is_noted_writes_no_more():
    async def main():
        async def commit(*_):
            raise LedgerFenced("another client made it IN_RECOVERY")

        replication = await with_a_bookie_away(ConnectionsOfATest(), commit)
        assert isinstance(replication.failure, LedgerFenced)

    run(main())


def test_a_gap_that_the_metadata_store_does_not_take_keeps_no_other_bookie_away():
    async def main():
        pool = ConnectionsOfATest()
        config = ClientConfig(stall_timeout_s=0.001)
        replication = await with_a_bookie_away(pool, lambda *_: asyncio.Event().wait(), config=config)
        replication.connection_lost(pool.made["two"], "it was started again")
        replication.append([b""], 0)
        await replication._changes.settled()
        assert pool.made["two"].written == b"<5>"
        replication.stop(StoreUnavailable("the test is over"))

    run(main())


def test_a_bookie_that_is_lost_all_the_time_makes_the_metadata_no_larger():
    async def main():
        pool, found = ConnectionsOfATest(), []

        async def commit(*change):
            found.append(change)

        replication = await with_a_bookie_away(pool, commit)
        for entry in range(5, 100):
            replication.connection_lost(pool.made["three"], "it was started again")
            replication.append([bytes(80 << 10)], 0)
            for connection in map(pool.made.get, ("one", "two")):
                replication.acknowledged_run(connection, entry, entry)
            await replication._changes.settled()
        assert len(found) == 20
        assert replication.failure is None
        replication.stop(StoreUnavailable("the test is over"))

    run(main())


def test_a_bookie_that_returns_with_a_gap_is_not_sent_the_end_of_it_when_others_join():
    """Its gap ends a segment before the others join: the last acknowledged entry would hide it."""

    async def main():
        pool, found = ConnectionsOfATest(), []

        async def commit(*change):
            found.append(change)

        replication, one, two, three, four = await pool.writing(*ALL, "four", ack_quorum=2, commit=commit)
        for connection in (three, four):
            replication.connection_lost(connection, "the test ended it")
            replication._changes.failures.take_away(())
        replication.append([b""] * 3, 0)
        for connection in (one, two):
            replication.acknowledged_run(connection, 0, 2)
        joining = await pool.connections(("three", "five"), None)
        await replication._changes._change({2: joining["three"], 3: joining["five"]})
        assert replication.quorum.down == {3}
        await replication._changes._change({3: joining["five"]})
        assert found == [(2, (*ALL, "four")), (3, (*ALL, "five"))]
        replication.stop(StoreUnavailable("the test is over"))

    run(main())


def test_nothing_is_held_for_a_bookie_that_was_sent_it_before_it_was_lost():
    """A broker has thousands of idle ledgers."""

    async def main():
        replication, one, two, three = await ConnectionsOfATest().writing(*ALL, ack_quorum=2)
        replication.append([b""] * 2, 0)
        replication.acknowledged_run(three, 0, 1)
        replication.connection_lost(three, "it was started again")
        for connection in (one, two):
            replication.acknowledged_run(connection, 0, 1)
        assert replication._pending.held_from == 2
        replication.stop(StoreUnavailable("the test is over"))

    run(main())
