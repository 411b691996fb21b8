"""Laws of the dry runs: they count what moves, and inspection plans what opening does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.cursors.plans import CursorMovePlan, plan_clear_backlog, plan_properties, plan_reset_to, plan_skip
from mledger.cursors.recovery import CursorRecoveryPlan, plan_cursor_recovery
from mledger.errors import InvalidPosition
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo

CLOSED = [LedgerInfo(10, 5), LedgerInfo(13, 1), LedgerInfo(16, 4)]
LOOKED_AT = LedgerList(CLOSED)
OPENED = LedgerList([*CLOSED, LedgerInfo(19)], current=19)
POSITIONS = [Position(ledger.ledger_id, entry) for ledger in CLOSED for entry in range(ledger.entries)]

acknowledged = st.tuples(st.integers(-1, len(POSITIONS) - 1), st.sets(st.sampled_from(POSITIONS)))
places = st.sampled_from(["earliest", "latest", *POSITIONS, Position(11, 3), Position(10, 99), Position(99, 0)])


def cursor_on(ledgers: LedgerList, state) -> CursorRecoveryPlan:
    """A cursor that has acknowledged the first entries and some above them."""
    count, others = state
    mark_delete = POSITIONS[count] if count >= 0 else Position(10, -1)
    found = plan_cursor_recovery("one", ManagedCursorInfo(-1, mark_delete), None, ledgers)
    found.acks.acknowledge(sorted(others), ledgers)
    return found


def left(ledgers: LedgerList, state) -> list[Position]:
    """The entries that the cursor has not acknowledged."""
    acks = cursor_on(ledgers, state).acks
    return [position for position in POSITIONS if not acks.is_deleted(position)]


@given(acknowledged, st.integers(0, 12))
def test_skipping_acknowledges_the_next_n_that_are_left(state, n) -> None:
    plan = plan_skip(LOOKED_AT, cursor_on(LOOKED_AT, state), n)
    before = left(LOOKED_AT, state)
    assert plan.before.backlog == len(before)
    assert plan.acknowledged == min(n, len(before))
    if plan.after.backlog:
        assert plan.after.read_position == before[plan.acknowledged] or n == 0


@given(acknowledged)
def test_clearing_leaves_nothing(state) -> None:
    plan = plan_clear_backlog(LOOKED_AT, cursor_on(LOOKED_AT, state))
    assert (plan.after.backlog, plan.after.holes, plan.after.mark_delete) == (0, 0, POSITIONS[-1])
    assert plan.changed == (plan.before != plan.after)


@given(acknowledged, places)
def test_after_a_reset_everything_from_that_place_is_left(state, place) -> None:
    plan = plan_reset_to(LOOKED_AT, cursor_on(LOOKED_AT, state), place)
    first = {"earliest": POSITIONS[0], "latest": Position(99, 0)}.get(place, place) if isinstance(place, str) else place
    assert plan.after.backlog == sum(position >= first for position in POSITIONS)
    assert plan.after.holes == 0


@given(acknowledged, st.integers(0, 12), st.booleans(), places)
def test_inspection_plans_what_opening_does(state, n, include_deleted, place) -> None:
    def plans(ledgers: LedgerList) -> list[CursorMovePlan]:
        cursor = cursor_on(ledgers, state)
        return [
            plan_skip(ledgers, cursor, n, include_deleted=include_deleted),
            plan_clear_backlog(ledgers, cursor),
            plan_reset_to(ledgers, cursor, place),
        ]

    for looked_at, opened in zip(plans(LOOKED_AT), plans(OPENED), strict=True):
        assert looked_at.after.mark_delete == opened.after.mark_delete
        assert looked_at.after.backlog == opened.after.backlog
        assert looked_at.changed == opened.changed


@given(acknowledged, st.integers(0, 12))
def test_planning_changes_nothing(state, n) -> None:
    cursor, same = cursor_on(LOOKED_AT, state), cursor_on(LOOKED_AT, state)
    plan_skip(LOOKED_AT, cursor, n)
    plan_reset_to(LOOKED_AT, cursor, "earliest")
    plan_clear_backlog(LOOKED_AT, cursor)
    assert cursor.acks == same.acks


def test_invalid_places_and_numbers_are_refused() -> None:
    cursor = cursor_on(LOOKED_AT, (0, set()))
    with pytest.raises(InvalidPosition):
        plan_reset_to(LOOKED_AT, cursor, "tomorrow")
    with pytest.raises(InvalidPosition):
        plan_skip(LOOKED_AT, cursor, -1)


def test_properties_that_are_not_named_keep_their_order() -> None:
    current = (("a", "1"), ("b", "2"), ("c", "3"))
    assert list(plan_properties(current, {"d": "4", "b": "5"}, ["a", "z"]).items()) == [
        ("b", "5"),
        ("c", "3"),
        ("d", "4"),
    ]
