"""A cluster as its users see it: topics by name."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mledger.admin.inspect import Inspector
from mledger.admin.partitions import no_such_topic
from mledger.admin.references.attached_ledgers import pending_ack_topics
from mledger.bookie.client.client import BookKeeper
from mledger.bookie.client.config import ClientConfig
from mledger.config import ManagedLedgerConfig
from mledger.counters import OwnerCounters
from mledger.errors import TopicExists
from mledger.events import Event, EventSink, ignore_events
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.ledgers.ownership import check_owner
from mledger.metastore.batched_store import batched
from mledger.metastore.errors import MetadataError, MledgerError, NodeExists
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName, managed_ledger_path
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.runtime.gc_pause import collect_again, lasting_objects
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import MetadataReader, MetadataStore
from mledger.metastore.url import open_store
from mledger.metrics_options import MetricsOptions
from mledger.topics.deletion import delete_managed_ledger
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.opening import open_managed_ledger, wall_clock_ms
from mledger.topics.services import Services
from mledger.topics.state import TopicState

TOPICS_AT_ONCE = 300  # opened, or closed
NEW_VERSION = 0


@asynccontextmanager
async def open_cluster(
    url: str,
    *,
    config: ManagedLedgerConfig | None = None,
    cluster_quorums: bool | None = None,
    client: ClientConfig | None = None,
    session_timeout: float = SESSION_TIMEOUT_S,
    now_ms: Callable[[], int] = wall_clock_ms,
    metrics: MetricsOptions | None = None,
) -> AsyncIterator["Cluster"]:
    """The cluster whose metadata is at `url` (`zk://host:port,…/chroot`); topics still open are closed on leaving.

    `config` is that of topics opened without one of their own. Without it, or with `cluster_quorums`, their new ledgers
    have the quorums that policies say, else those of the topic's last ledger. `client` is for the bookie client;
    `session_timeout` in seconds; `now_ms` is the clock, ms since 1970; with `metrics` they are served over HTTP as long
    as the cluster is open.

    Raises:
        InvalidMetadataUrl: `url` names no store.
        StoreUnavailable: nobody answers there.
        OSError: the port of the metrics is taken.
    """

    async def open_session() -> MetadataStore:
        return batched(await open_store(url, session_timeout=session_timeout))

    store = RenewedStore(await open_session(), open_session, session_timeout)
    async with store:
        bookkeeper = BookKeeper(store, client)
        services = Services(store, bookkeeper, now_ms, (config or ManagedLedgerConfig()).password)
        follow = config is None if cluster_quorums is None else cluster_quorums
        cluster = Cluster(services, config or ManagedLedgerConfig(), session_timeout, cluster_quorums=follow)
        store.on_renewed(cluster.session_renewed)
        try:
            async with _metrics_served(cluster, metrics):
                yield cluster
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                await cluster.close()
            raise
        else:
            await cluster.close()
        finally:
            services.maintenance.stop()
            services.brokers.stop()
            await bookkeeper.close()


@asynccontextmanager
async def _metrics_served(cluster: "Cluster", options: MetricsOptions | None) -> AsyncIterator[None]:
    if options is None:
        yield
        return
    from mledger.metrics import serve_metrics  # who serves none does not pay for the library

    async with serve_metrics(cluster, options) as server:
        cluster.metrics_port = server.port
        yield


@dataclass(frozen=True, slots=True)
class OpenedTopics:
    """What came of opening many topics, by the names given."""

    topics: dict[str, ManagedLedger]
    failed: dict[str, MledgerError]


class Cluster:
    """Topics of one cluster. Topic names are Pulsar's: `persistent://tenant/namespace/topic`, or its short forms."""

    def __init__(
        self,
        services: Services,
        config: ManagedLedgerConfig,
        session_timeout: float,
        *,
        cluster_quorums: bool = False,
    ) -> None:
        self._cluster_quorums = cluster_quorums
        self._services = services
        self._store = services.store
        self._bookkeeper = services.bookkeeper
        self._config = config
        self._session_timeout = session_timeout
        self._open: dict[str, ManagedLedger] = {}
        self._opening: set[str] = set()
        self._sessions_ended = 0
        self._lasting = False
        self.metrics_port: int | None = None
        """Where `metrics` of `open_cluster` are served."""

    @property
    def opened(self) -> Mapping[str, ManagedLedger]:
        """The topics open here, by their managed ledgers' names."""
        return self._open

    @property
    def counters(self) -> OwnerCounters:
        """What was counted of them."""
        return self._services.counters

    @property
    def metadata(self) -> MetadataReader:
        """The metadata store, to look at."""
        return self._store

    @property
    def inspector(self) -> Inspector:
        """Looks at topics without opening them."""
        return Inspector(self._store, self._bookkeeper)

    async def create_topic(
        self,
        name: str,
        *,
        config: ManagedLedgerConfig | None = None,
        properties: Mapping[str, str] | None = None,
        trim: bool | None = None,
        events: EventSink = ignore_events,
        on_step: StepHook = ignore_steps,
    ) -> ManagedLedger:
        """Create the topic and open it; `trim` as in `open_topic`.

        Raises:
            TopicExists: it is there already.
            InvalidName: no topic can have that name.
            BookieError, MetadataError: its first ledger cannot be made.
        """
        topic = TopicName.parse(name)
        info = ManagedLedgerInfo(properties=tuple((properties or {}).items()))
        try:
            await self._store.create(
                managed_ledger_path(topic.managed_ledger_name), encode_managed_ledger_info(info), parents=True
            )
        except NodeExists:
            raise TopicExists(f"{topic} exists already: open it") from None
        try:
            return await self._open_now(topic, config, trim, events, on_step)
        except TopicExists:  # another call of this program opens it
            raise
        except BaseException:
            with contextlib.suppress(MetadataError):  # a topic without a ledger is not left behind
                await self._store.delete(topic.managed_ledger_path, NEW_VERSION)
            raise

    async def open_topic(
        self,
        name: str,
        *,
        config: ManagedLedgerConfig | None = None,
        create: bool = False,
        take_over: bool = False,
        trim: bool | None = None,
        events: EventSink = ignore_events,
        on_step: StepHook = ignore_steps,
    ) -> ManagedLedger:
        """Open the topic as its owner; entries can be appended on return (M3).

        With `create` it is made where there is none. A live owner, one of us or a Pulsar broker, is looked for first
        and waited for, one session time-out long (M9); with `take_over` it is fenced. What cursors consumed and the
        retention in force does not keep goes by itself, unless a Pulsar broker serves the cluster; `trim` True: also
        then, False: never (M10). `config` is the default for what policies leave open. `events` gets what happens, in
        the order of R11; `on_step` the name of each step that changes the cluster, before it is taken.

        Raises:
            TopicNotFound: there is no such topic, and not `create`.
            TopicExists: it is open here already.
            OwnedElsewhere: a live owner was seen, and not `take_over`.
            ManagedLedgerFenced: others open it at the same time.
            BookieError, MetadataError: its last ledger cannot be recovered, or another not be made.
        """
        topic = TopicName.parse(name)
        if not await self._store.exists(topic.managed_ledger_path):
            if not create:
                raise await no_such_topic(self._store, topic)
            await self._check_owner(topic, take_over)
            with contextlib.suppress(TopicExists):
                return await self.create_topic(name, config=config, trim=trim, events=events, on_step=on_step)
        self._check_not_open(topic)
        if already := self._open.get(topic.managed_ledger_name):
            await already.closed()
        await self._check_owner(topic, take_over)
        return await self._open_now(topic, config, trim, events, on_step)

    async def open_topics(
        self,
        names: Iterable[str],
        *,
        config: ManagedLedgerConfig | None = None,
        create: bool = False,
        take_over: bool = False,
        trim: bool | None = None,
        events: EventSink = ignore_events,
    ) -> OpenedTopics:
        """Open many topics as their owner, some hundred at a time, with every cursor tried once; as `open_topic`.

        Returns those open and, of the others, what kept each from being opened: one does not stop the rest.
        """
        opened, failed = dict[str, ManagedLedger](), dict[str, MledgerError]()
        waiting = deque(dict.fromkeys(names))

        async def work() -> None:
            while waiting:
                name = waiting.popleft()
                try:
                    topic = await self.open_topic(
                        name, config=config, create=create, take_over=take_over, trim=trim, events=events
                    )
                    await topic.initialized()
                    opened[name] = topic
                except MledgerError as error:
                    failed[name] = error

        with lasting_objects(len(waiting)):
            await asyncio.gather(*(work() for _ in range(min(TOPICS_AT_ONCE, len(waiting)))))
        self._lasting = True
        return OpenedTopics(opened, failed)

    def run_due(self) -> int:
        """Begin what the clock says is due: rollover by age, retention, other tries; how many topics it concerns.

        The cluster's timer does this by itself; it is for programs that move the clock.
        """
        return self._services.maintenance.run_due()

    def session_renewed(self) -> None:
        """Have every topic show its owner again: its node went with the session before."""
        self._sessions_ended += 1
        for opened in self._open.values():
            opened.session_renewed()

    async def delete_topic(
        self,
        name: str,
        *,
        take_over: bool = False,
        unreadable_cursors: bool = False,
        on_step: StepHook = ignore_steps,
    ) -> None:
        """Delete the topic with its cursors and ledgers (M8).

        With it go the ledgers of its compaction and delayed delivery, and before it the topics with the
        acknowledgements of transactions on its subscriptions. `unreadable_cursors` deletes cursors whose record does
        not parse: give it once you have a copy of the record (M12).

        Raises:
            TopicNotFound: there is no such topic.
            OwnedElsewhere: a live owner was seen, and not `take_over`.
            RecordError: a cursor's record does not parse, and not `unreadable_cursors`.
        """
        topic = TopicName.parse(name)
        managed_ledger = self._open.pop(topic.managed_ledger_name, None)
        if managed_ledger is not None:
            await managed_ledger.abandon()
        if not await self._store.exists(topic.managed_ledger_path):
            raise await no_such_topic(self._store, topic)
        doomed = [*await pending_ack_topics(self._store, topic), topic]
        for each in doomed:
            await self._check_owner(each, take_over)
        for each in doomed:
            await delete_managed_ledger(
                self._store,
                self._bookkeeper,
                each.managed_ledger_name,
                on_step,
                unreadable_cursors=unreadable_cursors,
            )

    async def topics(self, prefix: str = "") -> list[str]:
        """Names of all topics, sorted; with `prefix` those of a tenant or tenant/namespace."""
        return [str(topic) for topic in await self.inspector.topics(prefix)]

    async def close(self) -> None:
        """Close the topics still open; the first error, after all were tried. One that was told of is not again."""
        errors: list[Exception] = []

        async def work() -> None:
            while self._open:
                _, managed_ledger = self._open.popitem()
                if managed_ledger.close_reported:
                    continue
                try:
                    await managed_ledger.close()
                except Exception as error:
                    errors.append(error)

        await asyncio.gather(*(work() for _ in range(min(TOPICS_AT_ONCE, len(self._open)))))
        if self._lasting:
            collect_again()
        if errors:
            raise errors[0]

    async def _check_owner(self, topic: TopicName, take_over: bool) -> None:
        await check_owner(
            self._store,
            topic.managed_ledger_name,
            take_over=take_over,
            session_timeout=self._session_timeout,
            own_session=self._store.session_id,
        )

    def _check_not_open(self, topic: TopicName) -> None:
        name = topic.managed_ledger_name
        if name in self._opening:
            raise TopicExists(f"{topic} is being opened here already: wait for that")
        already = self._open.get(name)
        if already is not None and already.state in (TopicState.OPEN, TopicState.TERMINATED):
            raise TopicExists(f"{topic} is open here already: use that one, or close it first")

    async def _open_now(
        self,
        topic: TopicName,
        config: ManagedLedgerConfig | None,
        trim: bool | None,
        events: EventSink,
        on_step: StepHook,
    ) -> ManagedLedger:
        name = topic.managed_ledger_name
        self._check_not_open(topic)  # nor opened meanwhile
        self._opening.add(name)
        try:
            return await self._open_alone(name, config, trim, events, on_step)
        finally:
            self._opening.discard(name)

    async def _open_alone(
        self, name: str, config: ManagedLedgerConfig | None, trim: bool | None, events: EventSink, on_step: StepHook
    ) -> ManagedLedger:
        counters = self.counters.of(name)

        def tell(event: Event) -> None:
            counters.saw(event)
            events(event)

        began, sessions_ended = time.perf_counter(), self._sessions_ended
        try:
            managed_ledger = await open_managed_ledger(
                self._services,
                name,
                config or self._config,
                trim=trim,
                cluster_quorums=config is None and self._cluster_quorums,
                emit=tell,
                on_step=on_step,
            )
        except MledgerError:
            counters.opens_failed += 1
            raise
        counters.open_times.observe(time.perf_counter() - began)
        self._open[managed_ledger.name] = managed_ledger
        if sessions_ended != self._sessions_ended:  # meanwhile: it was not among those that were told
            managed_ledger.session_renewed()
        return managed_ledger
