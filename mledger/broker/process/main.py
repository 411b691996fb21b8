"""A broker's process: it opens the cluster, serves clients until SIGTERM or SIGINT, and ends in an orderly way.

Once it serves, it prints one JSON line on stdout: `{"service_url": "pulsar://…", "host": …, "port": …, "pid": …}`.
Logs go to stderr. With `--explain` the steps of clients' requests follow on stdout, a line each.
"""

import asyncio
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from mledger.broker.admin_rest.http_server import AdminHttpServer
from mledger.broker.connections.connection import BrokerConnection
from mledger.broker.connections.requests.handlers import HANDLERS
from mledger.broker.connections.requests.permission_check import PermissionCheck
from mledger.broker.connections.served_broker import ServedBroker
from mledger.broker.dynamic_settings import DynamicSettings
from mledger.broker.lookup.handover import BundleHandover
from mledger.broker.lookup.owned_bundles import OwnedBundles
from mledger.broker.lookup.owner_lookup import OwnerLookup
from mledger.broker.lookup.roster import BrokerRoster
from mledger.broker.lookup.topic_lookup import TopicLookup
from mledger.broker.lookup.topic_watch import TopicWatch
from mledger.broker.process.broker_load import load_of
from mledger.broker.process.host_usage import HostMeter
from mledger.broker.process.http_answers import MODULES, HttpAnswers
from mledger.broker.process.http_lookup import HttpLookup
from mledger.broker.process.listeners import (
    BrokerListeners,
    ServedPorts,
    bind_listeners,
    certificates_of,
    plan_address,
    serve_connections,
)
from mledger.broker.process.options import (
    PROGRAM,
    BrokerOptions,
    entries_config,
    parse_broker_options,
)
from mledger.broker.process.shutdown_limit import limit_shutdown
from mledger.broker.process.timeline import PrintedTimeline
from mledger.broker.schemas.schema_registry import SchemaRegistry
from mledger.broker.schemas.topic_schemas import TopicSchemas
from mledger.broker.security.broker_security import BrokerSecurity
from mledger.broker.topics.backlog_limits import BacklogLimits
from mledger.broker.topics.client_rates import RateSampler
from mledger.broker.topics.inactive_topics import InactiveTopicDeleter
from mledger.broker.topics.nonpersistent.idle_topics import IdleTopics
from mledger.broker.topics.producers.producer_names import ProducerNames
from mledger.broker.topics.topic_loads import BrokerTopics
from mledger.cluster import Cluster, open_cluster
from mledger.events import ignore_events
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.announcement import Announcement, print_serving
from mledger.metastore.runtime.logs.loggers import get_logger, set_up_logging
from mledger.metastore.runtime.network.listening_port import allow_connections
from mledger.metastore.runtime.network.tls_listener import RenewedCertificates
from mledger.metastore.runtime.processes.event_loop import loop_factory
from mledger.metastore.runtime.processes.gc_pause import collect_seldom
from mledger.metastore.runtime.times import wall_clock_ms

log = get_logger(__name__)

MOST_CONNECTIONS = 10_000
DRAIN_S = 5.0
"""How long clients have to take what was sent to them before their connections are cut."""


class BrokerProcess:
    """One broker from start to end."""

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self._stop = asyncio.Event()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, and announce it on stdout. MledgerError when it cannot start."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        await self.serve(print_serving, limit_shutdown)

    def stop(self) -> None:
        """Have it end in order, now or as soon as it serves."""
        self._stop.set()

    async def serve(self, announce: Announcement, stopping: Callable[[float], None]) -> None:
        """Serve until `stop`; `announce` is called once clients can connect. MledgerError when it cannot start.

        `stopping` is called as the end begins, with the seconds that it may take.
        """
        allow_connections(MOST_CONNECTIONS)
        options = self._options
        certificates = certificates_of(options.tls)
        with contextlib.ExitStack() as listening:
            listeners = bind_listeners(options, listening)
            owner = options.owner
            async with open_cluster(
                options.metadata,
                config=entries_config(owner.config),
                cluster_quorums=not owner.quorums_given,
                client=owner.client,
                session_timeout=owner.session_timeout,
                cache=owner.cache,
                policy_cluster=owner.cluster_name or "standalone",
            ) as cluster:
                broker = serve_cluster(cluster, options, listeners.ports)
                servers = await serve_connections(lambda: BrokerConnection(broker, HANDLERS), listeners, certificates)
                await broker.handover.start()
                limits = BacklogLimits(lambda: broker.topics.stored, options.broker)
                idle = IdleTopics(lambda: broker.topics.nonpersistent, options.broker)
                deleter = InactiveTopicDeleter(
                    broker.topics, cluster.policies, options.broker, remover_of_remains(broker, cluster)
                )
                broker.dynamic.follow(idle.configure)
                broker.dynamic.follow(deleter.configure)
                await broker.dynamic.start()
                rates = RateSampler(lambda: broker.topics.open, options.broker.rates_interval_s)
                broker.checks += [*limits.checks, idle.check, deleter.check, rates.check]
                for check in broker.checks:
                    check.start()
                async with self._http_served(cluster, broker, listeners, certificates):
                    announce(self._serving(broker, listeners.ports))
                    log.info("serving", service_url=broker.service_url)
                    await self._stop.wait()
                broker.dynamic.stop()
                for check in broker.checks:
                    check.stop()
                log.info("stopping", service_url=broker.service_url)
                stopping(options.broker.shutdown_timeout_s)
                for server in servers:
                    server.close()
                if not await end(broker):
                    await cluster.abandon()
        log.info("stopped", service_url=broker.service_url)

    @contextlib.asynccontextmanager
    async def _http_served(
        self,
        cluster: Cluster,
        broker: ServedBroker,
        listeners: BrokerListeners,
        certificates: RenewedCertificates | None,
    ) -> AsyncIterator[None]:
        """Serve metrics, health, lookups and the admin API over HTTP, at the sockets that are for it."""
        if listeners.web is None and listeners.web_tls is None:
            yield
            return
        answers = HttpAnswers(broker, cluster, topics=self._options.owner.topic_metrics)
        servers = []
        for listener, used in ((listeners.web, None), (listeners.web_tls, certificates)):
            if listener is not None:
                below = HttpLookup(broker).below
                server = AdminHttpServer(answers.answer, answers.routes, below, modules=MODULES)
                server.start_on(listener, used)
                broker.checks.append(server.check)
                servers.append(server)
        try:
            yield
        finally:
            for server in servers:
                await server.close()

    def _serving(self, broker: ServedBroker, ports: ServedPorts) -> dict[str, object]:
        """What is announced: how to reach the broker."""
        urls = broker.owners.roster.address.urls
        fields: dict[str, object] = {
            "service_url": urls.plain or None,
            "host": self._options.announced,
            "port": ports.plain,
            "pid": os.getpid(),
            "metrics_port": ports.web,
            "service_url_tls": urls.tls or None,
            "port_tls": ports.tls,
            "web_port_tls": ports.web_tls,
        }
        return {key: value for key, value in fields.items() if value is not None}


