"""What the console reads of a topic beside the admin API: its record, its policies, a dry run of recovery."""

from collections.abc import Sequence

from mledger.admin.cursor_inspection import CursorInspection
from mledger.admin.inspect import Inspector
from mledger.cluster import Cluster
from mledger.ledgers.retention import RetentionInForce, TopicPolicies, retention_in_force
from mledger.metastore.records.codec import decode_managed_ledger_info
from mledger.metastore.records.paths import TopicName


class StoredTopicReader:
    """Reads topics of `cluster`. It opens nothing and changes nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def closed_ms(self, topic: TopicName) -> dict[int, int]:
        """When each ledger was closed, in ms since 1970. NodeNotFound, RecordError."""
        path = topic.managed_ledger_path
        node = await self._cluster.store.get(path)
        infos = decode_managed_ledger_info(node.data, path).value.ledgers
        return {each.ledger_id: each.timestamp for each in infos}

    async def policies(self, topic: TopicName) -> TopicPolicies:
        """The policies of the topic and of its namespace. PoliciesUnavailable."""
        return (await self._cluster.policies.of_namespace(topic)).of(topic)

    async def retention(self, topic: TopicName) -> RetentionInForce:
        """The retention in force. PoliciesUnavailable."""
        return retention_in_force(await self.policies(topic), self._cluster.config)

    async def after_restart(self, topic: TopicName) -> Sequence[CursorInspection]:
        """What opening the topic would make of its cursors, by what is stored now. TopicNotFound, RecordError."""
        cluster = self._cluster
        inspector = Inspector(cluster.store, cluster.bookkeeper, cluster.config.password)
        return await inspector.cursors(str(topic))
