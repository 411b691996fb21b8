"""Requests about a topic are answered by the broker that serves it: this one, or the client is sent there."""

from http import HTTPStatus
from urllib.parse import quote, urlencode

from mledger.admin.partitions import read_partitioned
from mledger.broker.admin_rest.refusals import AdminRefusal, not_found
from mledger.broker.admin_rest.requests import ADMIN, AdminCall, AdminRequest
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.served_topic import ServedTopic
from mledger.broker.topics.subscriptions.subscription import BrokerSubscription
from mledger.cursors.deduplication import DEDUPLICATION
from mledger.errors import CursorNotFound, TopicNotFound
from mledger.metastore.records.paths import NON_PERSISTENT, PERSISTENT, TopicName
from mledger.metastore.store import MetadataStore

IN_NAMESPACE = "{tenant}/{namespace}"
ROOT = f"{ADMIN}/{PERSISTENT}/{IN_NAMESPACE}"
NON_PERSISTENT_ROOT = f"{ADMIN}/{NON_PERSISTENT}/{IN_NAMESPACE}"
ONE = f"{ROOT}/{{topic}}"
NON_PERSISTENT_ONE = f"{NON_PERSISTENT_ROOT}/{{topic}}"


class ServedElsewhere(AdminRefusal):
    """Another broker serves the topic; `location` is the same request there."""

    def __init__(self, location: str) -> None:
        super().__init__(HTTPStatus.TEMPORARY_REDIRECT, f"see {location}")
        self.location = location


def plan_location(web_url: str, request: AdminRequest, *, authoritative: bool) -> str:
    """The URL of the same request at another broker; `authoritative`: it was chosen and takes the bundle."""
    query = dict(request.query) | {"authoritative": str(authoritative).lower()}
    return f"{web_url.rstrip('/')}{request.path}?{urlencode(query)}"


def topic_path(topic: TopicName, what: str = "") -> str:
    """The path of a topic, or of something of it."""
    name = f"{ADMIN}/{topic.domain}/{topic.namespace_name}/{quote(topic.local_name, safe='')}"
    return f"{name}/{what}" if what else name


class TopicOwnership:
    """Finds the topics of requests at `broker`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker = broker

    @property
    def name(self) -> str:
        """How figures call this broker."""
        return self._broker.owners.roster.address.name

    @property
    def store(self) -> MetadataStore:
        """The metadata of the topics."""
        return self._broker.owners.store

    async def check(self, call: AdminCall, topic: TopicName) -> None:
        """Return if this broker serves the topic, whose bundle it takes if nobody has it.

        Raises:
            ServedElsewhere: another broker does, or is to.
            AdminRefusal, BrokerRefusal: no broker can take it (503).
        """
        owners = self._broker.owners
        found = await owners.find(topic, authoritative=call.request.flag("authoritative"))
        if found.urls.any == owners.roster.address.urls.any and not found.redirect:
            return
        for report in await owners.roster.reports():
            address = report.address
            web_url = address.web_url_tls if call.request.encrypted else address.web_url
            if address.urls.any == found.urls.any and web_url:
                raise ServedElsewhere(plan_location(web_url, call.request, authoritative=found.redirect))
        raise AdminRefusal(
            HTTPStatus.SERVICE_UNAVAILABLE, f"the broker at {found.urls.any} serves no HTTP: use its own tools"
        )

    async def partitions(self, topic: TopicName) -> int:
        """How many partitions the topic has, 0 if it is not partitioned."""
        if topic.partition_index is not None:
            return 0
        found = await read_partitioned(self._broker.owners.store, topic)
        return 0 if found is None else found[0].partitions

    async def exists(self, topic: TopicName) -> bool:
        """Whether the topic itself exists, not as the whole of partitions."""
        if not topic.is_persistent:
            return self._broker.topics.find(topic) is not None
        return await self._broker.owners.store.exists(topic.managed_ledger_path) is not None

    async def is_gone(self, topic: TopicName) -> bool:
        """Whether a stored topic does not exist, for who deletes what it left: a server that lags would hide it."""
        if await self.exists(topic):
            return False
        await self.store.sync()
        return not await self.exists(topic)

    async def known(self, topic: TopicName) -> bool:
        """Whether the topic exists, as a whole of partitions too, or as one of them that nobody has opened yet."""
        whole = await read_partitioned(self.store, topic.partitioned)
        index = topic.partition_index
        return (whole is not None and (index is None or index < whole[0].partitions)) or await self.exists(topic)

    async def open(self, call: AdminCall, topic: TopicName | None = None) -> BrokerTopic:
        """The topic, opened here. ServedElsewhere, AdminRefusal (404), and the errors of opening."""
        name = call.topic if topic is None else topic
        if not await self.exists(name):
            raise no_topic(name)
        await self.check(call, name)
        try:
            found = await self._broker.topics.topic(name, create=False)
        except TopicNotFound:
            raise no_topic(name) from None
        if not isinstance(found, BrokerTopic):
            raise no_topic(name)
        return found

    async def open_any(self, call: AdminCall) -> ServedTopic:
        """As `open`; of a non-persistent topic what is in use at its owner."""
        topic = call.topic
        if topic.is_persistent:
            return await self.open(call)
        await self.check(call, topic)
        return self.opened(topic)

    def opened(self, topic: TopicName) -> ServedTopic:
        """The topic if it is open here. AdminRefusal (404) if it is not."""
        found = self._broker.topics.find(topic)
        if found is None:
            raise no_topic(topic)
        return found

    async def subscription(self, call: AdminCall) -> BrokerSubscription:
        """The subscription of the path, opened here. As `open`, and AdminRefusal (404) if there is none."""
        topic, name = await self.open(call), call.values["subscription"]
        await topic.managed_ledger.initialized()
        try:
            if name != DEDUPLICATION:
                return await topic.subscriptions.existing(name)
        except CursorNotFound:
            pass
        raise no_subscription(topic.name, name)


def no_topic(topic: TopicName) -> AdminRefusal:
    """There is no such topic."""
    return not_found(f"Topic {topic} not found")


def no_subscription(topic: TopicName, name: str) -> AdminRefusal:
    """There is no such subscription."""
    return not_found(f"Subscription {name} not found for topic {topic}")
