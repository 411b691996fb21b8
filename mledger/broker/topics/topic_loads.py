"""The topics that this broker serves; many clients that ask for one at once share one opening."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from mledger.admin.partitions import read_partitioned
from mledger.broker.client_events import LoadingTopic, TopicLoaded
from mledger.broker.refusals import BrokerRefusal
from mledger.broker.service_urls import NOWHERE, ServiceUrls
from mledger.broker.settings import BrokerSettings
from mledger.broker.topics.broker_topic import BrokerTopic
from mledger.broker.topics.compaction.attached_ledgers import AttachedLedgers
from mledger.broker.topics.compaction.compacted_view import CompactedView
from mledger.broker.topics.nonpersistent.topic import NonPersistentTopic
from mledger.broker.topics.producers.publish_limits import BrokerPublishLimits
from mledger.broker.topics.served_topic import ServedTopic, check_enabled, client_count
from mledger.broker.topics.subscriptions.dispatchers import DispatchLimits
from mledger.broker.topics.topic_count import TopicPlaces
from mledger.broker.topics.topic_creation import read_auto_creation
from mledger.cluster import Cluster
from mledger.cursors.compaction import CHANGE_EVENTS
from mledger.errors import TopicNotFound
from mledger.events import Event, EventSink, Fenced, ignore_events
from mledger.ledgers.background import outcome
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.service_policies import NO_SERVICE_POLICIES, ServicePolicies
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.partitioned_topic import PartitionedTopic
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.pb import PulsarApi_pb2 as pb
from mledger.topics.managed_ledger import ManagedLedger

log = get_logger(__name__)


Take = Callable[[TopicName], Awaitable[None]]
TOPICS_AT_ONCE = 300
IN_A_ROW = 50


def _matching(names: Iterable[str], matches: Callable[[TopicName], bool], namespace: str) -> list[str]:
    """Those of the managed ledgers' names, in `namespace` if it is given, whose topics match."""
    inside = f"{namespace}/" if namespace else ""  # a broker that ends asks for each of ten thousand bundles
    return [each for each in names if each.startswith(inside) and matches(TopicName.of_managed_ledger(each))]


