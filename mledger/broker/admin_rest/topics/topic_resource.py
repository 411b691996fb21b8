"""`/admin/v2/persistent`: the topics of a namespace, and topics that are created, deleted, closed, ended."""

import re
from collections.abc import Sequence
from http import HTTPStatus

from mledger.admin.partitions import read_partitioned
from mledger.admin.system_topics import is_system_topic
from mledger.admin.topic_names import list_topics
from mledger.broker.admin_rest.body_checks import texts
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_request_for
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.refusals import AdminRefusal, conflict, not_built, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, AdminRequest, json_answer
from mledger.broker.admin_rest.route_table import AdminRoute
from mledger.broker.admin_rest.topics.ownership import (
    NON_PERSISTENT_ONE,
    NON_PERSISTENT_ROOT,
    ONE,
    ROOT,
    TopicOwnership,
    no_topic,
    topic_path,
)
from mledger.broker.admin_rest.topics.schema_namesakes import has_namesakes
from mledger.broker.admin_rest.topics.topic_policy_resource import remove_policies
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.lookup.bundle_ranges import plan_bundle
from mledger.broker.lookup.topic_list import TopicsMode
from mledger.broker.refusals import BrokerRefusal
from mledger.cluster import Cluster
from mledger.errors import TopicNotFound
from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.errors import NodeExists
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import PARTITION, TopicName
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.write_verification import create_own

EXISTS = "This topic already exists"
_NUMBER = re.compile(r"[+-]?\d{1,19}")


def is_named_as_partition(topic: TopicName) -> bool:
    """Whether a number follows `-partition-`, as Pulsar reads one: of a partition it has no sign and no zero before."""
    _, found, after = topic.local_name.rpartition(PARTITION)
    return bool(found) and _NUMBER.fullmatch(after) is not None


def plan_new_topic(topic: TopicName, *, exists: bool, whole: PartitionedTopic | None) -> None:
    """Raise AdminRefusal unless the topic can be created; `whole` is the record of the topic or of its whole."""
    index = topic.partition_index
    if exists or (index is None and whole is not None):
        raise conflict(EXISTS)
    missing = index is not None and (whole is None or index >= whole.partitions)
    if missing or (index is None and is_named_as_partition(topic)):
        base = topic.local_name.rpartition(PARTITION)[0]
        raise precondition(
            f"Can't create topic {topic.local_name} with \"-partition-\" followed by numeric value if there isn't "
            f"a partitioned topic {base} created."
        )


