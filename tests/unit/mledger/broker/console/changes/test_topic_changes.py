"""Plans of a topic's changes name what they delete."""

import pytest

from mledger.broker.admin_rest.refusals import AdminRefusal
from mledger.broker.console.changes.topic_changes import (
    plan_deleted,
    plan_subscribed,
    plan_terminated,
    plan_truncated,
)
from mledger.metastore.records.paths import TopicName

TOPIC = TopicName("a", "b", "c")
INTERNAL = {
    "state": "LedgerOpened",
    "lastConfirmedEntry": "7:4",
    "numberOfEntries": 15,
    "totalSize": 150,
    "ledgers": [
        {"ledgerId": 3, "entries": 10, "size": 100, "offloaded": False},
        {"ledgerId": 7, "entries": 5, "size": 50, "offloaded": False},
    ],
    "cursors": {"sub": {"markDeletePosition": "3:4", "individuallyDeletedMessages": "[]"}},
}
STATS = {"publishers": [], "subscriptions": {"sub": {"consumers": []}}}
BUSY = {"publishers": [{}], "subscriptions": {"sub": {"consumers": [{}, {}]}}}


def shown(plan):
    return {each.what: (each.before, each.after) for each in plan.effects}


def test_a_truncation_names_the_ledgers_that_go():
    plan = plan_truncated(TOPIC, INTERNAL)
    assert (plan.exact, shown(plan)["ledgers"]) == (("3",), ("3", "deleted"))
    assert shown(plan)["mark-delete of sub"] == ("3:4", "the last entry then; now 7:4")


def test_an_offloaded_ledger_stays():
    first, *rest = INTERNAL["ledgers"]
    plan = plan_truncated(TOPIC, {**INTERNAL, "ledgers": [{**first, "offloaded": True}, *rest]})
    assert plan.exact == ()


def test_a_topic_in_use_is_deleted_only_with_force():
    assert plan_deleted(TOPIC, INTERNAL, BUSY, force=False).request is None
    forced = plan_deleted(TOPIC, INTERNAL, BUSY, force=True)
    assert (forced.request.query, forced.most) == ({"force": "true"}, 0)
    plan = plan_deleted(TOPIC, INTERNAL, STATS, force=False)
    assert (plan.most, plan.exact, shown(plan)["entries"]) == (15, ("False", "sub"), ("15, 150 bytes", "deleted"))


def test_a_terminated_topic_is_not_terminated_again():
    assert plan_terminated(TOPIC, {**INTERNAL, "state": "Terminated"}, STATS).request is None
    assert plan_terminated(TOPIC, INTERNAL, BUSY).request.method == "POST"


def test_a_subscription_is_planned_with_its_backlog():
    plan = plan_subscribed(TOPIC, "new", "earliest", STATS, INTERNAL)
    assert (shown(plan)["backlog"], plan.request.body) == (("", "15 entries now"), "earliest")
    for name in ("", "sub", "x" * 501):
        with pytest.raises(AdminRefusal):
            plan_subscribed(TOPIC, name, "latest", STATS, INTERNAL)
