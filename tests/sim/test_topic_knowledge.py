"""What a cursor may and must have acknowledged after it was reset."""

from mledger.metastore.records.position import Position
from tests.faults.checker import Acknowledged
from tests.sim.topic_knowledge import KnownCursor

FIRST, OLD, NEW = Position(1, 2), Position(2, 4), Position(2, 1)
MARK = (2, 0)


def known(*positions: Position) -> KnownCursor:
    cursor = KnownCursor(Acknowledged())
    cursor.ask_up_to((1, 0))
    cursor.ask(positions)
    cursor.durable = cursor.issued.copy()
    return cursor


def marks(found: Acknowledged) -> set[Position]:
    return {Position(ledger, entry) for ledger in (1, 2) for entry in found.of(ledger, 6).nonzero()[0].tolist()}


BELOW = {Position(1, entry) for entry in range(6)} | {Position(2, 0)}


def test_until_a_reset_is_answered_it_may_have_happened_or_not():
    cursor = known(FIRST, OLD)
    cursor.ask_reset(MARK, ())
    cursor.ask([NEW])
    assert marks(cursor.issued) == {*BELOW, OLD, NEW}
    assert marks(cursor.durable) == {Position(1, 0), FIRST}


def test_once_it_is_answered_only_what_was_asked_for_since_counts_above():
    cursor = known(FIRST, OLD)
    number = cursor.ask_reset(MARK, [Position(1, 5)])
    cursor.ask([NEW])
    cursor.end_reset(number, MARK, first_ledger=1)
    assert marks(cursor.issued) == {*BELOW, NEW}
    assert marks(cursor.durable) == BELOW


def test_what_was_trimmed_before_it_may_be_gone():
    cursor = known(FIRST)
    cursor.end_reset(cursor.ask_reset((1, -1), ()), (1, -1), first_ledger=2)
    assert marks(cursor.issued) == set()
    assert marks(cursor.consumed) == {Position(1, entry) for entry in range(6)}


def test_a_reset_that_failed_or_came_before_another_proves_nothing():
    cursor = known(OLD)
    first, second = cursor.ask_reset(MARK, ()), cursor.ask_reset((1, 0), ())
    cursor.end_reset(first, MARK, first_ledger=1)
    cursor.end_reset(second, (1, 0), first_ledger=None)
    assert OLD in marks(cursor.issued)
    assert marks(cursor.durable) == {Position(1, 0)}
