"""Partitioned topics: `…/partitions`, and the list of them."""

from collections.abc import Collection, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from mledger.admin.partitions import (
    create_partitioned_topic,
    create_partitions,
    list_partitioned,
    present_partitions,
    read_partitioned,
)
from mledger.admin.system_topics import is_system_topic
from mledger.broker.admin_rest.body_checks import number_of, texts
from mledger.broker.admin_rest.fan_out import FanOut, plan_first_error, plan_request_for
from mledger.broker.admin_rest.namespaces.policies_node import PoliciesNodes
from mledger.broker.admin_rest.refusals import AdminRefusal, conflict, not_built, not_found, precondition
from mledger.broker.admin_rest.requests import NO_CONTENT, Access, AdminAnswer, AdminCall, json_answer
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
from mledger.broker.admin_rest.topics.topic_resource import EXISTS, is_named_as_partition
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.refusals import BrokerRefusal
from mledger.errors import TopicExists, TopicNotFound
from mledger.ledgers.shadow_topics import SHADOW_SOURCE
from mledger.metastore.errors import BadVersion, MledgerError, NodeNotFound
from mledger.metastore.records.partitioned_topic import PartitionedTopic, encode_partitioned_topic
from mledger.metastore.records.paths import NON_PERSISTENT, PARTITION, PERSISTENT, TopicName, cursor_name
from mledger.metastore.store import Check, Delete
from mledger.metastore.write_verification import delete_own, put_own
from mledger.topics.backlog_quota import KEPT
from mledger.topics.properties import mark_deleted, unmark_deleted

EARLIEST_BODY = b'"earliest"'
MOST_PARTITIONS = 10_000
_CHANGED = "the partitions of {} were changed meanwhile: try again"


def plan_count(body: Any) -> tuple[int, dict[str, str]]:
    """How many partitions a body asks for, and the properties: a number, or an object. AdminRefusal."""
    properties: dict[str, str] = {}
    if isinstance(body, dict):
        properties = texts(body.get("properties"), "the properties")
        if SHADOW_SOURCE in properties:
            raise not_built("shadow topics")
        body = body.get("partitions", "")
    partitions = number_of(0 if body is None else body, "the number of partitions", low=-(2**31))
    if partitions <= 0:
        raise AdminRefusal(HTTPStatus.NOT_ACCEPTABLE, "Number of partitions should be more than 0")
    if partitions > MOST_PARTITIONS:
        raise AdminRefusal(
            HTTPStatus.NOT_ACCEPTABLE, f"Number of partitions should be less than or equal to {MOST_PARTITIONS}"
        )
    return partitions, properties


