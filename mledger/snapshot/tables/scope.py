"""Which topics are wanted: by tenant, namespace and topic. Pure."""

from dataclasses import dataclass

from mledger.metastore.errors import InvalidName
from mledger.metastore.records.paths import TopicName
from mledger.snapshot.tables.node_kinds import TopicKey, partitioned_of
from mledger.snapshot.tables.records import CursorNode, Ledger, PartitionedTopicNode, Topic, UnreadableNode
from mledger.snapshot.zookeeper_files.errors import InvalidOption

Names = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TopicScope:
    """Names that are wanted, None: all. A topic is wanted with its partitions."""

    tenants: Names = None
    namespaces: Names = None
    topics: Names = None

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return self.tenants is None and self.namespaces is None and self.topics is None

    def admits_tenant(self, tenant: str) -> bool:
        """Whether something below a tenant may be wanted."""
        return self.tenants is None or tenant in self.tenants

    def admits_namespace(self, namespace: str) -> bool:
        """Whether something in `tenant/namespace` may be wanted."""
        return self.namespaces is None or namespace in self.namespaces

    def admits_topic(self, topic: str, partitioned_topic: str | None) -> bool:
        """Whether a topic is wanted, by its full name or by that of the partitioned topic it is a part of."""
        return self.topics is None or topic in self.topics or partitioned_topic in self.topics

    def admits(self, item: Topic | CursorNode | Ledger | PartitionedTopicNode | UnreadableNode) -> bool:
        """Whether a row is wanted; what belongs to no topic is not, unless everything is."""
        if self.everything:
            return True
        if isinstance(item, PartitionedTopicNode):
            return self._admits(item.tenant, item.namespace, item.topic, None)
        return item.key is not None and self.admits_key(item.key)

    def admits_key(self, key: TopicKey) -> bool:
        """Whether a topic is wanted."""
        return self._admits(key.tenant, key.namespace, key.topic, key.partitioned_topic)

    def admits_node(self, folder: str, name: str) -> bool:
        """Whether the topic whose node in `folder`, below `/managed-ledgers`, is called so may be wanted."""
        if self.topics is None:
            return True
        try:
            topic = TopicName.of_managed_ledger(f"{folder}/{name}")
        except InvalidName:
            return False
        return self.admits_topic(str(topic), partitioned_of(topic))

    def narrowed(self, *, tenants: Names = None, namespaces: Names = None, topics: Names = None) -> "TopicScope":
        """What both this and these names admit. `topics` that are partitions do not bring in their siblings."""
        return TopicScope(_both(self.tenants, tenants), _both(self.namespaces, namespaces), self._topics_with(topics))

    def _topics_with(self, topics: Names) -> Names:
        if topics is None or self.topics is None:
            return topics if self.topics is None else self.topics
        return frozenset(topic for topic in topics if self.admits_topic(topic, _partitioned_of(topic)))

    def _admits(self, tenant: str, namespace: str, topic: str, partitioned_topic: str | None) -> bool:
        return (
            self.admits_tenant(tenant)
            and self.admits_namespace(namespace)
            and self.admits_topic(topic, partitioned_topic)
        )


def _both(one: Names, other: Names) -> Names:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def parse_scope(tenant: str | None, namespace: str | None, topic: str | None) -> TopicScope:
    """The scope that three options name, each of which narrows the others; InvalidOption.

    `namespace` is `tenant/namespace` (old form `tenant/cluster/namespace`), or the last part alone beside `tenant`.
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
