"""Which dispatcher a subscription has, and what limits it: D1, D2, D5."""

from types import SimpleNamespace

import pytest

from mledger.broker.dispatch.exclusive import ExclusiveDispatcher
from mledger.broker.dispatch.key_shared import KeySharedDispatcher
from mledger.broker.dispatch.keys.key_assignment import ConsistentHashing, RangeSplit, StickyRanges
from mledger.broker.dispatch.keys.key_hash import KeyRange
from mledger.broker.dispatch.shared import SharedDispatcher
from mledger.broker.dispatch.waiting.delayed_bucket import BucketLimits
from mledger.broker.settings import IN_MEMORY, BrokerSettings
from mledger.broker.topics.policies_in_force import plan_rates
from mledger.broker.topics.subscriptions.consumer import ConsumerRequest
from mledger.broker.topics.subscriptions.dispatchers import DispatchLimits, dispatch_mode, make_dispatcher
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies, ThrottleRate
from mledger.metastore.records.paths import TopicName
from mledger.pb import PulsarApi_pb2 as pb
from tests.support.brokers.driven_dispatcher import DrivenDispatcher

Kind = pb.CommandSubscribe


def rates_of(settings):
    return plan_rates(settings, NO_SERVICE_POLICIES)


def made(kind=Kind.Shared, settings=None, limits=None, **request):
    settings = settings or BrokerSettings()
    limits = limits or DispatchLimits.of_broker(settings).of_topic(rates_of(settings))
    topic = SimpleNamespace(settings=settings, limits=limits, name=TopicName.parse("persistent://public/default/t"))
    return make_dispatcher(topic, "s", ConsumerRequest(1, "c", kind, **request))


@pytest.mark.parametrize(
    ("kind", "dispatcher"),
    [
        (Kind.Exclusive, ExclusiveDispatcher),
        (Kind.Failover, ExclusiveDispatcher),
        (Kind.Shared, SharedDispatcher),
        (Kind.Key_Shared, KeySharedDispatcher),
    ],
)
def test_each_type_of_subscription_has_its_dispatcher(kind, dispatcher):
    assert type(made(kind)) is dispatcher


@pytest.mark.parametrize(
    ("sticky", "consistent", "assignment"),
    [(False, True, ConsistentHashing), (False, False, RangeSplit), (True, True, StickyRanges)],
)
def test_keys_are_assigned_as_consumer_and_settings_say(sticky, consistent, assignment):
    settings = BrokerSettings(consistent_hashing=consistent)
    assert type(made(Kind.Key_Shared, settings, sticky=sticky).assignment) is assignment


def sent_at_once(dispatcher):
    sub = DrivenDispatcher(dispatcher)
    sub.consumer("c", permits=1_000)
    sub.publish(*[1] * 50)
    return len(sub.pump())


@pytest.mark.parametrize("kind", [Kind.Exclusive, Kind.Shared, Kind.Key_Shared])
@pytest.mark.parametrize(("rates", "sent"), [((("s", ThrottleRate(7)),), 7), ((("other", ThrottleRate(7)),), 20)])
def test_a_subscription_s_own_rate_comes_before_that_of_all(kind, rates, sent):
    settings = BrokerSettings(dispatch_messages_per_s_and_subscription=20)
    rates = plan_rates(settings, ServicePolicies(dispatch_rate_by_subscription=rates))
    assert sent_at_once(made(kind, settings, DispatchLimits.of_broker(settings).of_topic(rates))) == sent


@pytest.mark.parametrize(("topic", "sent"), [("__change_events", 50), ("orders", 7)])
def test_the_broker_s_rate_does_not_hold_for_topics_that_brokers_use(topic, sent):
    settings = BrokerSettings(dispatch_messages_per_s=7)
    limits = DispatchLimits.of_broker(settings).for_topic(TopicName.parse(topic)).of_topic(rates_of(settings))
    assert sent_at_once(made(settings=settings, limits=limits)) == sent


@pytest.mark.parametrize("kind", [Kind.Exclusive, Kind.Shared, Kind.Key_Shared])
@pytest.mark.parametrize(
    "field",
    ["dispatch_messages_per_s", "dispatch_messages_per_s_and_topic", "dispatch_messages_per_s_and_subscription"],
)
def test_rates_of_broker_topic_and_subscription_limit_what_is_sent(kind, field):
    assert sent_at_once(made(kind, BrokerSettings(**{field: 7}))) == 7
    assert sent_at_once(made(kind, BrokerSettings(**{field: -1}))) == 50


def test_the_subscriptions_of_a_topic_share_its_rate_and_not_their_own():
    settings = BrokerSettings(dispatch_messages_per_s_and_topic=10, dispatch_messages_per_s_and_subscription=7)
    limits = DispatchLimits.of_broker(settings).of_topic(rates_of(settings))
    assert [sent_at_once(made(settings=settings, limits=limits)) for _ in range(2)] == [7, 3]


def test_the_topics_of_a_broker_share_its_rate():
    settings = BrokerSettings(dispatch_messages_per_s=10)
    broker = DispatchLimits.of_broker(settings)
    assert [sent_at_once(made(settings=settings, limits=broker.of_topic(rates_of(settings)))) for _ in range(2)] == [
        10,
        0,
    ]


def test_delays_may_be_switched_off():
    assert not made(settings=BrokerSettings(delayed_delivery=False)).settings.holds_delayed
    assert made().delayed is not None


def test_the_delayed_index_is_kept_in_buckets_as_the_settings_say():
    settings = BrokerSettings(
        delayed_bucket_indexes=7, delayed_segment_s=2.0, delayed_segment_indexes=3, delayed_buckets=5
    )
    assert made(settings=settings).delayed.limits == BucketLimits(7, 2_000, 3, 5)
    assert made(settings=BrokerSettings(delayed_tracker=IN_MEMORY)).delayed.limits is None


def test_consumers_that_need_another_dispatcher_have_another_mode():
    requests = [
        ConsumerRequest(1, "c", Kind.Exclusive),
        ConsumerRequest(1, "c", Kind.Exclusive, key_ranges=(KeyRange(0, 9),)),
        ConsumerRequest(1, "c", Kind.Shared),
        ConsumerRequest(1, "c", Kind.Key_Shared),
        ConsumerRequest(1, "c", Kind.Key_Shared, sticky=True, key_ranges=(KeyRange(0, 9),)),
        ConsumerRequest(1, "c", Kind.Key_Shared, out_of_order=True),
    ]
    assert len({dispatch_mode(request) for request in requests}) == len(requests)
    assert dispatch_mode(requests[2]) == dispatch_mode(ConsumerRequest(2, "d", Kind.Shared, priority=1))
