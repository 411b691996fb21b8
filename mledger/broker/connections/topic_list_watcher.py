"""A client's watcher of the topics that match its pattern."""

from collections.abc import Callable

from mledger.broker.lookup.topic_list import topics_hash
from mledger.broker.lookup.topic_watch import TopicWatch
from mledger.broker.lookup.topics_pattern import TopicsPattern, matching
from mledger.broker.protocol import answers


class TopicListWatcher:
    """What one client knows of a namespace's topics. `write` sends it bytes."""

    def __init__(
        self, watcher_id: int, namespace: str, pattern: TopicsPattern, watch: TopicWatch, write: Callable[[bytes], None]
    ) -> None:
        self.matching: list[str] = []
        self.begun = False
        self.namespace = namespace
        self.allowed = True
        """Whether the client may list the topics."""
        self._id = watcher_id
        self._pattern = pattern
        self._watch = watch
        self._write = write
        self._latest: list[str] = []
        self._known: frozenset[str] = frozenset()

    async def begin(self) -> None:
        """Follow the topics; `matching` are those that the client is told at first, before `run`, sorted."""
        try:
            self._latest = topics = await self._watch.follow(self.namespace, self._changed)
            self.matching = sorted(await matching(self._pattern, topics))
        except BaseException:
            self.end()
            raise
        self._known = frozenset(topics)

    def run(self) -> None:
        """Tell the client of every change from now on, and of those since `begin`."""
        self.begun = True
        self._changed(self._latest)

    def allow(self, allowed: bool) -> None:
        """Tell the client nothing while it may not list the topics; once it may again, all that has changed."""
        self.allowed = allowed
        self._changed(self._latest)

    def end(self) -> None:
        """Follow the topics no longer."""
        self._watch.forget(self.namespace, self._changed)

    def _changed(self, topics: list[str]) -> None:
        self._latest = topics
        if not (self.begun and self.allowed):
            return
        now = frozenset(topics)
        new = self._pattern.of(sorted(now - self._known))
        deleted = [topic for topic in self.matching if topic not in now]
        self._known = now
        if new or deleted:
            left = [topic for topic in self.matching if topic in now] if deleted else self.matching
            self.matching = sorted([*left, *new])  # of a sorted list, a fraction of the time
            self._write(answers.watch_update(self._id, new, deleted, topics_hash(self.matching)))
