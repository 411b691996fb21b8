"""What producers and consumers may do with their schemas, by the rules of the broker and of the topic's namespace."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from mledger.admin.system_topics import is_system_topic
from mledger.broker.schemas.compatibility import (
    CompatibilityStrategy,
    IncompatibleSchema,
    SchemaMissing,
    check_compatible,
    check_valid,
)
from mledger.broker.schemas.schema_registry import SchemaRegistry, apart, bytes_of
from mledger.broker.schemas.stored_schema import schema_id_of
from mledger.broker.schemas.topic_schema import SchemaVersion, TopicSchema
from mledger.broker.settings import BrokerSettings
from mledger.metastore.cluster.policies import namespace_policies_path
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies
from mledger.metastore.errors import NodeNotFound, RecordError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.pb.SchemaStorage_pb2 import SchemaLocator
from mledger.metastore.store import MetadataReader

NO_VERSION = b""
_OLD_STRATEGIES = {
    "AutoUpdateDisabled": CompatibilityStrategy.ALWAYS_INCOMPATIBLE,
    "AlwaysCompatible": CompatibilityStrategy.ALWAYS_COMPATIBLE,
    "Backward": CompatibilityStrategy.BACKWARD,
    "Forward": CompatibilityStrategy.FORWARD,
    "Full": CompatibilityStrategy.FULL,
    "BackwardTransitive": CompatibilityStrategy.BACKWARD_TRANSITIVE,
    "ForwardTransitive": CompatibilityStrategy.FORWARD_TRANSITIVE,
    "FullTransitive": CompatibilityStrategy.FULL_TRANSITIVE,
}


class SchemaRules(Struct, frozen=True):
    """How schemas of a topic change. `required`: its producers need one once it has one."""

    strategy: CompatibilityStrategy
    clients_add: bool
    required: bool


_SYSTEM = SchemaRules(CompatibilityStrategy.ALWAYS_COMPATIBLE, clients_add=True, required=False)
"""What holds for system topics, as in Pulsar: their clients are brokers, of any version."""


def plan_rules(
    broker: SchemaRules, namespace: Mapping[str, Any], own: ServicePolicies = NO_SERVICE_POLICIES
) -> SchemaRules:
    """The rules of a topic with its `own` policies and those of its namespace, as JSON; the rest is the broker's.

    Raises ValueError for a strategy that Pulsar does not have.
    """
    named = (
        own.schema_compatibility
        or namespace.get("schema_compatibility_strategy")
        or CompatibilityStrategy.UNDEFINED.value
    )
    strategy = CompatibilityStrategy(named)
    if strategy is CompatibilityStrategy.UNDEFINED:
        old = namespace.get("schema_auto_update_compatibility_strategy")
        if old is not None and old not in _OLD_STRATEGIES:
            raise ValueError(f"{old!r} is not a schema_auto_update_compatibility_strategy")
        strategy = broker.strategy if old is None else _OLD_STRATEGIES[old]
    clients_add = namespace.get("is_allow_auto_update_schema")
    required = own.schema_validation_enforced
    return SchemaRules(
        strategy,
        broker.clients_add if clients_add is None else bool(clients_add),
        broker.required or bool(namespace.get("schema_validation_enforced") if required is None else required),
    )


class TopicSchemas:
    """The schemas of a cluster's topics, for the broker's connections; `own_policies` are those of a topic itself."""

    def __init__(
        self,
        registry: SchemaRegistry,
        reader: MetadataReader,
        settings: BrokerSettings,
        own_policies: Callable[[TopicName], Awaitable[ServicePolicies]],
    ) -> None:
        self._own_policies = own_policies
        self.configure(settings)
        self._registry = registry
        self._reader = reader

    def configure(self, settings: BrokerSettings) -> None:
        """Take over the settings, or changed ones."""
        strategy = CompatibilityStrategy(settings.schema_strategy)
        if strategy is CompatibilityStrategy.UNDEFINED:
            strategy = CompatibilityStrategy.FULL
        self._broker = SchemaRules(strategy, settings.clients_add_schemas, settings.schemas_required)

    async def of_producer(self, topic: TopicName, schema: TopicSchema | None) -> bytes:
        """The version that a producer writes with, added if need be; empty without a schema.

        Raises:
            IncompatibleSchema: the topic does not take it, or needs one.
            MledgerError: the storage fails.
        """
        schema_id, rules = schema_id_of(topic), await self.rules(topic)
        if schema is not None:
            return (await self._registry.put(schema_id, schema, rules.strategy, add=rules.clients_add)).wire
        if rules.required and await self._registry.latest(schema_id) is not None:
            raise IncompatibleSchema(
                f"{topic} has a schema, and its producers need one (schema validation is enforced)"
            )
        return NO_VERSION

    async def check_consumer(self, topic: TopicName, schema: TopicSchema, *, idle: bool) -> None:
        """Let a consumer subscribe with `schema`; the first one of an `idle` topic without schema adds it.

        Raises:
            IncompatibleSchema: it cannot read the topic.
            MledgerError: the storage fails.
        """
        schema_id, rules = schema_id_of(topic), await self.rules(topic)
        if idle and await self._registry.latest(schema_id) is None:
            await self._registry.put(schema_id, schema, rules.strategy, add=rules.clients_add)
            return
        try:
            await self._registry.check_consumer(schema_id, schema, rules.strategy)
        except SchemaMissing:
            raise IncompatibleSchema(
                f"{topic} is in use without schema: a consumer cannot add one of type {schema.type.name}"
            ) from None

    async def version(self, topic: TopicName, number: int | None) -> SchemaVersion | None:
        """A version of the topic's schema, the latest for None; None if there is none."""
        schema_id = schema_id_of(topic)
        if number is None:
            return await self._registry.latest(schema_id)
        return await self._registry.version(schema_id, number)

    async def versions(self, topic: TopicName) -> list[SchemaVersion]:
        """All versions of the topic's schema since it was deleted last, in order."""
        return await self._registry.versions(schema_id_of(topic))

    async def locator(self, topic: TopicName) -> SchemaLocator | None:
        """Where the versions of the topic's schema are stored, deleted ones too; None if it has had none."""
        return await self._registry.locator(schema_id_of(topic))

    async def add(self, topic: TopicName, schema: TopicSchema) -> SchemaVersion:
        """The version that is `schema`, added if need be: an administrator may, whether clients may or not.

        Raises:
            IncompatibleSchema: the rules of the topic do not allow it.
            MledgerError: the storage fails.
        """
        rules = await self.rules(topic)
        return await self._registry.put(schema_id_of(topic), schema, rules.strategy)

    async def compare(self, topic: TopicName, schema: TopicSchema) -> tuple[CompatibilityStrategy, bool]:
        """The strategy of the topic, and whether `schema` could be its next version."""
        strategy = (await self.rules(topic)).strategy
        existing = [each.schema for each in await self.versions(topic)]

        def check() -> None:
            check_valid(schema)
            if existing:
                check_compatible(existing, schema, strategy)

        try:
            await apart(bytes_of(schema, existing), check)
        except IncompatibleSchema:
            return strategy, False
        return strategy, True

    async def delete(self, topic: TopicName) -> int:
        """End the topic's schema by one more version; returns its number. SchemaMissing if it has none."""
        return await self._registry.delete(schema_id_of(topic))

    async def remove(self, topic: TopicName) -> None:
        """Remove the schema of a topic that is deleted, unless it is that of a topic's partition."""
        if topic.partition_index is None:
            await self._registry.remove(schema_id_of(topic))

    async def rules(self, topic: TopicName) -> SchemaRules:
        """How schemas of the topic change. MetadataError, RecordError if its namespace's policies cannot be read."""
        if is_system_topic(topic):
            return _SYSTEM
        path, own = namespace_policies_path(topic), await self._own_policies(topic)
        try:
            node = await self._reader.get(path)
            policies = json.loads(node.data) if node.data else {}
            return plan_rules(self._broker, policies, own)
        except NodeNotFound:
            return plan_rules(self._broker, {}, own)
        except (ValueError, AttributeError, RecursionError) as error:
            raise RecordError(f"the policies at {path} cannot be read: {error}", path) from None
