"""Which topics are Pulsar's own."""

import pytest

from mledger.broker.system_topics import is_system_topic
from mledger.metastore.records.paths import TopicName


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
