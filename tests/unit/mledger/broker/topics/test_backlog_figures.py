"""How old a backlog is, and what it may be, as figures of a topic say it."""

from mledger.broker.topics.backlog_figures import BacklogAge, QuotaLimits, plan_backlog_age, plan_quota_limits
from mledger.metastore.cluster.service_policies import BacklogQuota, QuotaKind, QuotaPolicy
from mledger.topics.backlog_quota import OldestBacklog

UNKNOWN = BacklogAge(-1, None)


def test_a_backlog_is_as_old_as_the_close_of_its_oldest_ledger():
    assert plan_backlog_age(OldestBacklog("slow", 10_000), 72_500, waiting=True) == BacklogAge(62, "slow")


def test_the_age_is_not_known_while_the_ledger_is_open():
    assert plan_backlog_age(None, 72_500, waiting=True) == UNKNOWN


def test_without_a_backlog_of_a_subscription_there_is_no_age():
    assert plan_backlog_age(OldestBacklog("pulsar.dedup", 10_000), 72_500, waiting=False) == UNKNOWN


def test_no_backlog_is_from_the_future_though_the_clock_was_set_back():
    assert plan_backlog_age(OldestBacklog("slow", 10_000), 9_000, waiting=True).seconds == 0


def test_quotas_that_are_not_set_are_no_limits():
    quota = BacklogQuota(5, 7, QuotaPolicy.PRODUCER_EXCEPTION)
    assert plan_quota_limits([(QuotaKind.AGE, quota)]) == QuotaLimits(-1, 7)
    assert plan_quota_limits([(QuotaKind.SIZE, quota)]) == QuotaLimits(5, -1)
