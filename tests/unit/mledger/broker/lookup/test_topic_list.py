"""Lists of topics: their hash, and which topics are Pulsar's own."""

import pytest

from mledger.broker.lookup.topic_list import is_system_topic, topics_hash
from mledger.metastore.records.paths import TopicName


def test_the_hash_is_javas_whatever_the_order():
    topics = [
        "persistent://public/default/wire-java-2516931525-schema",
        "persistent://public/default/wire-java-2516931525",
    ]
    assert topics_hash(topics) == topics_hash(topics[::-1]) == "5d9007d3"


def test_the_hash_of_no_topics():
    assert topics_hash([]) == "00000000"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", False),
        ("__change_events", True),
        ("__change_events-partition-0", True),
        ("orders-sub__transaction_pending_ack", True),
        ("__transaction_log_3", True),
    ],
)
def test_system_topics(name, expected):
    assert is_system_topic(TopicName.parse(name)) is expected
