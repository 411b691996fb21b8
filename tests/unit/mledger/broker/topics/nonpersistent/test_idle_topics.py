"""When a non-persistent topic without use is closed."""

import asyncio

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.nonpersistent.idle_topics import IdleTopics, plan_idle_limit_s
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.producers.publish_limits import BrokerPublishLimits
from mledger.broker.topics.subscriptions.topic_subscriptions import SubscriptionRequest
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, InactiveTopics, ServicePolicies
from mledger.metastore.records.paths import TopicName
from tests.support.aio import run

MODE = "delete_when_no_subscriptions"


def policy(delete, after_s):
    return ServicePolicies(inactive_topics=InactiveTopics(delete, MODE, after_s))


@pytest.mark.parametrize(
    ("settings", "policies", "limit_s"),
    [
        (BrokerSettings(), NO_SERVICE_POLICIES, 60.0),
        (BrokerSettings(idle_check_s=5.0), NO_SERVICE_POLICIES, 5.0),
        (BrokerSettings(idle_limit_s=7.0), NO_SERVICE_POLICIES, 7.0),
        (BrokerSettings(delete_idle_topics=False), NO_SERVICE_POLICIES, None),
        (BrokerSettings(delete_idle_topics=False), policy(True, 3), 3),
        (BrokerSettings(), policy(False, 3), None),
        (BrokerSettings(), policy(True, -1), 0),
    ],
)
def test_a_policy_comes_before_the_settings(settings, policies, limit_s):
    assert plan_idle_limit_s(settings, policies) == limit_s


def test_a_topic_is_closed_once_it_was_without_use_for_long_enough():
    closed, settings = [], BrokerSettings(idle_limit_s=10.0)
    topic = NonPersistentTopic(
        TopicName.parse_served("non-persistent://t/n/x"),
        settings,
        TopicPolicies(),
        BrokerPublishLimits(settings),
        closed.append,
    )
    idle, start_ms = IdleTopics(lambda: [topic], settings), topic.used_ms

    async def main():
        subscription = await topic.subscriptions.open(SubscriptionRequest("sub"))
        idle.close_idle(start_ms + 100_000)
        topic.subscriptions.forget(subscription)
        idle.close_idle(start_ms + 109_999)
        assert not topic.ended
        idle.close_idle(start_ms + 110_000)
        assert topic.ended
        assert closed == [topic]

    run(main())


def test_an_error_in_one_look_leaves_the_next_one_to_be_made():
    async def main():
        asked, done = [], asyncio.Event()

        def topics():
            asked.append(None)
            if len(asked) == 2:
                done.set()
                return []
            raise KeyError("x")

        idle = IdleTopics(topics, BrokerSettings(idle_check_s=0.001))
        idle.check.start()
        await done.wait()
        idle.check.stop()
        return idle.check.failures

    assert run(main()) == 1
