"""Tells open topics when their policies change (M6, M10).

One watch for each namespace covers its topics: of the node with the namespace's policies. Policies
of topics are events in `__change_events`, which no watch of the metadata store shows: they are read
again at intervals, and when this process learns that they changed (`changed`). Policies that
cannot be read now are read again; topics keep those that they have.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from msgspec import Struct, field

from mledger.admin.policies.quorums import RECENT_S
from mledger.admin.policies.topic_policies import NamespacePolicies, PolicyReader
from mledger.errors import PoliciesUnavailable
from mledger.ledgers.retention import TopicPolicies
from mledger.metastore.cluster.policies import namespace_policies_path
from mledger.metastore.errors import InvalidName, StoreClosed
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataReader, NodeChange

log = get_logger(__name__)

PolicyListener = Callable[[TopicPolicies], object]
LOOK_AGAIN_S = 15.0
RETRY_S = 1.0


class _Namespace(Struct):
    topic: TopicName  # any of its topics
    followed: dict[TopicName, PolicyListener] = field(default_factory=dict)
    told: dict[TopicName, TopicPolicies | None] = field(default_factory=dict)
    seen: NamespacePolicies | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class PolicyWatch:
    """Follows the policies of the namespaces that have topics open here."""

    def __init__(self, store: MetadataReader, reader: PolicyReader) -> None:
        self._store = store
        self._reader = reader
        self._namespaces: dict[str, _Namespace] = {}

    def follow(self, managed_ledger: str, known: TopicPolicies | None, listener: PolicyListener) -> None:
        """Call `listener` with the topic's policies whenever they differ from those told last.

        At first these are `known`, None if none are.
        """
        try:
            topic = TopicName.of_managed_ledger(managed_ledger)
        except InvalidName:
            return
        path = namespace_policies_path(topic)
        namespace = self._namespaces.setdefault(path, _Namespace(topic))
        namespace.followed[topic], namespace.told[topic] = listener, known
        loop = asyncio.get_running_loop()
        if namespace.task is None or namespace.task.done():
            namespace.task = loop.create_task(self._watch(path, namespace))
        elif namespace.seen is not None:  # it may be newer than what is known
            loop.call_soon(self._tell, namespace, topic)

    def forget(self, managed_ledger: str, listener: PolicyListener) -> None:
        """Stop telling `listener`; an owner that has opened the topic since is still told."""
        try:
            topic = TopicName.of_managed_ledger(managed_ledger)
        except InvalidName:
            return
        path = namespace_policies_path(topic)
        namespace = self._namespaces.get(path)
        if namespace is None or namespace.followed.get(topic) != listener:
            return
        del namespace.followed[topic], namespace.told[topic]
        if not namespace.followed:
            self._end(namespace)
            del self._namespaces[path]

    def changed(self, topic: TopicName) -> None:
        """Read the policies of the topic's namespace again now, since something may have changed them."""
        namespace = self._namespaces.get(namespace_policies_path(topic))
        if namespace is not None:
            namespace.woken.set()

    def stop(self) -> None:
        """Watch nothing more."""
        for namespace in self._namespaces.values():
            self._end(namespace)
        self._namespaces.clear()

    @staticmethod
    def _end(namespace: _Namespace) -> None:
        if namespace.task is not None:
            namespace.task.cancel()

    async def _watch(self, path: str, namespace: _Namespace) -> None:
        while True:
            with OutlivedRound(lambda error: log_failure(log, "policies_not_watched", error, path=path)):
                try:
                    await self._watch_on(path, namespace)
                except StoreClosed:
                    return
            await asyncio.sleep(RETRY_S)

    async def _watch_on(self, path: str, namespace: _Namespace) -> None:
        async with self._store.watch(path) as changes:
            pump = asyncio.get_running_loop().create_task(_wake(changes, namespace.woken))
            try:
                while not pump.done():
                    namespace.woken.clear()
                    await self._look(namespace)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(namespace.woken.wait(), LOOK_AGAIN_S)
                pump.result()
            finally:
                pump.cancel()
                await asyncio.wait([pump])

    async def _look(self, namespace: _Namespace) -> None:
        try:
            found = await self._reader.of_namespace(namespace.topic)
        except PoliciesUnavailable as error:
            log.warning("policies_unknown", namespace=namespace.topic.namespace_name, error=error)
            return
        before, namespace.seen = namespace.seen, found
        if found != before:
            for topic in list(namespace.followed):
                self._tell(namespace, topic)

    @staticmethod
    def _tell(namespace: _Namespace, topic: TopicName) -> None:
        listener = namespace.followed.get(topic)
        if listener is None or namespace.seen is None or namespace.told[topic] == namespace.seen.of(topic):
            return
        policies = namespace.seen.of(topic)
        namespace.told[topic] = policies
        try:
            listener(policies)
        except Exception as error:  # one topic's error does not keep the others from being told
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"policies of {topic} were not applied", "exception": error})


class FollowedPolicies:
    """The policies of a cluster's topics, and what follows them; without a watch nothing has policies."""

    def __init__(self, reader: PolicyReader, watch: PolicyWatch | None) -> None:
        self._reader = reader
        self._watch = watch

    async def read(self, managed_ledger: str) -> TopicPolicies | None:
        """A topic's policies if the cluster follows them, else empty ones; None where they cannot be read now."""
        if self._watch is None:
            return TopicPolicies()
        try:
            return await self._reader.policies(managed_ledger, max_age_s=RECENT_S)
        except PoliciesUnavailable as error:
            log.warning(
                "policies_unknown", topic=managed_ledger, error=error, hint="they are applied once they can be read"
            )
            return None

    async def of_namespace(self, topic: TopicName) -> NamespacePolicies:
        """The policies of the topic's namespace and its topics as they are now. PoliciesUnavailable."""
        return await self._reader.of_namespace(topic)

    def follow(self, managed_ledger: str, known: TopicPolicies | None, listener: PolicyListener) -> None:
        """Call `listener` when the policies differ from those `known`, until `forget`."""
        if self._watch is not None:
            self._watch.follow(managed_ledger, known, listener)

    def forget(self, managed_ledger: str, listener: PolicyListener) -> None:
        """Call `listener` no more."""
        if self._watch is not None:
            self._watch.forget(managed_ledger, listener)

    def changed(self, topic: TopicName) -> None:
        """Read the policies of the topic's namespace again now: an event of `__change_events` was written here."""
        if self._watch is not None:
            self._watch.changed(topic)


async def _wake(changes: AsyncIterator[NodeChange], woken: asyncio.Event) -> None:
    try:
        async for _ in changes:
            woken.set()
    finally:
        woken.set()
