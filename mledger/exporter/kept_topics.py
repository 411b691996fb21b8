"""What was read of topics, kept packed until a node of theirs changes, so that later rounds ask only for the others.

It needs a store that tells of every change (`MetadataReader.watch_tree`), and a connection that lasts: when it is lost,
everything is read anew, as in a store that does not tell. Nobody tells when access to a node is taken away, so that
nothing is kept for longer than LONGEST_S.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from zlib import crc32

from msgspec import msgpack

from mledger.exporter.topic_summary import TopicSummary
from mledger.metastore.records.paths import MANAGED_LEDGERS
from mledger.metastore.store import MetadataReader

MOST_BYTES = 256 << 20
LONGEST_S = 900
_SPREAD = 1024
_DUE = 4
"""Bytes of the second at which a topic is read again, before what is packed."""
_OVERHEAD = 250
"""Bytes that a topic takes beside what is packed and its name."""


_DECODER = msgpack.Decoder(TopicSummary)
_ENCODER = msgpack.Encoder()


class KeptTopics:
    """Topics by the path of their record, at most `most_bytes` of them; times in seconds of one clock."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._folders: dict[str, dict[str, bytes]] = {}
        self._reader: MetadataReader | None = None
        self._watches = 0
        self._whole = False  # every change since the last `_forget_all` is told
        self._reading: list[set[str]] = []

    async def begin(self, reader: MetadataReader, now_s: float) -> None:
        """Begin a round that reads from `reader`; sync it afterwards, so that all changes before the round are told."""
        if self._whole and self._reader is reader:
            self._drop_due(now_s)
            return
        self._forget_all()
        self._reader = reader
        self._watches += 1
        self._whole = True
        told = False
        try:
            told = await reader.watch_tree(MANAGED_LEDGERS, self._changed, partial(self._lost, self._watches))
        finally:
            self._whole = self._whole and told

    def get(self, path: str) -> TopicSummary | None:
        """What is kept of the topic at `path`."""
        if not self._whole:
            return None
        folder, _, name = path.rpartition("/")
        packed = self._folders.get(folder, {}).get(name)
        return None if packed is None else _DECODER.decode(memoryview(packed)[_DUE:])

    @contextmanager
    def reading(self) -> Iterator[set[str]]:
        """While topics are read: the set gets the paths of what changes meanwhile, which `keep` needs to know."""
        changed: set[str] = set()
        self._reading.append(changed)
        try:
            yield changed
        finally:
            self._reading = [each for each in self._reading if each is not changed]

    def keep(self, path: str, topic: TopicSummary, changed: set[str], now_s: float) -> None:
        """Keep what was read of the topic at `path`, if it did not change meanwhile and there is room."""
        if not self._whole or path in changed:
            return
        folder, _, name = path.rpartition("/")
        packed = plan_due(path, now_s).to_bytes(_DUE) + _ENCODER.encode(topic)
        size = len(packed) + len(name) + _OVERHEAD
        if self._bytes + size <= self._most_bytes:
            self._drop(folder, name)
            self._folders.setdefault(folder, {})[name] = packed
            self._bytes += size

    def _changed(self, path: str) -> None:
        """The node at `path` has changed: a topic's record, or a cursor's."""
        parent, _, name = path.rpartition("/")
        self._drop(parent, name)
        above, _, of_parent = parent.rpartition("/")
        self._drop(above, of_parent)
        for changed in self._reading:
            changed |= {path, parent}

    def _lost(self, watch: int) -> None:
        if watch == self._watches:
            self._forget_all()

    def _forget_all(self) -> None:
        self._whole = False
        self._folders = {}
        self._bytes = 0

    def _drop(self, folder: str, name: str) -> None:
        packed = self._folders.get(folder, {}).pop(name, None)
        if packed is not None:
            self._bytes -= len(packed) + len(name) + _OVERHEAD

    def _drop_due(self, now_s: float) -> None:
        for folder, topics in self._folders.items():
            for name in [name for name, packed in topics.items() if int.from_bytes(packed[:_DUE]) <= now_s]:
                self._drop(folder, name)
        self._folders = {folder: topics for folder, topics in self._folders.items() if topics}


def plan_due(path: str, now_s: float) -> int:
    """When to read a topic again that was read now: within LONGEST_S, and not all topics in the same round."""
    share = crc32(path.encode()) % _SPREAD
    return int(now_s + LONGEST_S * (_SPREAD + share) / (2 * _SPREAD))
