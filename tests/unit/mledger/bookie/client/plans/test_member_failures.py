"""Which members of an ensemble have failed, and which may be asked again."""

from mledger.bookie.client.plans.member_failures import MemberFailures, too_many

ENSEMBLE = ("a:1", "b:1", "c:1")


def test_a_bookie_that_failed_may_return_after_a_while():
    failures = MemberFailures()
    failures.note({0: "it was silent"}, now=10.0)
    failures.note({2: "it was killed"}, now=12.0)
    assert failures.may_return({0, 2}, since=11.0) == [0]
    assert failures.may_return({2}, since=12.0) == [2]


def test_a_bookie_that_went_away_is_looked_up_once():
    failures = MemberFailures()
    failures.note({1: "it restarted"}, now=10.0)
    failures.note_away(1)
    assert failures.away == {1}
    assert failures.take_away({0, 1}) == {1}
    assert not failures.away
    assert failures.take_away({0, 1}) == set()


def test_a_bookie_replaced_meanwhile_is_not_looked_up():
    failures = MemberFailures()
    failures.note({1: "it restarted"}, now=10.0)
    failures.note_away(1)
    assert failures.take_away({0}) == set()
    assert not failures.away


def test_too_few_bookies_are_named_with_their_last_failure():
    failures = MemberFailures()
    failures.note({0: "it was slow"}, now=1.0)
    failures.note({2: "it was killed", 0: "it was silent"}, now=2.0)
    text = failures.not_enough(7, 2, ENSEMBLE, {2, 0})
    assert text.startswith("ledger 7: 2 bookies of a write set are needed and too few are left ")
    assert "(a:1: it was silent; c:1: it was killed)" in text


def test_a_ledger_whose_bookies_failed_too_often_is_named():
    assert too_many(7, 64).startswith("ledger 7: bookies failed 64 times; ")
