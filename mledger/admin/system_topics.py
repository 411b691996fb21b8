"""Topics in which Pulsar keeps something of its own. No I/O."""

import re

from mledger.cursors.compaction import COMPACTED_SYSTEM_TOPICS
from mledger.metastore.records.paths import TopicName, split_partition

_SYSTEM_SUFFIX = "__transaction_pending_ack"
_COORDINATORS = "pulsar/system"
"""The namespace of the transaction coordinators: elsewhere the names of their topics are ordinary ones."""
_ASSIGNMENT, _TRANSACTION_LOG = "transaction_coordinator_assign", "__transaction_log_"
_HEARTBEATS = re.compile(r"pulsar/(.+/)?[^/:]+:\d+")
"""The namespaces with the health checks of brokers, which have a broker's address for a name."""


def is_system_topic(topic: TopicName) -> bool:
    """Whether Pulsar keeps something of its own in the topic, which pattern subscriptions do not receive."""
    name = split_partition(topic.local_name)[0]
    if name in COMPACTED_SYSTEM_TOPICS or name.endswith(_SYSTEM_SUFFIX):
        return True
    return topic.namespace_name == _COORDINATORS and (name == _ASSIGNMENT or name.startswith(_TRANSACTION_LOG))


def is_coordinators_assignment(topic: TopicName) -> bool:
    """Whether clients find the coordinators of transactions by the topic, as they do before they begin one."""
    name = split_partition(topic.local_name)[0]
    return topic.is_persistent and topic.namespace_name == _COORDINATORS and name == _ASSIGNMENT


def is_for_brokers(topic: TopicName) -> bool:
    """Whether brokers are the clients of the topic: limits of clients do not hold for system topics and heartbeats."""
    if is_system_topic(topic) or topic.namespace_name == _COORDINATORS:
        return True
    return _HEARTBEATS.fullmatch(topic.namespace_name) is not None
