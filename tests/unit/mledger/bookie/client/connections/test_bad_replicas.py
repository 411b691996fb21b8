"""Bad copies in the log: the first of a kind in full, later ones summed up; the caller learns of each one."""

import asyncio
import logging

import pytest

from mledger.bookie.client.connections.bad_replicas import BadReplica, BadReplicas
from tests.support.aio import run

HERE = "mledger.bookie.client.connections.bad_replicas"


@pytest.fixture
def said(caplog):
    """The lines logged so far."""
    caplog.set_level(logging.WARNING, HERE)
    return lambda: [record.getMessage() for record in caplog.records if record.name == HERE]


def lacks(ledger, entry, bookie="b1", reason="it is not there"):
    return BadReplica(ledger, entry, bookie, reason)


def test_the_first_of_each_ledger_bookie_and_reason_is_logged_in_full_and_the_rest_at_the_close(said):
    async def main():
        heard = []
        replicas = BadReplicas()
        replicas.on_found = heard.append
        met = [lacks(ledger, entry) for ledger in (7, 8) for entry in range(50)]
        met += [lacks(7, 3, "b2"), lacks(7, 3, reason="it fails its digest")]
        for replica in met:
            replicas.note(replica)
        assert heard == replicas.last == met
        assert said() == [
            'event=bad_replica ledger=7 entry=0 bookie=b1 reason="it is not there"',
            'event=bad_replica ledger=8 entry=0 bookie=b1 reason="it is not there"',
            'event=bad_replica ledger=7 entry=3 bookie=b2 reason="it is not there"',
            'event=bad_replica ledger=7 entry=3 bookie=b1 reason="it fails its digest"',
        ]
        replicas.close()
        assert said()[4:] == ['event=bad_replicas_met_again bookie=b1 reason="it is not there" times=98 ledgers=2']
        replicas.close()
        assert len(said()) == 5

    run(main())


def test_repeated_bad_copies_are_summed_up_from_time_to_time(said):
    async def main():
        replicas = BadReplicas(summary_s=0.01)
        for count in (3, 2):
            for entry in range(count):
                replicas.note(lacks(7, entry))
            before = len(said())
            while len(said()) == before:
                await asyncio.sleep(0.01)
        assert said()[1:] == [
            'event=bad_replicas_met_again bookie=b1 reason="it is not there" times=2 ledgers=1',
            'event=bad_replicas_met_again bookie=b1 reason="it is not there" times=2 ledgers=1',
        ]

    run(main())


def test_the_memory_of_bad_copies_is_bounded(said):
    async def main():
        replicas = BadReplicas()
        for ledger in range(12_000):
            replicas.note(lacks(ledger, 0))
        assert len(replicas._told) == 10_000
        assert len(replicas.last) == 1000
        assert replicas.last[-1] == lacks(11_999, 0)
        replicas.note(lacks(0, 5))
        assert said()[-1] == 'event=bad_replica ledger=0 entry=5 bookie=b1 reason="it is not there"'

    run(main())
