"""When a reader reads its ledger's ensembles again, and which it asks then."""

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from mledger.bookie.client.ledgers.ensembles.current_ensembles import CurrentEnsembles
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment
from tests.support.aio import run

OLD = LedgerMetadata(2, 2, 2, (Segment(0, ("a:1", "b:1")),))
NEW = replace(OLD, segments=(Segment(0, ("c:1", "b:1")),), last_entry=99)


@dataclass
class WrittenLedger:
    metadata: LedgerMetadata = OLD
    last_entry: int = 9
    readable_length: int = 90


class RereadEnsembles:
    def __init__(self, stored=NEW):
        self.ledger, self.stored, self.reads = WrittenLedger(), stored, 0
        self.ensembles = CurrentEnsembles(7, self.ledger, self.reread)

    async def reread(self, ledger_id):
        self.reads += 1
        await asyncio.sleep(0)
        if isinstance(self.stored, Exception):
            raise self.stored
        return self.stored


def test_other_ensembles_are_asked_and_nothing_else_is_taken_over():
    async def main():
        world = RereadEnsembles()
        assert await world.ensembles.look_again(OLD)
        assert world.ensembles.metadata == replace(OLD, segments=NEW.segments)

    run(main())


def test_reads_that_fail_together_share_one_reading_of_the_metadata():
    async def main():
        world = RereadEnsembles()
        assert await asyncio.gather(*(world.ensembles.look_again(OLD) for _ in range(5))) == [True] * 5
        assert await world.ensembles.look_again(OLD)  # it failed on ensembles that are known to be old
        assert world.reads == 1

    run(main())


def test_the_same_ensembles_are_neither_asked_again_nor_read_again_at_once():
    async def main():
        world = RereadEnsembles(OLD)
        assert not await world.ensembles.look_again(world.ensembles.metadata)
        assert not await world.ensembles.look_again(world.ensembles.metadata)
        assert world.reads == 1

    run(main())


def test_a_store_that_does_not_answer_changes_nothing():
    async def main():
        world = RereadEnsembles(StoreUnavailable("no answer"))
        assert not await world.ensembles.look_again(OLD)
        assert world.ensembles.metadata is OLD

    run(main())


def test_the_ledgers_own_change_wins_over_what_was_read():
    async def main():
        world = RereadEnsembles()
        await world.ensembles.look_again(OLD)
        world.ledger.metadata = replace(OLD, segments=(*NEW.segments, Segment(5, ("d:1", "e:1"))))
        assert world.ensembles.metadata is world.ledger.metadata

    run(main())
