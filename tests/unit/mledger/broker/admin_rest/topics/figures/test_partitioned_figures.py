"""Figures of partitions are summed."""

from mledger.broker.admin_rest.topics.figures.partitioned_figures import plan_partitioned_stats


def test_numbers_are_summed_and_lists_joined():
    one = {"in": 1, "publishers": ["a"], "subscriptions": {"s": {"backlog": 2, "isDurable": True, "type": None}}}
    other = {"in": 2, "publishers": [], "subscriptions": {"s": {"backlog": 3, "isDurable": True, "type": "Shared"}}}
    third = {"in": 4, "publishers": ["b"], "subscriptions": {"t": {"backlog": 1}}, "ownerBroker": "x"}
    assert plan_partitioned_stats([one, other, {}, third]) == {
        "in": 7,
        "publishers": ["a", "b"],
        "subscriptions": {"s": {"backlog": 5, "isDurable": True, "type": "Shared"}, "t": {"backlog": 1}},
    }
    assert one["in"] == 1
    assert one["subscriptions"]["s"]["backlog"] == 2


def test_without_figures_there_is_nothing_to_sum():
    assert plan_partitioned_stats([]) == {"publishers": [], "subscriptions": {}}


def test_limits_and_ages_are_not_summed():
    one = {"backlogQuotaLimitSize": -1, "oldestBacklogMessageAgeSeconds": -1, "deduplicationStatus": "Disabled"}
    summed = plan_partitioned_stats([one, one])
    assert summed["backlogQuotaLimitSize"] == -1
    assert summed["oldestBacklogMessageAgeSeconds"] == 0
    assert "deduplicationStatus" not in summed


def test_times_of_subscriptions_are_those_of_partitions():
    one = {"subscriptions": {"s": {"lastAckedTimestamp": 5, "totalMsgExpired": 2}}}
    assert plan_partitioned_stats([one, one])["subscriptions"] == {"s": {"lastAckedTimestamp": 0, "totalMsgExpired": 4}}
    assert one["subscriptions"]["s"]["lastAckedTimestamp"] == 5


def test_the_average_size_of_messages_is_that_of_the_partitions():
    assert plan_partitioned_stats([{"averageMsgSize": 4.0}, {}, {"averageMsgSize": 8.0}])["averageMsgSize"] == 6


def test_the_oldest_backlog_is_that_of_the_oldest_partition():
    ages = [(-1, None), (7, "slow"), (3, "fast")]
    names = "oldestBacklogMessageAgeSeconds", "oldestBacklogMessageSubscriptionName"
    summed = plan_partitioned_stats([dict(zip(names, each, strict=True)) for each in ages])
    assert [summed[name] for name in names] == [7, "slow"]


def test_publish_times_of_a_partitioned_topic_are_the_earliest_and_the_latest_of_its_partitions():
    first, last, created = "earliestMsgPublishTimeInBacklogs", "lastPublishTimeStamp", "topicCreationTimeStamp"
    of_one = "earliestMsgPublishTimeInBacklog"
    figures = [{first: at, last: at, created: 10 + at, "subscriptions": {"s": {of_one: at}}} for at in (7, 0, 3)]
    summed = plan_partitioned_stats(figures)
    assert [summed[each] for each in (first, last, created)] == [3, 7, 10]
    assert summed["subscriptions"] == {"s": {of_one: 3}}
