"""A lagging metadata server does not make a cursor's last state count as lost (R4, R5)."""

import pytest

from mledger.bookie.errors import NoSuchEntry, NoSuchLedger
from mledger.cursors.persistence.ledger_state import (
    CHECKPOINT_MARKER,
    ENTRY_TYPE,
    CursorLedgerEmpty,
    CursorLedgerMissing,
    CursorLedgerUnavailable,
    StateFound,
)
from mledger.cursors.persistence.state_reader import find_state
from mledger.errors import ForeignLedger
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.codec import encode_position_info
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerBits, PositionInfo
from tests.support.aio import run

OLDER, LEDGER = 5, 7
OLD, LAST = (PositionInfo(Position(1, at)) for at in (2, 5))
WHOLE = [encode_position_info(OLD), encode_position_info(LAST)]


class ScriptedCursorLedger:
    """A cursor ledger as one reading finds it; an entry that is None cannot be found."""

    def __init__(self, entries):
        self._entries = entries
        self.last_entry = len(entries) - 1

    async def read(self, first, last):
        found = self._entries[first : last + 1]
        if None in found:
            raise NoSuchEntry(f"entry {first + found.index(None)} of ledger {LEDGER} is on no bookie")
        return found


class Looks:
    """What is found before and after a sync of the metadata store; None stands for no such ledger."""

    def __init__(self, before, after, error=None):
        self._entries, self._after, self._error = before, after, error
        self.synced = 0

    async def open(self, ledger_id):
        assert ledger_id == LEDGER
        if self._entries is None:
            raise NoSuchLedger(f"ledger {ledger_id} does not exist")
        return ScriptedCursorLedger(self._entries)

    async def sync(self):
        self.synced += 1
        if self._error is not None:
            raise self._error
        self._entries = self._after

    async def find(self):
        return await find_state(self.open, self.sync, LEDGER)


BEHIND = {"ledger": None, "entries": [], "last entry": [WHOLE[0], None]}


@pytest.mark.parametrize("before", BEHIND.values(), ids=BEHIND.keys())
def test_a_ledger_unknown_to_a_lagging_server_is_looked_up_again(before):
    async def main():
        looks = Looks(before, WHOLE)
        found = await looks.find()
        assert isinstance(found, StateFound)
        assert found.state == LAST
        assert looks.synced == 1

    run(main())


@pytest.mark.parametrize("before", [None, [None]], ids=["ledger", "entry"])
def test_an_older_cursor_ledger_unknown_to_a_lagging_server_is_looked_up_again(before):
    async def main():
        held = (LedgerBits(6, (0b11,)),)
        named = (LedgerBits(6, (OLDER, 0)),)
        marker = PositionInfo(Position(1, 2), properties=((ENTRY_TYPE, CHECKPOINT_MARKER),), ledger_bits=named)
        older = {OLDER: before}

        async def open_ledger(ledger_id):
            if ledger_id == LEDGER:
                return ScriptedCursorLedger([encode_position_info(marker)])
            if older[ledger_id] is None:
                raise NoSuchLedger(f"ledger {ledger_id} does not exist")
            return ScriptedCursorLedger(older[ledger_id])

        async def sync():
            older[OLDER] = [encode_position_info(PositionInfo(Position(1, 1), ledger_bits=held))]

        found = await find_state(open_ledger, sync, LEDGER)
        assert isinstance(found, StateFound)
        assert (found.state.ledger_bits, found.warnings) == (held, ())

    run(main())


def test_what_a_checkpoint_names_in_another_topics_ledger_is_lost():
    async def main():
        named = (LedgerBits(6, (OLDER, 0)),)
        marker = PositionInfo(Position(1, 2), properties=((ENTRY_TYPE, CHECKPOINT_MARKER),), ledger_bits=named)

        async def open_ledger(ledger_id):
            if ledger_id == OLDER:
                raise ForeignLedger(f"ledger {OLDER} is that of another topic")
            return ScriptedCursorLedger([encode_position_info(marker)])

        async def sync():
            raise AssertionError("another reading finds the same")

        found = await find_state(open_ledger, sync, LEDGER)
        assert isinstance(found, StateFound)
        assert found.state.position == Position(1, 2)
        assert any("another topic" in warning for warning in found.warnings)

    run(main())


def test_a_ledger_missing_in_current_metadata_is_lost():
    async def main():
        assert isinstance(await Looks(None, None).find(), CursorLedgerMissing)
        assert isinstance(await Looks([], []).find(), CursorLedgerEmpty)
        found = await Looks(BEHIND["last entry"], BEHIND["last entry"]).find()
        assert isinstance(found, StateFound)
        assert found.state == OLD

    run(main())


def test_nothing_is_lost_while_the_metadata_store_does_not_answer():
    async def main():
        found = await Looks(None, None, StoreUnavailable("no server answers")).find()
        assert isinstance(found, CursorLedgerUnavailable)

    run(main())


def test_a_state_that_is_found_is_read_once():
    async def main():
        looks = Looks(WHOLE, None)
        assert isinstance(await looks.find(), StateFound)
        assert looks.synced == 0

    run(main())
