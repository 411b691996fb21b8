"""Which consumers a subscription admits."""

from types import SimpleNamespace

import pytest

from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.subscriptions.admission import check_consumer
from mledger.pb import PulsarApi_pb2 as pb

SHARED = pb.CommandSubscribe.Shared


def consumer(host):
    return SimpleNamespace(connection=SimpleNamespace(host=host), request=SimpleNamespace(kind=SHARED))


def test_one_address_has_no_more_consumers_of_a_topic_than_the_settings_allow():
    """Those of all its subscriptions count, as in Pulsar."""
    topic = SimpleNamespace(
        name="topic", settings=BrokerSettings(max_consumers_per_topic_and_host=2), check_serves=lambda: None
    )
    topic.subscriptions = first, second = [
        SimpleNamespace(name="sub", topic=topic, deleted=False, kind=SHARED, consumers=[consumer("a")])
        for _ in range(2)
    ]
    check_consumer(first, consumer("b"))
    with pytest.raises(BrokerRefusal, match="2 consumers from a, the most that maxSameAddress") as refused:
        check_consumer(second, consumer("a"))
    assert refused.value.code == pb.ConsumerBusy