class TopicResource:
    """Answers for topics that are not partitioned, and lists all."""

    def __init__(
        self, broker: ServedBroker, cluster: Cluster, nodes: PoliciesNodes, ownership: TopicOwnership, fan_out: FanOut
    ) -> None:
        self._broker, self._store = broker, cluster.store
        self._nodes, self._ownership, self._fan_out = nodes, ownership, fan_out

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        admin = Access.NAMESPACE_ADMIN
        return [
            AdminRoute("GET", ROOT, Access.LOOKUP, self.names),
            AdminRoute("GET", NON_PERSISTENT_ROOT, Access.LOOKUP, self.nonpersistent_names),
            AdminRoute("PUT", ONE, admin, self.create),
            AdminRoute("DELETE", ONE, admin, self.delete),
            AdminRoute("DELETE", NON_PERSISTENT_ONE, admin, self.delete),
        ]

    async def names(self, call: AdminCall) -> AdminAnswer:
        """The topics of a namespace, or of one `bundle`, partitions one by one."""
        await self._nodes.check_exists(call.namespace)
        topics = await list_topics(self._store, call.namespace)
        hidden = not call.request.flag("includeSystemTopic")
        return await self._listed(call, [topic for topic in topics if not (hidden and is_system_topic(topic))])

    async def nonpersistent_names(self, call: AdminCall) -> AdminAnswer:
        """The non-persistent topics of a namespace, or of one `bundle`, in use at this broker."""
        await self._nodes.check_exists(call.namespace)
        topics = await self._broker.topics_of(call.namespace, TopicsMode.NON_PERSISTENT)
        return await self._listed(call, list(map(TopicName.parse_served, topics)))

    async def _listed(self, call: AdminCall, topics: Sequence[TopicName]) -> AdminAnswer:
        bundle = call.request.query.get("bundle")
        if bundle is not None:
            boundaries = await self._nodes.boundaries(call.namespace)
            topics = [topic for topic in topics if plan_bundle(topic, boundaries) == bundle]
        return json_answer([str(topic) for topic in topics])

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Create a topic without partitions, and open it."""
        topic, properties = call.topic, texts(call.request.json(), "the properties")
        if SHADOW_SOURCE in properties:
            raise not_built("shadow topics")
        await self._nodes.check_exists(call.namespace, "Namespace not found")
        found = await read_partitioned(self._store, topic.partitioned)
        plan_new_topic(topic, exists=await self._ownership.exists(topic), whole=None if found is None else found[0])
        await self._ownership.check(call, topic)
        try:
            async with self._broker.topics.places.taken(self._store, topic, self._broker.settings):
                record = encode_managed_ledger_info(ManagedLedgerInfo(properties=tuple(properties.items())))
                await create_own(self._store, topic.managed_ledger_path, record)
        except BrokerRefusal as refusal:
            raise conflict(str(refusal)) from None
        except NodeExists:
            raise conflict(EXISTS) from None
        created = await TopicRecord.read(self._store, topic.managed_ledger_name)
        try:
            await self._broker.topics.topic(topic, create=False)
        except BaseException:
            await created.remove_new()  # do not leave a topic that could not be opened
            raise
        return NO_CONTENT

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Delete a topic with subscriptions, permissions, schema and policies; clients keep it, unless with `force`.

        So do those of another owner, of which a broker that stood still has not heard. Of a non-persistent topic
        nothing is stored; it may share its schema with a topic that is.
        """
        topic = call.topic
        if await self._ownership.partitions(topic):
            raise conflict(
                f"{topic} is a partitioned topic, instead of calling delete topic, "
                "please call delete-partitioned-topic."
            )
        if topic.is_persistent and await self._ownership.is_gone(topic):
            await self._remove_left(call.request, topic)
            raise no_topic(topic)
        await self._ownership.check(call, topic)

        async def remove_rest() -> None:
            await self.remove_remains(call.request, topic)

        try:
            force = call.request.flag("force")
            await self._broker.topics.delete(topic, force=force, take_over=force, then=remove_rest)
        except TopicNotFound:
            raise no_topic(topic) from None
        return NO_CONTENT

    async def _remove_left(self, request: AdminRequest, topic: TopicName) -> None:
        """Remove what a deletion that was cut off has left, but no schema that another topic has. MledgerError."""
        whole = topic.partition_index is None  # a partition has no schema of its own
        if whole and await has_namesakes(self._store, self._fan_out, request, topic):
            await self._nodes.remove_grants(topic.namespace_name, [str(topic)])
            await self._remove_policies(request, topic)
        else:
            await self.remove_remains(request, topic)

    async def remove_remains(self, request: AdminRequest, topic: TopicName) -> None:
        """Remove the permissions, the schema and the policies of a topic that was just deleted. MledgerError."""
        await self._nodes.remove_grants(topic.namespace_name, [str(topic)])
        await self._broker.schemas.remove(topic)
        await self._remove_policies(request, topic)

    async def _remove_policies(self, request: AdminRequest, topic: TopicName) -> None:
        if topic.partition_index is None and not is_system_topic(topic):
            await remove_policies(self._fan_out, request, topic)

    async def delete_everywhere(
        self, call: AdminCall, partitioned: Sequence[TopicName], plain: Sequence[TopicName]
    ) -> None:
        """Delete topics with force, each by the broker that serves it. AdminRefusal if one is not deleted."""
        paths = [topic_path(each, "partitions") for each in partitioned] + [topic_path(each) for each in plain]
        requests = [plan_request_for(call.request, "DELETE", path, query={"force": "true"}) for path in paths]
        answers = await self._fan_out.ask_all(requests)
        wrong = plan_first_error([*answers, NO_CONTENT], accepted=(HTTPStatus.NOT_FOUND,))
        if wrong is not None:
            raise AdminRefusal(wrong.status, f"a system topic is not deleted: {wrong.body.decode(errors='replace')}")
