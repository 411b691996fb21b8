"""Whether clients create a topic by using it: the policy of its namespace, else the broker's settings.

System topics are always created so, as in Pulsar: brokers and transactions could not work without them.
"""

from mledger.admin.system_topics import is_system_topic
from mledger.broker.settings import PARTITIONED, BrokerSettings
from mledger.metastore.cluster.policies import read_namespace_policies
from mledger.metastore.cluster.service_policies import AutoTopicCreation
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader

NO_CREATION = AutoTopicCreation(allowed=False)


def plan_auto_creation(
    topic: TopicName, settings: BrokerSettings, policy: AutoTopicCreation | None
) -> AutoTopicCreation:
    """How clients create this topic, in a namespace with this policy."""
    if policy is None:
        partitions = settings.default_partitions if settings.auto_topic_creation_type == PARTITIONED else 0
        policy = AutoTopicCreation(settings.auto_topic_creation, partitions)
    return AutoTopicCreation(allowed=True, partitions=policy.partitions) if is_system_topic(topic) else policy


async def read_auto_creation(reader: MetadataReader, topic: TopicName, settings: BrokerSettings) -> AutoTopicCreation:
    """How clients create this topic now. MetadataError if the policies of its namespace cannot be read."""
    policies = await read_namespace_policies(reader, topic)
    return plan_auto_creation(topic, settings, policies.service.auto_topic_creation)
