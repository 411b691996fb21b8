"""A cluster: creates, opens and deletes topics by name."""

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
from mledger.config import EntryCacheConfig, ManagedLedgerConfig
from mledger.counters import OwnerCounters
from mledger.errors import TopicExists, TopicNotFound
from mledger.events import Event, EventSink, ignore_events
from mledger.ledgers.entries.entry_cache import EntryCache
from mledger.ledgers.ledger_factory import StepHook, ignore_steps
from mledger.ledgers.ownership import check_owner
from mledger.ledgers.topic_properties import check_topic_properties
from mledger.ledgers.topic_record import TopicRecord
from mledger.metastore.batched_store import batched
from mledger.metastore.errors import MledgerError, NodeExists, RecordError
from mledger.metastore.records.codec import encode_managed_ledger_info
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.values import ManagedLedgerInfo
from mledger.metastore.renewed_store import RenewedStore
from mledger.metastore.runtime.processes.gc_pause import collect_again, lasting_objects
from mledger.metastore.runtime.times import wall_clock_ms
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import MetadataReader, MetadataStore
from mledger.metastore.url import open_store
from mledger.metrics_options import MetricsOptions
from mledger.topics.deletion import delete_managed_ledger
from mledger.topics.managed_ledger import ManagedLedger
from mledger.topics.opening import open_managed_ledger
from mledger.topics.registry import USABLE, OpenRequest, TopicRegistry
from mledger.topics.services.policy_watch import FollowedPolicies
from mledger.topics.services.topic_services import Services

TOPICS_AT_ONCE = 300  # opened, or closed


@asynccontextmanager
async def open_cluster(
    url: str,
    *,
    config: ManagedLedgerConfig | None = None,
    cluster_quorums: bool | None = None,
    client: ClientConfig | None = None,
    session_timeout: float = SESSION_TIMEOUT_S,
    now_ms: Callable[[], int] = wall_clock_ms,
    cache: EntryCacheConfig | None = None,
    policy_cluster: str | None = None,
    metrics: MetricsOptions | None = None,
) -> AsyncIterator["Cluster"]:
    """Open the cluster whose metadata is at `url` (`zk://host:port,…/chroot`); closes open topics at exit.

    `config` applies to topics opened without their own. Without it, or with `cluster_quorums`, new
    ledgers have the quorums that policies set, else those of the topic's last ledger. `client`
    configures the bookie client; `session_timeout` is in seconds; `now_ms` is the clock, in ms
    since 1970. With `cache`, the entries appended last are cached for active cursors (D6). With
    `policy_cluster`, the cluster's name in Pulsar, open topics follow the policies of their
    namespaces and their own (`ManagedLedger.policies`), which win over `config`. With `metrics`, an HTTP server serves
    metrics while the cluster is open.

    Raises:
        InvalidMetadataUrl: `url` is not the URL of a metadata store.
        StoreUnavailable: the store does not answer.
        OSError: the port for the metrics is in use.
    """

    async def open_session() -> MetadataStore:
        return batched(await open_store(url, session_timeout=session_timeout))

    store = RenewedStore(await open_session(), open_session, session_timeout)
    async with store:
        bookkeeper = BookKeeper(store, client)
        services = Services(store, bookkeeper, now_ms, config or ManagedLedgerConfig(), cache, policy_cluster)
        follow = config is None if cluster_quorums is None else cluster_quorums
        cluster = Cluster(services, config, session_timeout, cluster_quorums=follow)
        store.on_renewed(cluster.session_renewed)
        try:
            async with _metrics_served(cluster, metrics):
                yield cluster
        except BaseException:
            with contextlib.suppress(Exception):  # raise the first error
                await cluster.close()
            raise
        else:
            await cluster.close()
        finally:
            services.stop()
            await bookkeeper.close()


@asynccontextmanager
async def _metrics_served(cluster: "Cluster", options: MetricsOptions | None) -> AsyncIterator[None]:
    if options is None:
        yield
        return
    from mledger.metrics import serve_metrics  # imported on first use, since its library is large

    async with serve_metrics(cluster, options) as server:
        cluster.metrics_port = server.port
        yield


@dataclass(frozen=True, slots=True)
class OpenedTopics:
    """The outcome of opening many topics, by the names given."""

    topics: dict[str, ManagedLedger]
    failed: dict[str, MledgerError]


