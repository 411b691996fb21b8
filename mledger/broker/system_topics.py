"""Topics in which Pulsar keeps something of its own. No I/O."""

from mledger.cursors.compaction import COMPACTED_SYSTEM_TOPICS
from mledger.metastore.records.paths import TopicName, split_partition

SYSTEM_TOPICS = COMPACTED_SYSTEM_TOPICS | {"transaction_coordinator_assign"}
_SYSTEM_SUFFIX = "__transaction_pending_ack"
_TRANSACTION_LOG = "__transaction_log_"


def is_system_topic(topic: TopicName) -> bool:
    """Whether Pulsar keeps something of its own in the topic, which pattern subscriptions do not receive."""
    name = split_partition(topic.local_name)[0]
    return name in SYSTEM_TOPICS or name.endswith(_SYSTEM_SUFFIX) or name.startswith(_TRANSACTION_LOG)
