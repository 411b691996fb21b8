"""How old a backlog is, as figures of a topic say it."""

from mledger.broker.admin_rest.topics.figures.topic_stats import plan_backlog_age
from mledger.topics.backlog_quota import OldestBacklog

AGE, NAME = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
UNKNOWN = {AGE: -1, NAME: None}


def test_a_backlog_is_as_old_as_the_close_of_its_oldest_ledger():
    found = plan_backlog_age(OldestBacklog("slow", 10_000), {"slow": 3, "fast": 0}, 72_500)
    assert found == {AGE: 62, NAME: "slow"}


def test_the_age_is_not_known_while_the_ledger_is_open():
    assert plan_backlog_age(None, {"slow": 3}, 72_500) == UNKNOWN


def test_without_a_backlog_of_a_subscription_there_is_no_age():
    assert plan_backlog_age(OldestBacklog("pulsar.dedup", 10_000), {"slow": 0}, 72_500) == UNKNOWN


def test_no_backlog_is_from_the_future_though_the_clock_was_set_back():
    assert plan_backlog_age(OldestBacklog("slow", 10_000), {"slow": 3}, 9_000)[AGE] == 0
