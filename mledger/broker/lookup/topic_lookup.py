"""Answers where a topic is served, how many partitions it has, and which topics a namespace has."""

import contextlib

from mledger.admin.namespaces import require_namespace
from mledger.admin.partitions import create_partitioned_topic, read_partitioned
from mledger.admin.system_topics import is_system_topic
from mledger.admin.topic_names import list_topics
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.served_topic import check_enabled
from mledger.broker.topics.topic_count import TopicPlaces
from mledger.broker.topics.topic_creation import NO_CREATION, read_auto_creation
from mledger.errors import TopicExists, TopicNotFound
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataStore
from mledger.pb import PulsarApi_pb2 as pb


def check_listener(name: str) -> None:
    """Raise BrokerRefusal if a client wants the address of a listener by name: brokers here announce one address."""
    if name:
        raise BrokerRefusal(
            pb.NotAllowedError,
            f"this broker has no listener {name!r}: advertisedListeners is not supported, leave the client's listener "
            "name out",
        )


class TopicLookup:
    """What is told of topics whoever serves them: their partitions, and which there are."""

    def __init__(self, store: MetadataStore, settings: BrokerSettings, places: TopicPlaces) -> None:
        self._store = store
        self._places = places
        self._settings = settings

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings."""
        self._settings = settings

    async def partitions(self, topic: TopicName, *, create: bool) -> int:
        """How many partitions the topic has, 0 if it is not partitioned.

        With `create`, a topic that does not exist becomes partitioned if its namespace or the settings say so.

        Raises:
            TopicNotFound: it does not exist, and would not be created.
            NamespaceNotFound: its namespace does not exist.
            BrokerRefusal: its namespace has too many topics.
        """
        if topic.partition_index is not None:
            return 0
        found = await read_partitioned(self._store, topic)
        if found is not None:
            return found[0].partitions
        if topic.is_persistent and await self._store.exists(topic.managed_ledger_path) is not None:
            return 0
        check_enabled(topic, self._settings)
        await require_namespace(self._store, topic.namespace_name)
        creation = await read_auto_creation(self._store, topic, self._settings) if create else NO_CREATION
        if not creation.allowed:
            if not topic.is_persistent:  # whether it is in use, only its owner knows
                return 0
            raise TopicNotFound(f"there is no topic {topic}: create it, or allow clients to (allowAutoTopicCreation)")
        partitions = creation.partitions
        if not partitions:
            return 0
        async with self._places.taken(self._store, topic, self._settings, partitions):
            with contextlib.suppress(TopicExists):  # another client's request creates it
                await create_partitioned_topic(self._store, str(topic), partitions)
        found = await read_partitioned(self._store, topic)
        return 0 if found is None else found[0].partitions

    async def topics(self, namespace: str) -> list[str]:
        """The full names of the persistent topics of a namespace, sorted; partitions one by one."""
        found = await list_topics(self._store, namespace)
        return [str(topic) for topic in found if not is_system_topic(topic)]
