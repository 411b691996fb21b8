"""The policies in force for topics (M10): those in the namespace's node, and those in its topics' policy events.

A process has one reader for all topics: concurrent requests for topics of one namespace cause one read.
"""

import asyncio
import time

from msgspec import Struct, field

from mledger.admin.partitions import read_partitioned
from mledger.admin.policies.change_events import ChangeEvents
from mledger.admin.policies.policy_events import PolicyScope, PolicyTable
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.cursors.compaction import CHANGE_EVENTS
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.policies import NO_POLICIES, StoragePolicies, read_namespace_policies
from mledger.metastore.errors import InvalidName, MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.store import MetadataReader


class NamespacePolicies(Struct, frozen=True):
    """The policies of a namespace, and those of its topics."""

    namespace: StoragePolicies = NO_POLICIES
    topics: PolicyTable = field(default_factory=PolicyTable)

    def of(self, topic: TopicName) -> TopicPolicies:
        """The policies that apply to one of its topics."""
        table = self.topics
        return TopicPolicies(table.of(topic, PolicyScope.LOCAL), table.of(topic, PolicyScope.GLOBAL), self.namespace)


class PolicyReader:
    """Reads the policies of a cluster's topics; it cannot write.

    `password` is that of the ledgers, None: each one's own. `cluster` is the name of the cluster: rates of a namespace
    are set per cluster. Without `topic_level`, topics have no policies of their own: those that were set before do not
    count, as with `topicLevelPoliciesEnabled=false` in Pulsar.
    """

    def __init__(
        self,
        store: MetadataReader,
        bookkeeper: BookKeeperReader,
        password: bytes | None = None,
        cluster: str = "",
        *,
        topic_level: bool = True,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._bookkeeper = bookkeeper
        self._password = password
        self._topic_level = topic_level
        self._namespaces: dict[str, _Namespace] = {}

    async def policies(self, managed_ledger: str, *, max_age_s: float = 0.0) -> TopicPolicies:
        """The policies in force for the topic of `managed_ledger`, read at most `max_age_s` seconds ago.

        A managed ledger that belongs to no topic has none. Raises PoliciesUnavailable if they cannot be read.
        """
        try:
            topic = TopicName.of_managed_ledger(managed_ledger)
        except InvalidName:
            return TopicPolicies()
        return (await self.of_namespace(topic, max_age_s=max_age_s)).of(topic)

    async def of_namespace(self, topic: TopicName, *, max_age_s: float = 0.0) -> NamespacePolicies:
        """The policies of the topic's namespace and of all its topics. Raises PoliciesUnavailable."""
        namespace = self._namespaces.get(topic.namespace_name)
        if namespace is None:
            namespace = _Namespace(
                self._store, self._bookkeeper, topic, self._password, self._cluster, topic_level=self._topic_level
            )
            self._namespaces[topic.namespace_name] = namespace
        try:
            return await namespace.policies(max_age_s)
        except MledgerError as error:
            raise PoliciesUnavailable(
                f"the policies of {topic} cannot be read, so none of its ledgers is trimmed: {error}"
            ) from error


class _Namespace:
    """What was read of one namespace."""

    def __init__(
        self,
        store: MetadataReader,
        bookkeeper: BookKeeperReader,
        topic: TopicName,
        password: bytes | None,
        cluster: str,
        *,
        topic_level: bool,
    ) -> None:
        self._cluster = cluster
        self._topic_level = topic_level
        self._store = store
        self._bookkeeper = bookkeeper
        self._password = password
        self._events = TopicName(topic.tenant, topic.namespace, CHANGE_EVENTS, cluster=topic.cluster)
        self._topics: dict[TopicName, ChangeEvents] = {}
        self._lock = asyncio.Lock()
        self._read_s = -float("inf")
        self._found = NamespacePolicies()

    async def policies(self, max_age_s: float) -> NamespacePolicies:
        """As `PolicyReader.of_namespace`."""
        wanted_s = time.monotonic() - max_age_s
        async with self._lock:
            if self._read_s < wanted_s:
                await self._read()
        return self._found

    async def _read(self) -> None:
        began_s = time.monotonic()
        await self._store.sync()  # a server that lags may still have an older, shorter retention
        policies = await read_namespace_policies(self._store, self._events, self._cluster)
        table = PolicyTable()
        for topic in await self._event_topics() if self._topic_level else ():
            if topic not in self._topics:
                self._topics[topic] = ChangeEvents(self._store, self._bookkeeper, topic, self._password)
            table.merge(await self._topics[topic].read())
        self._found, self._read_s = NamespacePolicies(policies, table), began_s

    async def _event_topics(self) -> list[TopicName]:
        """The topics that may hold policies of the namespace's topics."""
        partitioned = await read_partitioned(self._store, self._events)
        partitions = 0 if partitioned is None else partitioned[0].partitions
        return [self._events, *(self._events.partition(index) for index in range(partitions))]
