"""A read passes acknowledged entries in one step, however many there are (C10)."""

from types import SimpleNamespace

import pytest

from mledger.bookie.errors import BookieUnavailable
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.reads import CursorReads
from mledger.errors import ManagedLedgerClosed
from mledger.ledgers.entries.entry import PayloadRun, entries_of
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from tests.support.aio import run

ENTRIES = 50_000
LEDGERS = LedgerList([LedgerInfo(ledger_id, ENTRIES, 1, 1) for ledger_id in (3, 4, 7)])


class Counted(AckState):
    """A state that counts how often a read asks it for what is left."""

    looks = 0

    def live_runs(self, *where):
        """Like the state's own method."""
        self.looks += 1
        return super().live_runs(*where)


class NumberedEntries:
    """Entries whose payloads are their ids."""

    cache = None

    async def read_runs(self, ledger_id, first, last, _):
        """All entries of the request."""
        return [PayloadRun(ledger_id, first, [b"%d" % entry for entry in range(first, last + 1)])]


@pytest.mark.parametrize("wanted", [1, 3, 100])
def test_ledgers_full_of_acknowledged_entries_are_passed_at_once(wanted):
    acks = Counted(Position(3, -1))
    acks.acknowledge_run(3, 1, ENTRIES - 1, LEDGERS)
    acks.acknowledge_run(4, 0, ENTRIES - 1, LEDGERS)
    acks.acknowledge_run(7, 0, ENTRIES - 3, LEDGERS)
    host = SimpleNamespace(ledger_list=LEDGERS, reader=NumberedEntries())
    reads = CursorReads(SimpleNamespace(acks=acks, check=lambda: None, name="sub"), host, Position(3, 0))
    left = [Position(3, 0), Position(7, ENTRIES - 2), Position(7, ENTRIES - 1)]

    async def main():
        found = []
        while entries := entries_of(await reads.read_runs(wanted, None, None)):
            assert len(entries) <= wanted
            found += [entry.position for entry in entries]
        assert found == left

    run(main())
    assert acks.looks < 20


def test_a_read_asks_no_more_when_little_of_its_bytes_is_left():
    class Sized:
        cache, asked = None, 0

        async def read_runs(self, ledger_id, first, last, max_bytes):
            self.asked += 1
            return [PayloadRun(ledger_id, first, [bytes(10)] * min(last - first + 1, max_bytes // 10))]

    acks, bookies = AckState(Position(3, -1)), Sized()
    host = SimpleNamespace(ledger_list=LEDGERS, reader=bookies)
    reads = CursorReads(SimpleNamespace(acks=acks, check=lambda: None, name="sub"), host, Position(3, 0))

    async def main():
        assert len(entries_of(await reads.read_runs(1000, 1009, None))) == 100
        assert (bookies.asked, reads.position) == (1, Position(3, 100))

    run(main())


def test_a_read_that_fails_because_its_topic_is_closed_says_so():
    class Closing:
        cache, closed = None, False

        async def read_runs(self, *_):
            self.closed = True
            raise BookieUnavailable("the ledger is not closed and may have more entries")

    def check():
        if bookies.closed:
            raise ManagedLedgerClosed("t was abandoned")

    bookies = Closing()
    host = SimpleNamespace(ledger_list=LEDGERS, reader=bookies)
    cursor = SimpleNamespace(acks=AckState(Position(3, -1)), check=check, name="sub")
    with pytest.raises(ManagedLedgerClosed):
        run(CursorReads(cursor, host, Position(3, 0)).read_runs(1, None, None))
