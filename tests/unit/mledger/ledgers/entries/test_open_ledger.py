"""The batches of a ledger that ends: acknowledged, or given back with their payloads (M4, M5)."""

import asyncio
import sys

from mledger.bookie.client.ledgers.pending_batches import PendingBatch, PendingBatches, failed_future
from mledger.bookie.errors import LedgerFenced
from mledger.config import ManagedLedgerConfig
from mledger.counters import NamespaceCounters
from mledger.ledgers.entries.open_ledger import AppendedRange, Batch, OpenLedger
from mledger.ledgers.ledger_list import LedgerEnd
from tests.support.aio import run

FENCED = LedgerFenced("the test fenced it")


class HeldWriter:
    """Keeps appends pending until the test decides their outcome."""

    def __init__(self):
        self.ledger_id, self.length, self.failure = 7, 0, None
        self.pending, self._next = PendingBatches(), 0

    def append(self, entries):
        if self.failure is not None:
            return failed_future(self.failure)
        future = asyncio.get_running_loop().create_future()
        first, self._next = self._next, self._next + len(entries)
        self.pending.add(PendingBatch(first, self._next, entries, first - 1, self.length, future))
        self.length += sum(map(len, entries))
        return future

    def payloads_from(self, entry):
        return self.pending.payloads_from(entry)

    def fail(self):
        self.failure = FENCED
        self.pending.fail(FENCED)


class Pushed:
    """A ledger with pushed batches of these numbers of entries; entry e has a payload of e bytes."""

    def __init__(self):
        self.writer, self.counters, self.failures = HeldWriter(), NamespaceCounters(), []
        self.ledger = OpenLedger(
            self.writer, ManagedLedgerConfig(), lambda _: None, self.failures.append, 0, self.counters
        )

    def push(self, count):
        first = self.ledger.pushed
        batch = Batch(asyncio.get_running_loop().create_future(), count)
        self.ledger.push(batch, [bytes(entry) for entry in range(first, first + count)])
        return batch


def sizes(rest):
    """The entries given back, by the length of their payloads, batch by batch."""
    return [(batch, [len(payload) for payload in payloads]) for batch, payloads in rest]


async def callbacks():
    """Let the callbacks of futures run."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def test_entries_that_the_ledger_lacks_at_its_end_are_given_back():
    async def main():
        pushed = Pushed()
        one, two, three = pushed.push(4), pushed.push(3), pushed.push(2)
        pushed.writer.pending.complete(4)
        await callbacks()
        pushed.writer.fail()
        await callbacks()
        assert len(pushed.failures) == 1
        rest = pushed.ledger.end_at(LedgerEnd(5, 10))
        assert sizes(rest) == [(two, [5, 6]), (three, [7, 8])]
        assert one.future.result() == (AppendedRange(7, 0, 3),)
        assert two.ranges == (AppendedRange(7, 4, 4),)
        assert (pushed.counters.added, pushed.counters.added_bytes) == (5, 10)

    run(main())


def test_entries_that_recovery_found_are_acknowledged_even_without_an_answer():
    async def main():
        pushed = Pushed()
        one = pushed.push(3)
        pushed.writer.fail()
        await callbacks()
        assert pushed.ledger.end_at(LedgerEnd(3, 3)) == []
        assert one.future.result() == (AppendedRange(7, 0, 2),)

    run(main())


def test_a_batch_pushed_before_the_writer_learns_of_the_failure_is_given_back_last():
    async def main():
        pushed = Pushed()
        one = pushed.push(2)
        pushed.writer.fail()
        two, three = pushed.push(2), pushed.push(1)
        assert not pushed.failures
        await pushed.ledger.drain()
        await callbacks()
        assert sizes(pushed.ledger.end_at(LedgerEnd(1, 0))) == [(one, [1]), (two, [2, 3]), (three, [4])]

    run(main())


def test_nothing_is_given_back_if_everything_was_acknowledged():
    async def main():
        pushed = Pushed()
        pushed.push(3)
        pushed.writer.pending.complete(3)
        await callbacks()
        assert pushed.ledger.end_at(LedgerEnd(3, 3)) == []

    run(main())


def test_a_ledger_holds_any_number_of_entries_until_the_minimum_time_but_not_after_the_clock_was_set_back():
    async def main():
        ledger = Pushed().ledger
        assert ledger.room(0) == ledger.room(ledger.may_roll_ms - 1) == sys.maxsize
        assert ledger.room(ledger.may_roll_ms) == ledger.room(-1) == ManagedLedgerConfig().max_entries_per_ledger

    run(main())
