"""What recovery concludes from answers (Q4)."""

import itertools

import pytest

from mledger.bookie.client.plans.recovery import (
    Finding,
    RecoveryRead,
    Reported,
    answer_of,
    covered,
    first_entry_to_read,
    known_length,
    plan_closed,
    plan_finding,
    plan_in_recovery,
    plan_segments,
    read_ahead,
)
from mledger.bookie.client.plans.write_sets import write_set
from mledger.bookie.errors import Code
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment

FOUND, MISSING, UNKNOWN = RecoveryRead.FOUND, RecoveryRead.MISSING, RecoveryRead.UNKNOWN
DAMAGED = RecoveryRead.DAMAGED


def metadata(*firsts, **changes):
    return LedgerMetadata(3, 3, 2, tuple(Segment(first, ("a", "b", "c")) for first in firsts), **changes)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Code.OK, FOUND),
        (Code.NO_ENTRY, MISSING),
        (Code.NO_LEDGER, MISSING),
        (Code.UNKNOWN_LEDGER_STATE, UNKNOWN),
        (Code.IO_ERROR, UNKNOWN),
        (Code.TOO_MANY_REQUESTS, UNKNOWN),
    ],
)
def test_only_no_entry_and_no_ledger_prove_absence(code, answer):
    assert answer_of(code) is answer


@pytest.mark.parametrize(
    ("answers", "finding"),
    [
        ([], Finding.ASK_ON),
        ([MISSING], Finding.ASK_ON),
        ([MISSING, MISSING], Finding.END),
        ([MISSING, UNKNOWN], Finding.ASK_ON),
        ([MISSING, UNKNOWN, MISSING], Finding.END),
        ([MISSING, UNKNOWN, UNKNOWN], Finding.UNDECIDED),
        ([UNKNOWN, UNKNOWN, UNKNOWN], Finding.UNDECIDED),
        ([MISSING, UNKNOWN, FOUND], Finding.FOUND),
        ([MISSING, DAMAGED, UNKNOWN], Finding.UNDECIDED),
    ],
)
def test_findings_with_three_copies_and_two_to_acknowledge(answers, finding):
    assert plan_finding(answers, write_quorum=3, ack_quorum=2) is finding


@pytest.mark.parametrize("ensemble", range(1, 5))
def test_the_end_is_never_where_an_ack_quorum_may_hold_the_entry(ensemble):
    for write in range(1, ensemble + 1):
        for ack in range(1, write + 1):
            for answers in itertools.product((FOUND, MISSING, UNKNOWN, DAMAGED), repeat=write):
                holders = sum(answer is not MISSING for answer in answers)
                finding = plan_finding(answers, write, ack)
                assert finding is not Finding.ASK_ON
                assert (finding is Finding.END) == (FOUND not in answers and holders < ack)


@pytest.mark.parametrize("ensemble", range(1, 5))
def test_covered_means_that_no_ack_quorum_can_form_among_the_rest(ensemble):
    for write in range(1, ensemble + 1):
        for ack in range(1, write + 1):
            for answers in itertools.product((None, MISSING, FOUND, UNKNOWN, DAMAGED), repeat=ensemble):
                left = {index for index, answer in enumerate(answers) if answer in (None, UNKNOWN)}
                safe = all(len(left & set(write_set(entry, ensemble, write))) < ack for entry in range(ensemble))
                assert covered(answers, write, ack) == safe


def test_reading_starts_after_the_last_add_confirmed():
    assert first_entry_to_read(-1, metadata(0)) == 0
    assert first_entry_to_read(41, metadata(0)) == 42


def test_reading_starts_at_the_last_ensemble_if_that_is_later():
    assert first_entry_to_read(3, metadata(0, 10)) == 10
    assert first_entry_to_read(-1, metadata(0, 10)) == 10
    assert first_entry_to_read(12, metadata(0, 10)) == 13


def test_reading_ahead_goes_one_entry_past_those_that_bookies_reported():
    assert read_ahead(5, 0, [], 100, 10, 1000) == 5
    assert read_ahead(5, 0, [Reported(3), Reported(20)], 100, 10, 1000) == 21
    assert read_ahead(5, 0, [Reported(300)], 100, 10, 1000) == 104
    assert read_ahead(25, 0, [Reported(20)], 100, 10, 1000) == 25


def test_reading_ahead_respects_its_limit_in_bytes():
    reports = [Reported(3, length=400), Reported(300, length=9000)]
    assert read_ahead(5, 0, reports, 100, 250, 1000) == 8
    assert read_ahead(5, 8000, reports, 100, 250, 1000) == 104  # the rest of the ledger is small
    assert read_ahead(5, 7999, reports, 100, 250, 1000) == 8
    assert read_ahead(5, 0, reports, 100, 5000, 1000) == 5  # at least one


def test_the_length_is_that_of_the_entry_that_ends_the_ledger():
    reports = [Reported(7, 5, 700), Reported(6, 5, 600)]
    assert known_length(6, reports) == 600
    assert known_length(5, reports) is None
    assert known_length(-1, reports) == 0


def test_only_an_open_ledger_is_put_in_recovery():
    assert plan_in_recovery(metadata(0)) == metadata(0, state=LedgerState.IN_RECOVERY)
    assert plan_in_recovery(metadata(0, state=LedgerState.IN_RECOVERY)) is None
    assert plan_in_recovery(metadata(0, state=LedgerState.CLOSED)) is None


def test_closing_writes_ensembles_changed_in_memory_too():
    changed = metadata(0, 4).segments
    closed = plan_closed(metadata(0, state=LedgerState.IN_RECOVERY), 9, 900, changed)
    assert closed == metadata(0, 4, state=LedgerState.CLOSED, last_entry=9, length=900)


def test_an_ensemble_changed_in_memory_counts_only_if_it_holds_entries():
    before, changed = metadata(0, 4).segments, metadata(0, 4, 8).segments
    assert plan_segments(before, None, 7) == before
    assert plan_segments(before, changed, 8) == changed
    assert plan_segments(before, changed, 7) == before
    assert plan_segments(before, before, 2) == before


def test_ensembles_that_were_re_replicated_meanwhile_stay_in_front_of_the_one_changed_in_memory():
    before, changed = metadata(0, 4, 6).segments, metadata(0, 4, 6, 8).segments
    replicated = (*(segment._replace(bookies=("x", "y", "z")) for segment in before[:2]), before[2])
    assert plan_segments(replicated, changed, 8) == (*replicated, changed[-1])
    moved = (*before[:2], before[2]._replace(bookies=("x", "y", "z")))
    assert plan_segments(replicated, moved, 8) == (*replicated[:2], moved[2])
