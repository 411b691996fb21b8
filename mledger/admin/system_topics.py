"""Topics in which Pulsar keeps something of its own. No I/O."""

from mledger.cursors.compaction import COMPACTED_SYSTEM_TOPICS
from mledger.metastore.records.paths import TopicName, split_partition

_SYSTEM_SUFFIX = "__transaction_pending_ack"
_COORDINATORS = "pulsar/system"
"""The namespace of the transaction coordinators: elsewhere the names of their topics are ordinary ones."""
_ASSIGNMENT, _TRANSACTION_LOG = "transaction_coordinator_assign", "__transaction_log_"


def is_system_topic(topic: TopicName) -> bool:
    """Whether Pulsar keeps something of its own in the topic, which pattern subscriptions do not receive."""
    name = split_partition(topic.local_name)[0]
    if name in COMPACTED_SYSTEM_TOPICS or name.endswith(_SYSTEM_SUFFIX):
        return True
    return topic.namespace_name == _COORDINATORS and (name == _ASSIGNMENT or name.startswith(_TRANSACTION_LOG))
