"""Which topics are Pulsar's own."""

import pytest

from mledger.admin.system_topics import is_coordinators_assignment, is_for_brokers, is_system_topic
from mledger.metastore.records.paths import TopicName


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", False),
        ("__change_events", True),
        ("__change_events-partition-0", True),
        ("orders-sub__transaction_pending_ack", True),
        ("pulsar/system/__transaction_log_3", True),
        ("pulsar/system/transaction_coordinator_assign-partition-7", True),
        ("public/default/__transaction_log_3", False),
        ("public/default/transaction_coordinator_assign", False),
    ],
)
def test_system_topics(name, expected):
    assert is_system_topic(TopicName.parse(name)) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", False),
        ("__change_events", True),
        ("pulsar/system/loadbalancer-service-unit-state", True),
        ("pulsar/broker-1:8080/healthcheck", True),
        ("persistent://pulsar/standalone/broker-1:8080/healthcheck", True),
        ("pulsar/other/healthcheck", False),
        ("shop/broker-1:8080/healthcheck", False),
    ],
)
def test_topics_that_brokers_use(name, expected):
    assert is_for_brokers(TopicName.parse(name)) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pulsar/system/transaction_coordinator_assign", True),
        ("pulsar/system/transaction_coordinator_assign-partition-0", True),
        ("non-persistent://pulsar/system/transaction_coordinator_assign", False),
        ("pulsar/system/__transaction_log_3", False),
        ("public/default/transaction_coordinator_assign", False),
    ],
)
def test_the_topic_by_which_clients_find_the_coordinators_of_transactions(name, expected):
    assert is_coordinators_assignment(TopicName.parse_served(name)) is expected
