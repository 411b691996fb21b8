"""Publishers keep to the rates of their topic and of the broker, which its topics share."""

import pytest

from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.producers import publish_limits
from mledger.broker.topics.producers.publish_limits import BrokerPublishLimits, PublishLimits
from mledger.broker.topics.subscriptions.dispatchers import NO_RATE
from mledger.metastore.cluster.service_policies import ThrottleRate
from mledger.metastore.records.paths import TopicName
from tests.support.clock import SECOND_MS, Clock


@pytest.fixture
def clock(monkeypatch):
    """The clock that publishing is counted by."""
    clock = Clock()
    monkeypatch.setattr(publish_limits, "steady_ms", clock)
    return clock


def test_topics_share_the_rate_of_the_broker(clock):
    broker = BrokerPublishLimits(BrokerSettings(broker_publish_messages_per_s=100))
    first, second = PublishLimits(broker, NO_RATE), PublishLimits(broker, NO_RATE)
    first.take(300, 1)
    assert second.wait_ms(clock.ms) == pytest.approx(2 * SECOND_MS, abs=50)


def test_the_rate_of_the_broker_does_not_hold_for_system_topics():
    broker = BrokerPublishLimits(BrokerSettings(broker_publish_messages_per_s=1))
    own = broker.of_topic(TopicName("a", "b", "__change_events-partition-0"), NO_RATE)
    broker.configure(BrokerSettings(broker_publish_messages_per_s=2))
    own.configure(NO_RATE)
    assert not own.limiters
    assert broker.of_topic(TopicName("a", "b", "orders"), NO_RATE).limiters == broker.limiters


def test_the_byte_rate_of_the_broker_counts_too(clock):
    broker = BrokerPublishLimits(BrokerSettings(broker_publish_bytes_per_s=1000))
    limits = PublishLimits(broker, NO_RATE)
    limits.take(1, 500)
    assert limits.wait_ms(clock.ms) == 0
    limits.take(1, 1500)
    assert limits.wait_ms(clock.ms) >= SECOND_MS


def test_a_topic_follows_the_brokers_rate_and_keeps_the_debt_of_its_own(clock):
    broker = BrokerPublishLimits(BrokerSettings())
    limits = PublishLimits(broker, ThrottleRate(10, 0))
    limits.take(30, 1)
    broker.configure(BrokerSettings(broker_publish_messages_per_s=5))
    limits.configure(ThrottleRate(10, 0))
    assert (len(limits.limiters), limits.wait_ms(clock.ms) >= SECOND_MS) == (2, True)
    broker.configure(BrokerSettings())
    limits.configure(NO_RATE)
    assert (limits.limiters, limits.wait_ms(clock.ms)) == ((), 0)


def test_an_idle_topic_is_not_limited(clock):
    limits = PublishLimits(BrokerPublishLimits(BrokerSettings()), NO_RATE)
    limits.take(1 << 40, 1 << 40)
    assert (limits.limiters, limits.wait_ms(clock.ms)) == ((), 0)
