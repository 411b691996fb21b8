"""Writes policies of topics: events of `__change_events`, by the broker that serves that topic.

It has all events before it writes one: a change begins with the record that the others left.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from mledger.admin.policies.policy_change import (
    encode_event,
    event_key,
    plan_clusters,
    plan_entry,
    plan_event,
    plan_partition,
)
from mledger.admin.policies.policy_events import AvroSchema, PolicyRecord, PolicyScope, parse_avro
from mledger.admin.policies.pulsar_event import PULSAR_EVENT, PULSAR_EVENT_PROPERTIES
from mledger.admin.policies.topic_policies import NamespacePolicies
from mledger.broker.admin_rest.refusals import AdminRefusal, conflict
from mledger.broker.admin_rest.requests import AdminCall
from mledger.broker.admin_rest.topics.ownership import ServedElsewhere, TopicOwnership
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.schemas.topic_schema import SchemaType, SchemaVersion, TopicSchema
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.cluster import Cluster
from mledger.cursors.compaction import CHANGE_EVENTS
from mledger.metastore.errors import NodeExists, RecordError
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.runtime.times import wall_clock_ms

SENT_ON = "toChangeEvents"
"""A parameter that says that a broker sent the request on to the one that serves `__change_events`."""
ATTEMPTS = 10
_SCHEMA = TopicSchema(SchemaType.AVRO, PULSAR_EVENT, PULSAR_EVENT_PROPERTIES)

PlanChanges = Callable[[PolicyRecord | None, NamespacePolicies], Mapping[str, Any] | None]
"""The fields to set, from the record that is there; None if there is nothing to write. May raise AdminRefusal."""
NO_POLICIES: Mapping[str, Any] = MappingProxyType({})
"""What a plan returns to remove the whole record."""


class PolicyWriter:
    """Changes policies of topics at `broker`."""

    def __init__(self, broker: ServedBroker, cluster: Cluster, ownership: TopicOwnership) -> None:
        self._broker, self._cluster, self._ownership = broker, cluster, ownership
        self._lock = asyncio.Lock()
        self._parsed_schemas: dict[bytes, AvroSchema] = {}
        self._producer = ""
        self._sequence_id = 0

    async def change(self, call: AdminCall, scope: PolicyScope, plan: PlanChanges) -> None:
        """Write what `plan` makes of the topic's record; it counts once it is stored.

        Raises:
            ServedElsewhere: another broker serves `__change_events`.
            AdminRefusal: `plan` refused, or others keep writing (409).
            PoliciesUnavailable, MledgerError: they cannot be read, or written.
        """
        name, key = call.topic, event_key(call.topic, scope)
        events = TopicName(name.tenant, name.namespace, CHANGE_EVENTS)
        partitions = await self._ownership.partitions(events)
        part = events.partition(plan_partition(key, partitions)) if partitions else events
        await self._check_served(call, part)
        async with self._lock:
            if not await self._ownership.exists(part):
                found = await self._cluster.policies.of_namespace(name)
                if plan(found.topics.record(name, scope), found) is None:
                    return
                await self._create(part)
            for _ in range(ATTEMPTS):
                await self._check_served(call, part)
                topic = await self._open(part)
                before = topic.managed_ledger.last_confirmed
                found = await self._cluster.policies.of_namespace(name)
                record = found.topics.record(name, scope)
                changes = plan(record, found)
                if changes is None:
                    return
                cluster = self._broker.settings.cluster_name
                if changes is NO_POLICIES:
                    version, value = await self._newest_version(events), None
                else:
                    version, value = await self._encoded(events, plan_event(name, scope, record, changes, cluster))
                producer = await self._producer_name()
                waiting = any(each.pending for each in topic.producers)
                if topic.ended or waiting or topic.managed_ledger.last_confirmed != before:
                    continue  # somebody unloaded it or wrote meanwhile
                self._sequence_id += 1
                entry = plan_entry(
                    value,
                    key,
                    version,
                    plan_clusters(scope, cluster),
                    producer=producer,
                    sequence_id=self._sequence_id,
                    now_ms=wall_clock_ms(),
                )
                await asyncio.shield(topic.publish_own(entry))
                return
        raise conflict(f"the policies of {name} keep changing: try again")

    async def remove(self, call: AdminCall, scope: PolicyScope) -> None:
        """Remove the topic's record, with all policies. Raises as `change` does."""
        await self.change(call, scope, lambda record, _: None if record is None else NO_POLICIES)

    async def _check_served(self, call: AdminCall, events: TopicName) -> None:
        sent_on = call.request.flag(SENT_ON)
        query = {**call.request.query, SENT_ON: "true"}
        try:
            await self._ownership.check(replace(call, request=replace(call.request, query=query)), events)
        except ServedElsewhere as elsewhere:
            if not sent_on:
                raise
            raise AdminRefusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"another broker serves {events}, and sent the request here: try again, or send it to "
                f"{elsewhere.location.split('/admin/')[0]} while that serves {call.topic} too",
            ) from None

    async def _create(self, events: TopicName) -> None:
        record = encode_managed_ledger_info(ManagedLedgerInfo())
        with contextlib.suppress(NodeExists):
            await self._cluster.store.create(events.managed_ledger_path, record, parents=True)

    async def _open(self, events: TopicName) -> BrokerTopic:
        topic = await self._broker.topics.topic(events, create=False)
        assert isinstance(topic, BrokerTopic), "it is persistent"
        return topic

    async def _encoded(self, events: TopicName, event: dict[str, Any]) -> tuple[bytes, bytes]:
        """The version of the newest schema of the topic that has a place for all of the event, and the event in it."""
        schemas = self._broker.schemas
        versions = await schemas.versions(events)
        for version in reversed(versions):
            with contextlib.suppress(RecordError):  # no schema of an event: a client has registered it
                value = encode_event(event, self._parsed(version, events))
                if value is not None:
                    return version.wire, value
        version = await schemas.add(events, _SCHEMA)
        value = encode_event(event, self._parsed(version, events))
        if value is None:
            raise conflict(
                f"the policies of {event['topicPoliciesEvent']['topic']} have fields that no schema of {events} has "
                "together with this one: set it with the broker that wrote them"
            )
        return version.wire, value

    async def _newest_version(self, events: TopicName) -> bytes:
        """The newest version of the schema by which events can be read: readers look it up, value or not."""
        for version in reversed(await self._broker.schemas.versions(events)):
            with contextlib.suppress(RecordError):
                self._parsed(version, events)
                return version.wire
        return b""

    def _parsed(self, version: SchemaVersion, events: TopicName) -> AvroSchema:
        text = version.schema.data
        if text not in self._parsed_schemas:
            self._parsed_schemas[text] = parse_avro(text, f"version {version.number} of the schema of {events}")
        return self._parsed_schemas[text]

    async def _producer_name(self) -> str:
        self._producer = self._producer or await self._broker.names.next()
        return self._producer