def serve_cluster(cluster: Cluster, options: BrokerOptions, ports: ServedPorts) -> ServedBroker:
    """A broker of the cluster's topics that clients reach at `ports` of the announced host."""
    settings, address = options.broker, plan_address(options, ports)
    owned, meter = OwnedBundles(cluster.store, address), HostMeter()
    roster = BrokerRoster(
        cluster.store,
        address,
        lambda: load_of([str(each) for each in owned], topics.open, meter.usage()),
        settings,
    )
    owners = OwnerLookup(cluster.store, roster, owned, settings.default_bundles)
    events = PrintedTimeline(sys.stdout, options.log_format) if options.explain else ignore_events
    topics = BrokerTopics(cluster, settings, owners.take, events)
    handover = BundleHandover(owners, topics)
    cluster.on_session_renewed(handover.session_renewed)
    registry = SchemaRegistry(cluster.store, cluster.bookkeeper, cluster.config, wall_clock_ms)
    lookup = TopicLookup(cluster.store, settings, topics.places)
    dynamic = DynamicSettings(cluster.store, settings)
    broker = ServedBroker(
        settings=settings,
        lookup=lookup,
        owners=owners,
        handover=handover,
        topic_watch=TopicWatch(cluster.store, lookup.topics),
        topics=topics,
        names=ProducerNames(cluster.store, settings.cluster_name),
        schemas=TopicSchemas(registry, cluster.store, settings, topics.own_policies),
        max_message_size=options.owner.config.max_message_size,
        security=BrokerSecurity(options.security, cluster.store),
        dynamic=dynamic,
        alone=options.alone,
        events=events,
    )
    dynamic.follow(broker.configure)
    broker.checks.append(roster.check)
    if options.security.authorization:
        broker.checks.append(PermissionCheck(broker).check)
    return broker


def remover_of_remains(broker: ServedBroker, cluster: Cluster) -> Callable[[TopicName], Awaitable[None]]:
    """What removes permissions, schema and policies of a topic that this broker deleted by itself."""

    async def remove(topic: TopicName) -> None:
        from mledger.broker.admin_rest.admin_api import AdminApi  # for clients a broker is ready without it

        await AdminApi(broker, cluster).remove_remains(topic)

    return remove


async def end(broker: ServedBroker) -> bool:
    """Give up all bundles, tell all clients, let them take what was sent, and cut their connections.

    Returns False if the metadata store does not answer: then topics can only be left as a crash leaves them.
    """
    answers = await broker.handover.stop()
    await broker.topics.close()
    broker.topic_watch.stop()
    for connection in list(broker.connections):
        connection.close("the broker is stopping")
    lost = [connection.lost for connection in broker.connections]
    if lost:
        await asyncio.wait(lost, timeout=DRAIN_S)
    for connection in list(broker.connections):
        connection.abort()
    return answers


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run a broker; return its exit code. Messages call it `program`."""
    options = parse_broker_options(sys.argv[1:] if arguments is None else arguments, program)
    set_up_logging(options.log_format, options.log_level)
    sys.setswitchinterval(0.0005)
    collect_seldom()
    importlib.import_module("numpy")  # the first messages would wait for it
    report_settings(options)
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(BrokerProcess(options).run())
    except MledgerError as error:
        log.error("failed", error=error)
        return 1
    return 0


def report_settings(options: BrokerOptions) -> None:
    """Log which settings had no effect."""
    owner = options.owner
    if owner.unknown:
        log.warning("unknown_settings", keys=owner.unknown)
    if not_honoured := (*owner.not_honoured, *options.unserved):
        log.warning("settings_not_honoured", keys=not_honoured)
    if owner.without_effect:
        log.debug("settings_without_effect", keys=owner.without_effect)


if __name__ == "__main__":
    sys.exit(main())
