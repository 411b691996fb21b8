"""How many topics a namespace may have; partitions count one by one, system topics do not count.

Topics that this broker is just creating count, too: of those that are created at once, no more than there are places
for. Another broker's are known once they are stored, as in Pulsar.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from weakref import WeakValueDictionary

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


class _Creations:
    """The topics of a namespace that are being created here; while one is counted, no other one is admitted."""

    def __init__(self) -> None:
        self.counting = asyncio.Lock()
        self.admitted: list[TopicName] = []  # one may be there twice: two requests can ask for it


class TopicPlaces:
    """The places for topics that namespaces have, as one broker gives them away."""

    def __init__(self) -> None:
        self._namespaces: WeakValueDictionary[str, _Creations] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def taken(
        self, reader: MetadataReader, topic: TopicName, settings: BrokerSettings, partitions: int = 0
    ) -> AsyncIterator[None]:
        """Within this, the topic may be created, or its `partitions`; each then has a place in its namespace.

        Raises:
            BrokerRefusal: the namespace would have too many.
            MetadataError: its policies or topics cannot be read.
        """
        most = await _most_topics(reader, topic, settings)
        if not most:
            yield
            return
        wanted = [topic.partition(index) for index in range(partitions)] or [topic]
        creations = self._namespaces.setdefault(topic.namespace_name, _Creations())
        async with creations.counting:
            before = list(creations.admitted)  # stored by the end of the listing, or still being created
            listed = await list_topics(reader, topic.namespace_name)
            if not has_place(wanted, [*listed, *before], most):
                raise BrokerRefusal(pb.NotAllowedError, TOO_MANY)
            creations.admitted += wanted
        try:
            yield
        finally:
            for each in wanted:
                creations.admitted.remove(each)


def has_place(wanted: Collection[TopicName], others: Collection[TopicName], most: int) -> bool:
    """Whether a namespace with these `others` has, with those `wanted`, at most so many topics."""
    return len({each for each in (*wanted, *others) if not is_system_topic(each)}) <= most


async def _most_topics(reader: MetadataReader, topic: TopicName, settings: BrokerSettings) -> int:
    """How many topics the namespace may have, 0: there is no limit for this one."""
    if is_system_topic(topic) or not topic.is_persistent:
        return 0
    policy = (await read_namespace_policies(reader, topic)).service.max_topics
    return max(0, settings.max_topics_per_namespace if policy is None else policy)
