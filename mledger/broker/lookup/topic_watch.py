"""Tells who wants to know when a namespace's topics come and go: one watch of the store for each namespace."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import Struct, field

from mledger.metastore.node_follower import follow_node
from mledger.metastore.records.paths import MANAGED_LEDGERS, PERSISTENT
from mledger.metastore.runtime.logs.failed_rounds import OutlivedRound, log_failure
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.store import MetadataStore

log = get_logger(__name__)

TopicsListener = Callable[[list[str]], None]


class _Watched(Struct):
    """A namespace; `seen` are its topics once the watch is set."""

    seen: "asyncio.Future[None]"
    topics: list[str] = field(default_factory=list)
    listeners: list[TopicsListener] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None


class TopicWatch:
    """Follows the topics of namespaces; `list_topics` gives those of one, by their full names."""

    def __init__(self, store: MetadataStore, list_topics: Callable[[str], Awaitable[list[str]]]) -> None:
        self._store = store
        self._list_topics = list_topics
        self._watched: dict[str, _Watched] = {}

    async def follow(self, namespace: str, listener: TopicsListener) -> list[str]:
        """The topics of a namespace now; calls `listener` with all of them whenever they differ from then on.

        Returns once the watch is set. A store that cannot be reached is asked again until it can.
        """
        loop = asyncio.get_running_loop()
        watched = self._watched.get(namespace)
        if watched is None:
            watched = self._watched[namespace] = _Watched(loop.create_future())
            watched.task = loop.create_task(self._watch(namespace, watched))
        watched.listeners.append(listener)
        try:
            await asyncio.shield(watched.seen)
        except BaseException:
            self.forget(namespace, listener)
            raise
        return watched.topics

    def forget(self, namespace: str, listener: TopicsListener) -> None:
        """Tell `listener` nothing more; the watch ends with its last listener."""
        watched = self._watched.get(namespace)
        if watched is None or listener not in watched.listeners:
            return
        watched.listeners.remove(listener)
        if not watched.listeners:
            del self._watched[namespace]
            _end(watched)

    def stop(self) -> None:
        """Watch nothing more."""
        for watched in self._watched.values():
            _end(watched)
        self._watched.clear()

    async def _watch(self, namespace: str, watched: _Watched) -> None:
        def failed(error: BaseException) -> None:
            log_failure(log, "topics_not_watched", error, namespace=namespace)

        path = f"{MANAGED_LEDGERS}/{namespace}/{PERSISTENT}"
        await follow_node(self._store, path, partial(self._look, namespace, watched), failed, children=True)

    async def _look(self, namespace: str, watched: _Watched) -> None:
        topics = await self._list_topics(namespace)
        if not watched.seen.done():
            watched.topics = topics
            watched.seen.set_result(None)
        elif topics != watched.topics:
            watched.topics = topics
            for listener in list(watched.listeners):
                if listener not in watched.listeners:
                    continue  # it ended meanwhile
                with OutlivedRound(partial(log_failure, log, "topic_watcher_not_told", namespace=namespace)):
                    listener(topics)
                await asyncio.sleep(0)  # with many topics each takes a while: others get a turn


def _end(watched: _Watched) -> None:
    if watched.task is not None:
        watched.task.cancel()
    watched.seen.cancel()
