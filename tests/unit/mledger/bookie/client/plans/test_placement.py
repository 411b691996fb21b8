"""Which bookies an ensemble consists of, at first (Q1) and after a failure (Q2)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.client.plans.placement import (
    check_quorums,
    plan_ensemble,
    plan_replacements,
    replace_members,
    with_ensemble,
)
from mledger.bookie.errors import InvalidQuorum, LedgerConflict, NotEnoughBookies
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment

BOOKIES = st.sets(st.sampled_from([f"b{number}" for number in range(8)]))


def metadata(*segments):
    return LedgerMetadata(2, 2, 1, tuple(Segment(first, bookies) for first, bookies in segments))


@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 4, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0)])
def test_quorums_out_of_order_are_refused(ensemble, write, ack):
    with pytest.raises(InvalidQuorum, match="ensemble size >= write quorum >= ack quorum >= 1"):
        check_quorums(ensemble, write, ack)


@given(BOOKIES, BOOKIES, st.integers(1, 8), st.integers())
def test_an_ensemble_is_distinct_writable_bookies_with_failed_ones_last(writable, failed, size, seed):
    if len(writable) < size:
        with pytest.raises(NotEnoughBookies):
            plan_ensemble(size, writable, failed, random.Random(seed))
        return
    ensemble = plan_ensemble(size, writable, failed, random.Random(seed))
    assert len(set(ensemble)) == size
    assert set(ensemble) <= writable
    assert set(ensemble) & failed == set() or set(ensemble) >= writable - failed


def test_the_same_seed_chooses_the_same_ensemble():
    bookies = [f"b{number}" for number in range(8)]
    assert plan_ensemble(3, bookies, [], random.Random(7)) == plan_ensemble(3, bookies, [], random.Random(7))


@given(BOOKIES, BOOKIES, st.sets(st.integers(0, 2)), st.integers())
def test_replacements_are_new_to_the_ensemble_and_distinct(writable, failed, failing, seed):
    ensemble = ("b0", "b1", "b2")
    plan = plan_replacements(ensemble, failing, writable, failed, random.Random(seed))
    assert set(plan) <= failing
    assert len(plan) == min(len(failing), len(writable - set(ensemble)))
    assert set(plan.values()) & set(ensemble) == set()
    assert len(set(replace_members(ensemble, plan))) == 3


def test_a_new_ensemble_is_a_new_segment():
    changed = with_ensemble(metadata((0, ("a", "b"))), 7, ("a", "c"))
    assert changed.segments == (Segment(0, ("a", "b")), Segment(7, ("a", "c")))


def test_a_second_change_at_the_same_entry_replaces_the_segment():
    changed = with_ensemble(metadata((0, ("a", "b")), (7, ("a", "c"))), 7, ("d", "c"))
    assert changed.segments == (Segment(0, ("a", "b")), Segment(7, ("d", "c")))


def test_a_change_before_the_last_segment_is_refused():
    with pytest.raises(LedgerConflict, match="begins at entry 7"):
        with_ensemble(metadata((0, ("a", "b")), (7, ("a", "c"))), 6, ("d", "c"))