class BrokerTopics:
    """Topics by managed-ledger name, opened when a client first asks for them.

    `take` makes this broker the owner of a topic, or raises BrokerRefusal. `events` receives those
    of every topic.
    """

    def __init__(
        self, cluster: Cluster, settings: BrokerSettings, take: Take, events: EventSink = ignore_events
    ) -> None:
        self._cluster = cluster
        self._take = take
        self._events = events
        self._settings = settings
        self._loads: dict[str, asyncio.Task[ServedTopic]] = {}
        self._open: dict[str, ServedTopic] = {}
        self._closing = False
        self._deleting: set[str] = set()
        self._turn = asyncio.Semaphore(settings.topic_loads_at_once)
        self._limits = DispatchLimits.of_broker(settings)
        self._publish_limits = BrokerPublishLimits(settings)
        self.places = TopicPlaces()

    @property
    def open(self) -> list[ServedTopic]:
        """The topics open here."""
        return list(self._open.values())

    @property
    def stored(self) -> list[BrokerTopic]:
        """The topics open here whose messages are stored."""
        return [topic for topic in self._open.values() if isinstance(topic, BrokerTopic)]

    @property
    def nonpersistent(self) -> list[NonPersistentTopic]:
        """The topics open here whose messages are not stored."""
        return [topic for topic in self._open.values() if isinstance(topic, NonPersistentTopic)]

    def find(self, name: TopicName) -> ServedTopic | None:
        """The topic if it is open here."""
        return self._open.get(name.managed_ledger_name)

    async def topic(self, name: TopicName, *, create: bool) -> ServedTopic:
        """The topic, opened if it is not open here; `create`: where its namespace and the settings allow it, create it.

        Raises:
            BrokerRefusal, TopicNotFound: it does not exist, or is not served here.
            MledgerError: it cannot be opened.
        """
        key = name.managed_ledger_name
        while True:
            if (found := self._open.get(key)) is not None:
                return found
            if self._closing:
                raise BrokerRefusal(pb.ServiceNotReady, f"this broker is stopping: look {name} up again")
            if key in self._deleting:
                raise BrokerRefusal(pb.ServiceNotReady, f"{name} is being deleted: try again")
            load = self._loads.get(key)
            mine = load is None
            if load is None:
                load = self._loads[key] = asyncio.get_running_loop().create_task(self._load(name, create))
                load.add_done_callback(lambda _: self._loads.pop(key, None))
            try:
                async with TimeLimit(self._settings.topic_load_timeout_s):
                    return await outcome(load, lambda: BrokerRefusal(pb.ServiceNotReady, f"{name} was not opened"))
            except TopicNotFound:
                if mine or not create:
                    raise
            except TimeoutError:
                if mine:
                    log.warning("topic_opened_slowly", topic=name, seconds=self._settings.topic_load_timeout_s)
                raise BrokerRefusal(pb.ServiceNotReady, f"{name} is still being opened: try again") from None

    def configure(self, settings: BrokerSettings) -> None:
        """Take over changed settings, for the open topics, too."""
        self._settings = settings
        self._publish_limits.configure(settings)
        for topic in self.open:
            topic.configure(settings)

    async def own_policies(self, name: TopicName) -> ServicePolicies:
        """The policies of the topic itself: as it follows them if it is open here, else as they are stored.

        None of its own while they cannot be read. Topics whose messages are not stored have none.
        """
        topic = self.find(name)
        if isinstance(topic, BrokerTopic):
            return topic.managed_ledger.policies.own
        found = await self._cluster.policies.read(name.managed_ledger_name) if name.is_persistent else None
        return NO_SERVICE_POLICIES if found is None else found.own

    async def close(self) -> None:
        """Tell every client to look its topics up again, and open no more."""
        self._closing = True
        await self._end(lambda _: True)

    async def give_up(
        self, matches: Callable[[TopicName], bool], moved_to: ServiceUrls = NOWHERE, namespace: str = ""
    ) -> None:
        """Close the topics that match: clients are told, and where they go (`moved_to`), then storage is let go of.

        Returns once nothing of them is open here. A topic that fails to close is logged: its next
        owner recovers it. With `namespace`, tenant/namespace, no others are asked whether they match.
        """
        await self._end(matches, moved_to, namespace)
        opened = self._cluster.opened  # with those whose loading did not end
        waiting = [opened[each] for each in _matching(opened, matches, namespace)]

        async def close() -> None:
            while waiting:
                managed_ledger = waiting.pop()
                try:
                    await managed_ledger.close()
                except MledgerError as error:
                    log.warning("topic_not_closed", topic=managed_ledger.name, error=error)

        await asyncio.gather(*(close() for _ in range(min(TOPICS_AT_ONCE, len(waiting)))))

    async def delete(
        self,
        name: TopicName,
        *,
        force: bool,
        take_over: bool = True,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Delete the topic, which nobody opens meanwhile. With `force` its clients are told; they find it gone.

        `take_over`: even if another process owns it by now. `then` removes what belongs to the name of a stored one,
        before a new topic can have that.

        Raises:
            TopicNotFound: it does not exist.
            OwnedElsewhere: another process owns it, and `take_over` is false.
            BrokerRefusal: it has clients, and `force` is false; or it is being deleted already.
            MledgerError: the storage fails; what is left is deleted by the next attempt.
        """
        key, topic = name.managed_ledger_name, self.find(name)
        if topic is None and not name.is_persistent:
            raise TopicNotFound(f"there is no topic {name} in use")
        if topic is not None and not force and (clients := client_count(topic)):
            raise BrokerRefusal(pb.ConsumerBusy, f"Topic has {clients} connected producers/consumers: close them first")
        if key in self._deleting:
            raise BrokerRefusal(pb.ServiceNotReady, f"{name} is being deleted already")
        self._deleting.add(key)
        try:
            await self._end(lambda each: each == name)
            if name.is_persistent:
                await self._cluster.delete_topic(str(name), take_over=take_over)
                if then is not None:
                    await then()
        finally:
            self._deleting.discard(key)
        log.info("topic_deleted", topic=name)

    async def _end(
        self, matches: Callable[[TopicName], bool], moved_to: ServiceUrls = NOWHERE, namespace: str = ""
    ) -> None:
        """Open none of these topics any more, and tell the clients of those that are open."""
        loads = [self._loads[key] for key in _matching(self._loads, matches, namespace)]
        for load in loads:
            load.cancel()
        if loads:
            await asyncio.wait(loads)
        ending = [self._open[key] for key in _matching(self._open, matches, namespace)]
        for number, topic in enumerate(ending, 1):
            topic.end(moved_to)
            if number % IN_A_ROW == 0:  # of ten thousand: clients of the others do not wait for all of them
                await asyncio.sleep(0)

    async def _load(self, name: TopicName, create: bool) -> ServedTopic:
        """Open the topic in its turn: of those opened at once, the first is about as late as the last."""
        async with self._turn:
            try:
                return await self._load_now(name, create)
            except (BrokerRefusal, TopicNotFound):  # what is wrong is what the client asks for
                raise
            except MledgerError as error:
                log.warning("topic_not_opened", topic=name, error=error)
                raise

    async def _load_now(self, name: TopicName, create: bool) -> ServedTopic:
        """Open the topic. Who owns its bundle may take it from a dead process: a live one yields by itself (M9)."""
        self._events(LoadingTopic(name.managed_ledger_name))
        check_enabled(name, self._settings)
        await self._take(name)
        whole = await self._check_partition(name)
        partitioned = whole is not None and not whole.deleted
        if name.partition_index is not None and not partitioned:
            create = False  # clients of a topic that is deleted come back, and it would be there again without a record
        if name.is_persistent:
            topic: ServedTopic = await self._load_stored(name, create=create)
        else:
            topic = await self._load_nonpersistent(name, create=partitioned or (create and await self._creates(name)))
        log.info("topic_opened", topic=name)
        return topic

    async def _load_nonpersistent(self, name: TopicName, *, create: bool) -> NonPersistentTopic:
        if not create:
            raise TopicNotFound(f"there is no topic {name} in use: allow clients to create it (allowAutoTopicCreation)")
        policies = await self._cluster.policies.read(name.managed_ledger_name)
        followed = policies or TopicPolicies()
        topic = NonPersistentTopic(name, self._settings, followed, self._publish_limits, self._forget_nonpersistent)
        self._open[name.managed_ledger_name] = topic
        self._cluster.policies.follow(name.managed_ledger_name, policies, topic.take_policies)
        self._events(TopicLoaded(name.managed_ledger_name, deduplication=False))
        return topic

    async def _load_stored(self, name: TopicName, *, create: bool) -> BrokerTopic:
        managed_ledger = await self._open_storage(name, create=create)
        compacted = CompactedView(managed_ledger, self._cluster.metadata, self._cluster.bookkeeper)
        attached = AttachedLedgers(managed_ledger, self._cluster.metadata, self._cluster.bookkeeper)
        topic = BrokerTopic(
            name,
            managed_ledger,
            self._settings,
            self._limits,
            self._publish_limits,
            compacted,
            attached,
            self._forget,
        )
        if name.partitioned.local_name == CHANGE_EVENTS:
            topic.on_stored = partial(self._cluster.policies.changed, name)
        try:
            await topic.prepare()
            topic.check_serves()  # while it was not listed yet, nobody would have heard that it is fenced
        except BaseException:
            topic.ended = True
            raise
        self._open[name.managed_ledger_name] = topic
        self._events(TopicLoaded(name.managed_ledger_name, topic.deduplication is not None))
        return topic

    async def _open_storage(self, name: TopicName, *, create: bool) -> ManagedLedger:
        """The topic's managed ledger, opened; with `create`, one that does not exist takes a place in its namespace."""
        async with contextlib.AsyncExitStack() as creation:
            if create and not await self._exists(name):
                create = await self._creates(name)
                if create:
                    place = self.places.taken(self._cluster.metadata, name, self._settings)
                    await creation.enter_async_context(place)
            return await self._cluster.open_topic(
                str(name), create=create, take_over=True, events=partial(self._saw, name)
            )

    async def _exists(self, name: TopicName) -> bool:
        return await self._cluster.metadata.exists(name.managed_ledger_path) is not None

    async def _creates(self, name: TopicName) -> bool:
        """Whether clients create the topic by using it."""
        return (await read_auto_creation(self._cluster.metadata, name, self._settings)).allowed

    async def _check_partition(self, name: TopicName) -> PartitionedTopic | None:
        """Raise BrokerRefusal for a partition that its topic does not have, and for a partitioned topic itself.

        Returns the record of the topic whose partition it is, None if there is none. A partition that is being added
        exists before its topic's record counts it.
        """
        found = await read_partitioned(self._cluster.metadata, name.partitioned)
        if found is None:
            return None
        partitions, index = found[0].partitions, name.partition_index
        if index is None:
            raise BrokerRefusal(pb.NotAllowedError, f"{name} has {partitions} partitions: name one of them")
        if index >= partitions and not (name.is_persistent and await self._exists(name)):
            raise BrokerRefusal(pb.NotAllowedError, f"{name.partitioned} has {partitions} partitions and no {index}")
        return found[0]

    def _saw(self, name: TopicName, event: Event) -> None:
        """Pass an event on; serve a topic no longer that another owner took."""
        self._events(event)
        if isinstance(event, Fenced) and (topic := self.find(name)) is not None:
            topic.end()

    def _forget_nonpersistent(self, topic: NonPersistentTopic) -> None:
        self._cluster.policies.forget(topic.name.managed_ledger_name, topic.take_policies)
        self._forget(topic)

    def _forget(self, topic: ServedTopic) -> None:
        key = topic.name.managed_ledger_name
        if self._open.get(key) is topic:
            del self._open[key]
        log.info("topic_closed", topic=topic.name)