class Cluster:
    """Topics of one cluster. Names are Pulsar's: `persistent://tenant/namespace/topic` and its short forms."""

    def __init__(
        self,
        services: Services,
        config: ManagedLedgerConfig | None,
        session_timeout: float,
        *,
        cluster_quorums: bool = False,
    ) -> None:
        self._cluster_quorums = cluster_quorums
        self._services = services
        self._store = services.store
        self._bookkeeper = services.bookkeeper
        self._config, self._config_given = config or ManagedLedgerConfig(), config is not None
        self._session_timeout = session_timeout
        self._registry = TopicRegistry()
        self._lasting = False
        self._on_renewed: list[Callable[[], object]] = []
        self.metrics_port: int | None = None
        """The port of the metrics server of `open_cluster`, or None."""

    @property
    def opened(self) -> Mapping[str, ManagedLedger]:
        """The topics open here, by managed-ledger name."""
        return self._registry.opened

    @property
    def counters(self) -> OwnerCounters:
        """The counters of the topics open here."""
        return self._services.counters

    @property
    def cache(self) -> EntryCache | None:
        """The cache of entries, None if there is none."""
        return self._services.cache

    @property
    def metadata(self) -> MetadataReader:
        """The metadata store, read-only."""
        return self._store

    @property
    def store(self) -> MetadataStore:
        """The metadata store, in this program's session: a broker keeps nodes of its own there."""
        return self._store

    @property
    def bookkeeper(self) -> BookKeeper:
        """The bookie client: a broker keeps ledgers of its own."""
        return self._bookkeeper

    @property
    def config(self) -> ManagedLedgerConfig:
        """The settings of topics that are opened without their own."""
        return self._config

    @property
    def inspector(self) -> Inspector:
        """Inspects topics without opening them."""
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
            TopicExists: the topic exists already.
            InvalidName, InvalidProperties: the name or the properties are not valid for a topic.
            BookieError, MetadataError: its first ledger cannot be created.
        """
        topic = TopicName.parse(name)
        await self._create(topic, properties or {})
        request = OpenRequest(config, trim=trim, events=events, on_step=on_step)
        return await self._registry.open(topic, request, lambda first: self._open_created(topic, first))

    async def open_topic(
        self,
        name: str,
        *,
        config: ManagedLedgerConfig | None = None,
        create: bool = False,
        take_over: bool = False,
        exclusive: bool = False,
        trim: bool | None = None,
        events: EventSink = ignore_events,
        on_step: StepHook = ignore_steps,
    ) -> ManagedLedger:
        """Open the topic as its owner; it accepts entries on return (M3).

        A topic is open here once: all who ask for it share one `ManagedLedger` and, if they ask at
        once, one opening. The `config`, `trim`, `events` and `on_step` of the first caller apply,
        and a close by one caller closes it for all. `exclusive` refuses a topic that is open here.

        `create`: create the topic if it does not exist. If there is a live owner, an mledger process or a Pulsar
        broker, wait one session time-out for it to go (M9); `take_over` fences it instead. Consumed ledgers that
        retention does not keep are trimmed automatically, unless a Pulsar broker serves the cluster; `trim` True: even
        then; False: never (M10). `config`, else the cluster's, applies where policies set nothing. Without one nothing
        is trimmed there, if the cluster has had brokers, whose default nobody knows. `events` receives events in the
        order of R11; its errors go to the loop's exception handler. `on_step` receives the name of each step that
        changes the cluster, before the step.

        Raises:
            TopicNotFound: the topic does not exist, and `create` is false.
            TopicExists: it is open here already, and `exclusive` is true or it has another `config`.
            OwnedElsewhere: there is a live owner, and `take_over` is false.
            ManagedLedgerFenced: another owner opens it at the same time.
            ManagedLedgerClosed: the cluster is closed.
            BookieError, MetadataError: its last ledger cannot be recovered, or a new one cannot be created.
        """
        topic = TopicName.parse(name)
        request = OpenRequest(config, create, take_over, trim, events, on_step)
        return await self._registry.open(
            topic, request, lambda first: self._find_and_open(topic, first), exclusive=exclusive
        )

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
        """Open many topics as `open_topic` does, some hundred at a time, and try each cursor once.

        Returns the open topics, and for the others the error: one failure does not stop the rest.
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
        """Start the work that is due: rollover by age, retention, retries; returns how many alarms rang.

        The cluster's timer does this automatically; call it in programs that control the clock.
        """
        return self._services.maintenance.run_due()

    def session_renewed(self) -> None:
        """Make every topic recreate its owner node, which was lost with the previous session."""
        self._registry.session_renewed()
        for listener in self._on_renewed:
            listener()

    def on_session_renewed(self, listener: Callable[[], object]) -> None:
        """Call `listener` after each new session with the metadata store: ephemeral nodes went with the last one."""
        self._on_renewed.append(listener)

    @property
    def policies(self) -> FollowedPolicies:
        """Policies of topics, which an open `ManagedLedger` follows by itself."""
        return self._services.followed_policies

    async def delete_topic(
        self,
        name: str,
        *,
        take_over: bool = False,
        unreadable_cursors: bool = False,
        on_step: StepHook = ignore_steps,
    ) -> None:
        """Delete the topic with its cursors and ledgers (M8).

        Before it go the topics with pending acknowledgements of transactions on its subscriptions. `unreadable_cursors`
        deletes cursors whose record does not parse, too: set it once you have a copy (M12).

        Raises:
            TopicNotFound: the topic does not exist.
            OwnedElsewhere, ManagedLedgerFenced: another owner lives, or has had it since; not with `take_over`.
            RecordError: a cursor's record or a ledger that it names does not parse, and `unreadable_cursors` is false.
        """
        topic = TopicName.parse(name)
        managed_ledger = self._registry.forget(topic.managed_ledger_name)
        owned = managed_ledger if managed_ledger is not None and managed_ledger.state in USABLE else None
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
                stopped=owned is not None and each == topic,
                verify=owned.verify_owner if owned is not None and each == topic and not take_over else None,
            )

    async def topics(self, prefix: str = "") -> list[str]:
        """Names of all topics, sorted; with `prefix` those of a tenant or tenant/namespace."""
        return [str(topic) for topic in await self.inspector.topics(prefix)]

    async def close(self) -> None:
        """Close the open topics; raises the first error not yet reported, after all were tried."""
        errors: list[Exception] = []
        await self._registry.close()
        opened = self._registry.opened

        async def work() -> None:
            while opened:
                _, managed_ledger = opened.popitem()
                if managed_ledger.close_reported:
                    continue
                try:
                    await managed_ledger.close()
                except Exception as error:
                    errors.append(error)

        await asyncio.gather(*(work() for _ in range(min(TOPICS_AT_ONCE, len(opened)))))
        if self._lasting:
            collect_again()
        if errors:
            raise errors[0]

    async def abandon(self) -> None:
        """Stop owning topics without closing them, as a crash would: for when the metadata store does not answer.

        Their next owners recover them. Their owner nodes go with this program's session.
        """
        self._services.owner_nodes.stop()
        await self._registry.close()
        await asyncio.gather(*(managed_ledger.abandon() for managed_ledger in list(self.opened.values())))

    async def _check_owner(self, topic: TopicName, take_over: bool) -> None:
        await check_owner(
            self._store,
            topic.managed_ledger_name,
            take_over=take_over,
            session_timeout=self._session_timeout,
            own_session=self._store.session_id,
        )

    async def _create(self, topic: TopicName, properties: Mapping[str, str]) -> None:
        check_topic_properties(properties)
        info = ManagedLedgerInfo(properties=tuple(properties.items()))
        try:
            await self._store.create(topic.managed_ledger_path, encode_managed_ledger_info(info), parents=True)
        except NodeExists:
            raise TopicExists(f"{topic} exists already: open it, or choose another name") from None

    async def _find_and_open(self, topic: TopicName, request: OpenRequest) -> ManagedLedger:
        record: TopicRecord | None = None
        try:
            record = await self._record(topic, request)
        except RecordError:
            pass  # the opening finds it, too
        except TopicNotFound:
            if not request.create:
                raise await no_such_topic(self._store, topic) from None
            await self._check_owner(topic, request.take_over)
            with contextlib.suppress(TopicExists):  # created by another process meanwhile
                await self._create(topic, {})
                return await self._open_created(topic, request)
        await self._check_owner(topic, request.take_over)
        return await self._open_now(topic, request, record if request.take_over else None)

    async def _open_created(self, topic: TopicName, request: OpenRequest) -> ManagedLedger:
        record = await self._record(topic, request)
        try:
            return await self._open_now(topic, request, record)
        except BaseException:
            await record.remove_new()  # do not leave a topic without a ledger
            raise

    async def _record(self, topic: TopicName, request: OpenRequest) -> TopicRecord:
        timeout_s = (request.config or self._config).metadata_operations_timeout_s
        return await TopicRecord.read(self._store, topic.managed_ledger_name, timeout_s=timeout_s)

    async def _open_now(
        self, topic: TopicName, request: OpenRequest, record: TopicRecord | None = None
    ) -> ManagedLedger:
        """Open the topic, whose `record` was read just now, or is read."""
        counters, loop = self.counters.of(topic.managed_ledger_name), asyncio.get_running_loop()

        def emit(event: Event) -> None:
            counters.saw(event)
            try:
                request.events(event)
            except Exception as error:  # else it would cut off what the owner is doing
                loop.call_exception_handler({"message": f"the event sink of {topic} failed", "exception": error})

        began = time.perf_counter()
        try:
            managed_ledger = await open_managed_ledger(
                self._services,
                topic.managed_ledger_name,
                request.config or self._config,
                trim=request.trim,
                cluster_quorums=request.config is None and self._cluster_quorums,
                config_given=request.config is not None or self._config_given,
                emit=emit,
                on_step=request.on_step,
                record=record,
            )
        except MledgerError:
            counters.opens_failed += 1
            raise
        counters.open_times.observe(time.perf_counter() - began)
        return managed_ledger
