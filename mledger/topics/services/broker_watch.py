"""Tells this process's owners when a Pulsar broker starts to serve their topics, so they yield (M9).

A broker that loads a topic reads its record, fences its last ledger and writes the record. An owner
that keeps writing would win this race every time. One watch per namespace covers all its topics.
The store re-establishes the watch in a new session, and the bundles are read again then.
"""

import asyncio
from collections.abc import Callable

from msgspec import Struct, field

from mledger.ledgers.bundles import BrokerOwner, bundle_folders, came_to_serve, serving
from mledger.metastore.errors import StoreClosed, StoreUnavailable
from mledger.metastore.records.paths import TopicName
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataStore, Node

log = get_logger(__name__)

Yield = Callable[[BrokerOwner], object]
RETRY_S = 1.0
REFUSED_S = 30.0
"""How long to wait after another failure: the store has refused, for example by an access control list."""


class _Followed(Struct):
    topic: TopicName
    yield_to: Yield
    before: BrokerOwner | None = None
    seen: bool = False
    """Whether `before` has been read."""


class _Namespace(Struct):
    followed: dict[str, _Followed] = field(default_factory=dict)
    bundles: dict[str, Node | None] = field(default_factory=dict)
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None


class BrokerWatch:
    """Watches which brokers serve the bundles of the namespaces that have topics open here."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._namespaces: dict[str, _Namespace] = {}

    async def follow(self, managed_ledger: str, yield_to: Yield) -> None:
        """Call `yield_to` once when a broker starts to serve the topic; one that already does is ignored."""
        topic = TopicName.of_managed_ledger(managed_ledger)
        folder = bundle_folders(topic)[0]
        namespace = self._namespaces.setdefault(folder, _Namespace())
        if namespace.task is None or namespace.task.done():
            namespace.seen.clear()
            namespace.task = asyncio.get_running_loop().create_task(self._watch(folder, namespace))
        followed = namespace.followed[managed_ledger] = _Followed(topic, yield_to)
        await namespace.seen.wait()
        if not followed.seen:
            followed.before, followed.seen = self._serving(topic, namespace), True

    def forget(self, managed_ledger: str, yield_to: Yield) -> None:
        """Stop watching the topic for `yield_to`; an owner that has opened it since is still told."""
        folder = bundle_folders(TopicName.of_managed_ledger(managed_ledger))[0]
        namespace = self._namespaces.get(folder)
        if namespace is None:
            return
        followed = namespace.followed.get(managed_ledger)
        if followed is not None and followed.yield_to == yield_to:
            del namespace.followed[managed_ledger]
        if not namespace.followed and namespace.task is not None:
            namespace.task.cancel()
            del self._namespaces[folder]

    def stop(self) -> None:
        """Stop watching all topics."""
        for namespace in self._namespaces.values():
            if namespace.task is not None:
                namespace.task.cancel()
        self._namespaces.clear()

    async def _watch(self, folder: str, namespace: _Namespace) -> None:
        def failed(error: BaseException) -> None:
            log_failure(log, "brokers_not_watched", error, path=folder)

        try:
            while True:
                wait_s = REFUSED_S
                with OutlivedRound(failed):
                    try:
                        await self._watch_on(folder, namespace)
                        continue
                    except StoreClosed:
                        return
                    except StoreUnavailable:
                        wait_s = RETRY_S
                namespace.seen.set()
                await asyncio.sleep(wait_s)
        finally:
            namespace.seen.set()

    async def _watch_on(self, folder: str, namespace: _Namespace) -> None:
        async with self._store.watch(folder, children=True) as changes:
            await self._look(folder, namespace)
            async for _ in changes:
                await self._look(folder, namespace)

    async def _look(self, folder: str, namespace: _Namespace) -> None:
        names = (await self._store.children_many([folder]))[0] or ()
        paths = [f"{folder}/{name}" for name in names]
        namespace.bundles = dict(zip(paths, await self._store.get_many(paths), strict=True))
        namespace.seen.set()
        for name, followed in list(namespace.followed.items()):
            now = self._serving(followed.topic, namespace)
            if followed.seen and came_to_serve(followed.before, now):
                assert now is not None
                namespace.followed.pop(name, None)
                self._tell(name, followed, now)
            followed.before, followed.seen = now, True

    @staticmethod
    def _tell(name: str, followed: _Followed, now: BrokerOwner) -> None:
        try:
            followed.yield_to(now)
        except Exception as error:  # one topic's error does not keep the others from being told
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": f"{name} did not yield to a broker", "exception": error})

    def _serving(self, topic: TopicName, namespace: _Namespace) -> BrokerOwner | None:
        """The broker that serves the topic, unless it is this program."""
        return serving(topic, namespace.bundles, {}, (), self._store.session_id)