class PartitionResource:
    """Answers for topics that are partitioned."""

    def __init__(self, broker: ServedBroker, nodes: PoliciesNodes, ownership: TopicOwnership, fan_out: FanOut) -> None:
        self._broker, self._store = broker, broker.owners.store
        self._nodes, self._ownership, self._fan_out = nodes, ownership, fan_out

    @property
    def routes(self) -> list[AdminRoute]:
        """What is served."""
        path, admin = f"{ONE}/partitions", Access.NAMESPACE_ADMIN
        return [
            AdminRoute("GET", f"{ROOT}/partitioned", Access.LOOKUP, self.names),
            AdminRoute("GET", f"{NON_PERSISTENT_ROOT}/partitioned", Access.LOOKUP, self.non_persistent_names),
            AdminRoute("GET", path, Access.LOOKUP, self.show),
            AdminRoute("PUT", path, admin, self.create),
            AdminRoute("POST", path, admin, self.update),
            AdminRoute("DELETE", path, admin, self.delete),
            AdminRoute("POST", f"{ONE}/createMissedPartitions", Access.TENANT_ADMIN, self.create_missed),
            AdminRoute("GET", f"{NON_PERSISTENT_ONE}/partitions", Access.LOOKUP, self.show),
            AdminRoute("PUT", f"{NON_PERSISTENT_ONE}/partitions", admin, self.create),
            AdminRoute("DELETE", f"{NON_PERSISTENT_ONE}/partitions", admin, self.delete),
        ]

    async def names(self, call: AdminCall) -> AdminAnswer:
        """The partitioned topics of a namespace."""
        return await self._names(call, PERSISTENT)

    async def non_persistent_names(self, call: AdminCall) -> AdminAnswer:
        """The partitioned topics of a namespace whose messages are not stored."""
        return await self._names(call, NON_PERSISTENT)

    async def _names(self, call: AdminCall, domain: str) -> AdminAnswer:
        await self._nodes.check_exists(call.namespace)
        found = await list_partitioned(self._store, call.namespace, [], domain)
        hidden = not call.request.flag("includeSystemTopic")
        return json_answer([str(topic) for topic, _ in found if not (hidden and is_system_topic(topic))])

    async def show(self, call: AdminCall) -> AdminAnswer:
        """How many partitions a topic has, 0 if it is not partitioned."""
        topic = call.topic
        create = call.request.flag("checkAllowAutoCreation")
        unsure = topic.is_persistent and is_named_as_partition(topic) and not create
        if unsure and not await self._ownership.known(topic):
            raise no_topic(topic)
        try:
            partitions = await self._broker.lookup.partitions(topic, create=create)
        except TopicNotFound:
            raise no_topic(topic) from None
        found: dict[str, Any] = {"partitions": partitions, "deleted": False}
        record = await read_partitioned(self._store, topic) if partitions else None
        if record is not None:
            found["deleted"] = record[0].deleted
            found |= {"properties": dict(record[0].properties)} if record[0].properties else {}
        return json_answer(found)

    async def create(self, call: AdminCall) -> AdminAnswer:
        """Create a partitioned topic and its partitions."""
        topic = call.topic
        if PARTITION in topic.local_name:
            raise precondition(f"Partitioned Topic Name should not contain '{PARTITION}'")
        partitions, properties = plan_count(call.request.json(required=True))
        await self._nodes.check_exists(call.namespace, "Namespace not found")
        try:
            async with self._broker.topics.places.taken(self._store, topic, self._broker.settings, partitions):
                await create_partitioned_topic(self._store, str(topic), partitions, properties)
        except BrokerRefusal as refusal:
            raise precondition(str(refusal)) from None
        except TopicExists:
            raise conflict(EXISTS) from None
        return NO_CONTENT

    async def update(self, call: AdminCall) -> AdminAnswer:
        """Give a topic more partitions, with the subscriptions of the others, from their start.

        Its record says so last: else a client that reads it could publish to a new partition before another one
        subscribes there, at the end.
        """
        topic = call.topic
        wanted, _ = plan_count(call.request.json(required=True))
        found = await read_partitioned(self._store, topic)
        if found is None:
            raise conflict(f"Topic {topic} is not the partitioned topic.")
        record, version = found
        if wanted < record.partitions:
            why = f"Desired partitions {wanted} can't be less than the current partitions {record.partitions}."
            raise AdminRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, why)
        subscriptions = await self._subscriptions(topic, record.partitions)
        await self._create_partitions(topic, wanted, version)
        wrong = await self._subscribe(call, [topic.partition(index) for index in range(wanted)], subscriptions)
        if wrong is not None:
            return wrong
        if wanted > record.partitions or record.deleted:
            data = encode_partitioned_topic(replace(record, partitions=wanted, deleted=False))
            try:
                await put_own(self._store, topic.partitioned_topic_path, data, version)
            except (BadVersion, NodeNotFound):
                raise conflict(_CHANGED.format(topic)) from None
        return NO_CONTENT

    async def create_missed(self, call: AdminCall) -> AdminAnswer:
        """Create the partitions that a topic lacks."""
        topic = call.topic
        found = await read_partitioned(self._store, topic)
        if found is None:
            raise not_found(f"Partitioned Topic {topic} not found")
        await self._create_partitions(topic, found[0].partitions, found[1])
        return NO_CONTENT

    async def _create_partitions(self, topic: TopicName, wanted: int, version: int) -> None:
        """Create those of the first `wanted` partitions that a topic lacks, if its record is still at `version`.

        A deletion marks the record before it looks which there are. AdminRefusal (409).
        """
        try:
            await create_partitions(self._store, topic, wanted, Check(topic.partitioned_topic_path, version))
        except (BadVersion, NodeNotFound):
            raise conflict(_CHANGED.format(topic)) from None

    async def _subscriptions(self, topic: TopicName, partitions: int) -> set[str]:
        """The subscriptions of any partition, without what Pulsar keeps for itself."""
        paths = [topic.partition(index).managed_ledger_path for index in range(partitions)]
        listed = await self._store.children_many(paths)
        return {cursor_name(name) for names in listed for name in names or ()} - KEPT

    async def _subscribe(
        self, call: AdminCall, partitions: Sequence[TopicName], subscriptions: Collection[str]
    ) -> AdminAnswer | None:
        """Create the subscriptions that partitions lack; returns the answer of the first that failed, or None."""
        listed = await self._store.children_many([each.managed_ledger_path for each in partitions])
        requests = [
            plan_request_for(
                call.request, "PUT", topic_path(partition, f"subscription/{quote(name, safe='')}"), body=EARLIEST_BODY
            )
            for partition, names in zip(partitions, listed, strict=True)
            for name in sorted(set(subscriptions) - {cursor_name(each) for each in names or ()})
        ]
        answers = await self._fan_out.ask_all(requests)
        return plan_first_error([*answers, NO_CONTENT], accepted=(HTTPStatus.CONFLICT,))

    async def delete(self, call: AdminCall) -> AdminAnswer:
        """Delete all partitions, each by the broker that serves it, then permissions, policies, record and schema.

        The record says so first: else clients that come back would create partitions that are deleted already. It says
        so no more if a partition stays, but where the time did not suffice.
        """
        topic = call.topic
        record, version = await self._mark(call)
        try:
            partitions = await self._all_partitions(topic, record)
            wrong = await self._delete_partitions(call, partitions)
        except MledgerError:
            await unmark_deleted(self._store, topic, version)
            raise
        if wrong is not None:
            await unmark_deleted(self._store, topic, version)
            return wrong
        await self._nodes.remove_grants(topic.namespace_name, [str(each) for each in (topic, *partitions)])
        if topic.is_persistent and not is_system_topic(topic):
            await remove_policies(self._fan_out, call.request, topic)
        await self._delete_record(topic, version)
        if topic.is_persistent:  # another one may share its schema with a topic that is stored
            await self._broker.schemas.remove(topic)
        return NO_CONTENT

    async def _all_partitions(self, topic: TopicName, record: PartitionedTopic) -> list[TopicName]:
        """The partitions of a topic, with those of an update that was cut off before the record said that they are."""
        beyond = await present_partitions(self._store, topic) if topic.is_persistent else []
        return [topic.partition(index) for index in sorted({*range(record.partitions), *beyond})]

    async def _delete_partitions(self, call: AdminCall, partitions: Sequence[TopicName]) -> AdminAnswer | None:
        """Delete partitions; returns the answer of the first that failed, or None."""
        query = call.request.query
        requests = [plan_request_for(call.request, "DELETE", topic_path(each), query=query) for each in partitions]
        answers = await self._fan_out.ask_all(requests)
        return plan_first_error([*answers, NO_CONTENT], accepted=(HTTPStatus.NOT_FOUND,))

    async def _mark(self, call: AdminCall) -> tuple[PartitionedTopic, int]:
        """Say in the topic's record that it is being deleted; returns it as it was, and its version now."""
        try:
            return await mark_deleted(self._store, call.topic)
        except NodeNotFound:  # after a sync: a server that lags would hide it, and its schema would be removed
            raise await self._why_not_there(call) from None
        except BadVersion:
            raise conflict(_CHANGED.format(call.topic)) from None

    async def _why_not_there(self, call: AdminCall) -> AdminRefusal:
        """The refusal to delete a topic without a record of partitions. A schema that only it has is removed."""
        topic = call.topic
        if await self._ownership.exists(topic):
            return conflict(
                f"{topic} is a non-partitioned topic. Instead of calling delete-partitioned-topic please call delete."
            )
        if topic.is_persistent and not await has_namesakes(self._store, self._fan_out, call.request, topic):
            await self._broker.schemas.remove(topic)  # a deletion that was cut off has left it
        return not_found(f"Topic {topic} not found.")

    async def _delete_record(self, topic: TopicName, version: int) -> None:
        try:
            await delete_own(self._store, [Delete(topic.partitioned_topic_path, version)])
        except NodeNotFound:
            return
        except BadVersion:
            raise conflict(f"{topic} got more partitions while it was being deleted: delete it again") from None
