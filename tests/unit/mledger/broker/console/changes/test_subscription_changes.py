"""Plans of a subscription's changes say what would be lost, and end at a position."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.console.changes.change_plan import ChangeSubject
from mledger.broker.console.changes.subscription_changes import (
    plan_acknowledged,
    plan_dropped,
    plan_moved,
    plan_place,
)
from mledger.cursors.plans import plan_expire_through, plan_reset_to
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo

SUBJECT = ChangeSubject("a/b", TopicName("a", "b", "c"), "sub")
LEDGERS = LedgerList([LedgerInfo(1, 10, 100), LedgerInfo(2)], current=2, live_entries=5, live_size=50)
CURSOR = plan_cursor_recovery("sub", ManagedCursorInfo(mark_delete=Position(1, 3)), None, LEDGERS)


def shown(plan):
    return {each.what: (each.before, each.after) for each in plan.effects}


def test_an_acknowledgement_ends_at_its_position():
    to = Position(2, 1)
    plan = plan_acknowledged("skip", SUBJECT, plan_expire_through(LEDGERS, CURSOR, to), to)
    assert shown(plan)["backlog, in entries"] == ("11", "3")
    assert (plan.target, plan.most, plan.request.body) == ("2:1", 8, {"ledgerId": 2, "entryId": 1})
    passed = Position(1, 2)
    assert plan_acknowledged("skip", SUBJECT, plan_expire_through(LEDGERS, CURSOR, passed), passed).request is None


def test_a_reset_says_what_comes_again_and_what_never_comes():
    back = plan_moved(SUBJECT, plan_reset_to(LEDGERS, CURSOR, Position(1, 0)), Position(1, 0), 2)
    assert shown(back)["delivered again"] == ("", "4 entries")
    assert (back.most, back.warnings) == (0, ("2 consumers will be disconnected; clients connect again by themselves",))
    ahead = plan_moved(SUBJECT, plan_reset_to(LEDGERS, CURSOR, Position(2, 2)), Position(2, 2), 0)
    assert shown(ahead)["never delivered"] == ("", "8 entries")
    assert ahead.most == 8


def test_a_subscription_with_consumers_is_deleted_only_with_force():
    figures = {"consumers": [{"consumerName": "ann"}], "msgBacklog": 7}
    plan = plan_dropped(SUBJECT, figures, force=False)
    assert (plan.request, "1 consumer still connected" in plan.obstacle) == (None, True)
    forced = plan_dropped(SUBJECT, figures, force=True)
    assert (forced.request.query, shown(forced)["consumers"]) == ({"force": "true"}, ("ann", "disconnected"))


def test_a_place_is_named_in_four_ways():
    assert plan_place(" earliest ") == "earliest"
    assert plan_place("3:-1") == Position(3, -1)
    assert plan_place("1970-01-01T00:01") == plan_place("1970-01-01T01:01+01:00") == 60_000
    for text in ("", "soon", "1:2:3", "9" * 400):
        with pytest.raises(AdminRefusal, match="is no place"):
            plan_place(text)
