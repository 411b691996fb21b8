"""What every connection of a broker shares."""

from typing import TYPE_CHECKING

from msgspec import Struct, field

from mledger.broker.connections.read_turns import ReadTurns
from mledger.broker.dynamic_settings import DynamicSettings
from mledger.broker.lookup.handover import BundleHandover
from mledger.broker.lookup.owner_lookup import OwnerLookup
from mledger.broker.lookup.topic_list import TopicsMode
from mledger.broker.lookup.topic_lookup import TopicLookup
from mledger.broker.lookup.topic_watch import TopicWatch
from mledger.broker.periodic_check import PeriodicCheck
from mledger.broker.schemas.topic_schemas import TopicSchemas
from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.producers.producer_names import ProducerNames
from mledger.broker.topics.topic_loads import BrokerTopics
from mledger.events import EventSink, ignore_events

if TYPE_CHECKING:
    from mledger.broker.connections.connection import BrokerConnection


class ServedBroker(Struct):
    """The running broker, as its connections use it."""

    settings: BrokerSettings
    lookup: TopicLookup
    owners: OwnerLookup
    handover: BundleHandover
    topic_watch: TopicWatch
    topics: BrokerTopics
    names: ProducerNames
    schemas: TopicSchemas
    max_message_size: int
    security: BrokerSecurity
    dynamic: DynamicSettings
    alone: bool = False
    """Whether clients reach all topics at the URL that they use, whatever this broker announces."""
    events: EventSink = ignore_events
    """Receives what requests of clients do."""
    checks: list[PeriodicCheck] = field(default_factory=list)
    """What is looked at by the clock."""
    connections: "set[BrokerConnection]" = field(default_factory=set)
    connections_made: int = 0
    """How many were admitted since the start."""
    pending_bytes: int = 0
    """Of entries that were received and are not stored yet, on all connections."""
    pending_lookups: int = 0
    """Which clients wait for, on all connections."""
    reads: ReadTurns = field(default_factory=ReadTurns)
    """Where connections read into."""
    full: bool = False
    """Whether connections with pending entries read no more until half of them are stored."""

    async def topics_of(self, namespace: str, mode: TopicsMode) -> list[str]:
        """The full names of a namespace's topics, sorted; partitions one by one.

        Of non-persistent topics they are those in use at this broker, as in Pulsar. MetadataError.
        """
        found = [] if mode is TopicsMode.NON_PERSISTENT else await self.lookup.topics(namespace)
        if mode is not TopicsMode.PERSISTENT:
            here = (each for each in self.topics.nonpersistent if each.in_use)
            found += [str(each.name) for each in here if each.name.namespace_name == namespace]
        return sorted(found)

    def configure(self, settings: BrokerSettings) -> None:
        """Take over settings that changed while the broker runs."""
        self.settings = settings
        self.lookup.configure(settings)
        self.schemas.configure(settings)
        self.topics.configure(settings)

    @property
    def service_url(self) -> str:
        """Where clients reach it, unencrypted if it serves so."""
        return self.owners.roster.address.urls.any
