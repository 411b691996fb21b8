"""Acknowledgements by example: what is acknowledged, when (M5), and how a change of ensemble affects it (Q2)."""

import pytest

from mledger.bookie.client.plans.quorum import EnsembleChange, Lacking, Resend, WriteQuorum
from mledger.bookie.errors import InvalidQuorum


def quorum(ensemble=3, write=3, ack=2, sent=0):
    tracker = WriteQuorum(ensemble, write, ack)
    tracker.sent(sent)
    return tracker


def test_an_entry_is_acknowledged_by_the_ack_quorum():
    tracker = quorum(sent=10)
    assert tracker.acknowledged_run(0, 0, 9) == 0
    assert tracker.acknowledged_run(2, 0, 4) == 5
    assert tracker.acknowledged_run(2, 5, 9) == 10


def test_answers_out_of_order_count_once_the_gap_is_filled():
    tracker = quorum(write=3, ack=3, sent=4)
    tracker.acknowledged_run(0, 0, 3)
    tracker.acknowledged_run(1, 0, 3)
    assert tracker.acknowledged_run(2, 2, 3) == 0
    assert tracker.acknowledged(2, [1]) == 0
    assert tracker.acknowledged(2, [0]) == 4


def test_repeated_and_unknown_answers_change_nothing():
    tracker = quorum(sent=4)
    tracker.acknowledged_run(0, 0, 3)
    tracker.acknowledged_run(1, 0, 1)
    assert tracker.acknowledged_run(1, 0, 1) == 2
    assert tracker.acknowledged_run(1, 2, 99) == 4


def test_striped_entries_are_acknowledged_in_order():
    tracker = quorum(ensemble=3, write=2, ack=2, sent=4)  # the write sets are 01 12 20 01
    tracker.acknowledged(1, [0, 1, 3])
    assert tracker.acknowledged(2, [1, 2]) == 0
    assert tracker.acknowledged(0, [0]) == 2
    assert tracker.acknowledged(0, [3, 2]) == 4


def test_a_bookie_does_not_acknowledge_entries_of_others():
    tracker = quorum(ensemble=3, write=2, ack=1, sent=3)  # entry 1 belongs to 1 and 2
    tracker.acknowledged(0, [0])
    assert tracker.acknowledged(0, [1]) == 1


def test_a_failed_bookie_does_not_stop_the_ack_quorum():
    tracker = quorum(sent=4)
    tracker.failed([0])
    tracker.acknowledged_run(1, 0, 3)
    assert tracker.acknowledged_run(2, 0, 3) == 4
    assert tracker.lacking() is None


def test_a_write_set_without_an_ack_quorum_is_reported_as_lacking():
    tracker = quorum(sent=4)
    tracker.failed([0, 2])
    assert tracker.lacking() == Lacking((1,), 2)


def test_nothing_is_acknowledged_while_the_ensemble_changes():
    tracker = quorum(sent=10)
    for index in (0, 1):
        tracker.acknowledged_run(index, 0, 3)
    tracker.failed([2])
    assert tracker.begin_change([2]) == EnsembleChange((2,), first_entry=4)
    tracker.acknowledged_run(0, 4, 9)
    assert tracker.acknowledged_run(1, 4, 9) == 4
    assert tracker.changed() == (Resend(2, 4, 9),)
    assert tracker.acknowledged_below == 10


def test_copies_on_the_failed_bookie_do_not_count_in_the_new_ensemble():
    tracker = quorum(sent=10)
    tracker.acknowledged_run(2, 0, 9)
    tracker.failed([2])
    tracker.begin_change([2])
    tracker.changed()
    assert tracker.acknowledged_run(0, 0, 9) == 0
    assert tracker.acknowledged_run(2, 0, 5) == 6


def test_a_bookie_that_fails_during_a_change_is_replaced_next():
    tracker = quorum(sent=10)
    tracker.failed([0])
    tracker.begin_change([0])
    tracker.failed([1])
    tracker.acknowledged_run(2, 0, 9)
    tracker.changed()
    assert tracker.down == {1}
    assert tracker.begin_change([1]) == EnsembleChange((1,), first_entry=0)
    assert tracker.changed() == (Resend(1, 0, 9),)


def test_nothing_is_sent_again_if_nothing_was_sent():
    tracker = quorum()
    tracker.failed([0])
    tracker.begin_change([0])
    assert tracker.changed() == ()


def test_a_bookie_owes_answers_while_entries_sent_to_it_are_unanswered():
    tracker = quorum(ensemble=3, write=1, ack=1, sent=1)  # entry 0 belongs to index 0
    assert tracker.outstanding(0)
    assert not tracker.outstanding(1)
    tracker.acknowledged(0, [0])
    assert not tracker.outstanding(0)


def test_only_failed_bookies_are_replaced():
    with pytest.raises(ValueError, match="cannot be changed"):
        quorum().begin_change([1])


def test_quorums_out_of_order_are_refused():
    with pytest.raises(InvalidQuorum):
        quorum(ensemble=2, write=3)


def test_early_answers_of_the_failed_bookie_do_not_count_in_the_new_ensemble():
    tracker = quorum(sent=3)
    tracker.acknowledged(2, [1, 2])
    tracker.failed([2])
    tracker.begin_change([2])
    tracker.changed()
    tracker.acknowledged_run(0, 0, 2)
    assert tracker.acknowledged(2, [0]) == 1
