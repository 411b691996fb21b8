"""A confirmed plan holds while nothing more is lost than it said."""

from msgspec.structs import replace

from mledger.broker.console.changes.change_plan import ChangePlan, counted, plan_holds

PLAN = ChangePlan("x", (), exact=("1:2",), most=5)


def test_a_plan_holds_for_the_same_end_and_no_more():
    assert plan_holds(PLAN.bond, PLAN)
    assert plan_holds(PLAN.bond, replace(PLAN, most=3))
    assert not plan_holds(PLAN.bond, replace(PLAN, most=6))
    assert not plan_holds(PLAN.bond, replace(PLAN, exact=("1:3",)))


def test_numbers_have_their_nouns():
    assert (counted(1, "entry", "entries"), counted(2000, "client")) == ("1 entry", "2,000 clients")
