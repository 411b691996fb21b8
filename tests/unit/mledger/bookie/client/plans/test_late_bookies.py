"""When a bookie is late with its acknowledgements (Q11)."""

import pytest

from mledger.bookie.client.plans.late_bookies import AddStanding, ProgressMark, plan_late

ADD_S, STALL_S = 10.0, 3.0


def standing(outstanding=True, congested=False, batches_wait=True, watermark=5, acknowledged_at=0.0):
    """A bookie that was at entry 5 at 100 s."""
    return AddStanding(ProgressMark(5, 100.0), watermark, outstanding, congested, batches_wait, acknowledged_at)


def late(found, after):
    """The time-out that has passed so many seconds after the mark."""
    return plan_late(found, 100.0 + after, ADD_S, STALL_S)


def test_a_bookie_that_owes_acknowledgements_has_the_add_time_out():
    assert late(standing(), after=9.9) is None
    assert late(standing(), after=10.0) == ADD_S


def test_a_bookie_whose_send_buffer_is_full_has_the_stall_time_out():
    assert late(standing(congested=True), after=2.9) is None
    assert late(standing(congested=True), after=3.0) == STALL_S


def test_progress_restarts_the_time():
    assert standing(watermark=6).starts_anew
    assert late(standing(watermark=6), after=99.0) is None


@pytest.mark.parametrize("congested", [False, True])
def test_a_bookie_that_owes_nothing_is_never_late(congested):
    nothing = standing(outstanding=False, congested=congested, batches_wait=False)
    assert not nothing.owes
    assert late(nothing, after=99.0) is None


def test_a_buffer_full_of_other_ledgers_entries_is_no_stall_while_the_bookie_answers():
    others = standing(outstanding=False, congested=True, acknowledged_at=104.0)
    assert others.owes
    assert late(others, after=6.9) is None
    assert late(others, after=7.0) == STALL_S


def test_answers_for_other_ledgers_do_not_excuse_a_bookie_that_owes_this_one():
    assert late(standing(acknowledged_at=109.0), after=10.0) == ADD_S


def test_an_entry_behind_those_of_other_ledgers_is_no_stall_while_the_bookie_acknowledges_them():
    behind = standing(congested=True, acknowledged_at=104.0)
    assert late(behind, after=6.9) is None
    assert late(behind, after=7.0) == STALL_S


def test_an_entry_behind_those_of_other_ledgers_has_the_add_time_out():
    assert late(standing(congested=True, acknowledged_at=109.0), after=10.0) == ADD_S
