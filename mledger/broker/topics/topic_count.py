"""How many topics a namespace may have; partitions count one by one, system topics do not count.

Two topics that are created at once may both become the last one, as in Pulsar.
"""

from mledger.admin.system_topics import is_system_topic
from mledger.admin.topic_names import list_topics
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.metastore.cluster.policies import read_namespace_policies
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader
from mledger.pb import PulsarApi_pb2 as pb

TOO_MANY = "Exceed maximum number of topics in namespace."
"""Pulsar's words."""


async def check_topic_count(reader: MetadataReader, topic: TopicName, settings: BrokerSettings, new: int = 1) -> None:
    """Return if `new` topics may be created in the namespace of `topic`, which does not exist.

    Raises:
        BrokerRefusal: the namespace would have too many.
        MetadataError: its policies or topics cannot be read.
    """
    if is_system_topic(topic) or not topic.is_persistent:
        return
    policy = (await read_namespace_policies(reader, topic)).service.max_topics
    most = settings.max_topics_per_namespace if policy is None else policy  # 0: no limit, also as a policy
    if most <= 0:
        return
    topics = [each for each in await list_topics(reader, topic.namespace_name) if not is_system_topic(each)]
    if len(topics) + new > most:
        raise BrokerRefusal(pb.NotAllowedError, TOO_MANY)
