"""Which topics to read: by tenant, namespace and topic. Pure."""

from dataclasses import dataclass

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import TopicName
from mledger.snapshot.tables.node_kinds import partitioned_of
from mledger.snapshot.tables.node_places import NOWHERE, NodePlace, place_of_topic
from mledger.snapshot.tables.records import (
    AdministrationNode,
    BrokerNode,
    BundleNode,
    CursorNode,
    Ledger,
    NamespaceNode,
    PartitionedTopicNode,
    SchemaNode,
    TenantNode,
    Topic,
    UnreadableNode,
)
from mledger.snapshot.zookeeper_files.errors import InvalidOption

Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TopicScope:
    """The names to read, None for all. A topic includes its partitions."""

    tenants: Names = None
    namespaces: Names = None
    topics: Names = None

    @property
    def everything(self) -> bool:
        """Whether it admits everything."""
        return self.tenants is None and self.namespaces is None and self.topics is None

    def admits_tenant(self, tenant: str) -> bool:
        """Whether it may admit something below a tenant."""
        return self.tenants is None or tenant in self.tenants

    def admits_namespace(self, namespace: str) -> bool:
        """Whether it may admit something in `tenant/namespace`."""
        return self.namespaces is None or namespace in self.namespaces

    def admits_topic(self, topic: str, partitioned_topic: str | None) -> bool:
        """Whether it admits a topic, by its full name or by that of its partitioned topic."""
        return self.topics is None or topic in self.topics or partitioned_topic in self.topics

    def admits(
        self, item: Topic | CursorNode | Ledger | PartitionedTopicNode | UnreadableNode | AdministrationNode
    ) -> bool:
        """Whether it admits a row; one of a tenant or a namespace, unless narrower names are wanted.

        Brokers are always admitted. Another row that belongs to no topic is admitted only if everything is.
        """
        match item:
            case BrokerNode():
                return True
            case PartitionedTopicNode() | SchemaNode():
                place = NodePlace(item.tenant, item.namespace, item.topic)
            case NamespaceNode() | BundleNode():
                place = NodePlace(item.tenant, item.namespace)
            case TenantNode():
                place = NodePlace(item.tenant)
            case UnreadableNode():
                place = item.place
            case _:
                place = NOWHERE if item.key is None else place_of_topic(item.key)
        return self.admits_place(place)

    def admits_place(self, place: NodePlace) -> bool:
        """Whether it admits a node at this place; one that belongs to no tenant only if it admits everything."""
        if self.everything:
            return True
        tenant, namespace, topic, _, partitioned_topic = place
        return (
            tenant is not None
            and self.admits_tenant(tenant)
            and (self.namespaces is None if namespace is None else self.admits_namespace(namespace))
            and (self.topics is None if topic is None else self.admits_topic(topic, partitioned_topic))
        )

    def admits_node(self, folder: str, name: str) -> bool:
        """Whether it may admit the topic of the node `name` in `folder`, which is below `/managed-ledgers`."""
        if self.topics is None:
            return True
        try:
            topic = TopicName.of_managed_ledger(f"{folder}/{name}")
        except InvalidName:
            return False
        return self.admits_topic(str(topic), partitioned_of(topic))

    def narrowed(self, *, tenants: Names = None, namespaces: Names = None, topics: Names = None) -> "TopicScope":
        """The scope of what both this and these names admit. A partition in `topics` does not include its siblings."""
        return TopicScope(_both(self.tenants, tenants), _both(self.namespaces, namespaces), self._topics_with(topics))

    def _topics_with(self, topics: Names) -> Names:
        if topics is None or self.topics is None:
            return topics if self.topics is None else self.topics
        return frozenset(topic for topic in topics if self.admits_topic(topic, _partitioned_of(topic)))


def _both(one: Names, other: Names) -> Names:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def parse_scope(tenant: str | None, namespace: str | None, topic: str | None) -> TopicScope:
    """The scope that three options give together; InvalidOption.

    `namespace` is `tenant/namespace` (old form `tenant/cluster/namespace`), or only its last part if `tenant` is given.
    """
    full = namespace
    if namespace and "/" not in namespace:
        if not tenant:
            raise InvalidOption(f"namespace {namespace!r} needs its tenant: write it as tenant/namespace")
        full = f"{tenant}/{namespace}"
    try:
        name = None if not topic else str(TopicName.parse(topic))
    except InvalidName as error:
        raise InvalidOption(f"option topic: {error}") from None
    return (
        TopicScope(_one(tenant), _one(full), _one(name))
        .narrowed(tenants=_one(full and full.split("/")[0]), namespaces=_one(_namespace_of(name)))
        .narrowed(tenants=_one(_tenant_of(name)))
    )


def _partitioned_of(topic: str) -> str | None:
    try:
        return partitioned_of(TopicName.parse(topic))
    except InvalidName:
        return None


def _one(name: str | None) -> Names:
    return frozenset([name]) if name else None


def _namespace_of(topic: str | None) -> str | None:
    return None if topic is None else TopicName.parse(topic).managed_ledger_name.rpartition("/persistent/")[0]


def _tenant_of(topic: str | None) -> str | None:
    return None if topic is None else TopicName.parse(topic).tenant
