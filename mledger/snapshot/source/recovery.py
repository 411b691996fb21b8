"""Finds what opening topics would find, by peeking at the bookies; it fences and writes nothing (M9, Q3).

Unreachable bookies do not fail the read: the rows say why their state is unknown.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mledger.admin.inspect import Inspector, TopicLook
from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.reading_client import BookKeeperReader
from mledger.bookie.errors import BookieError
from mledger.ledgers.ledger_list import ledgers_to_recover
from mledger.metastore.errors import MledgerError, RecordError
from mledger.metastore.store import MetadataReader, Node, Stat
from mledger.snapshot.source.live_nodes import Nodes
from mledger.snapshot.tables.decoder import Item, decode
from mledger.snapshot.tables.node_kinds import NodeKind
from mledger.snapshot.tables.records import CursorNode, FoundNode, Topic, UnreadableNode

TOPICS_AT_ONCE = 32
GIVE_UP_AFTER = 20
"""After this many consecutive topics without an answer from a bookie, the rest of a share is not peeked at."""

CONNECT_S = 3.0
READ_S = 5.0


class Recovering:
    """Inspects the topics of a share; create it with `open`."""

    def __init__(self, inspector: Inspector, ledgers_root: str) -> None:
        """Use `open`."""
        self._inspector = inspector
        self._root = ledgers_root
        self._failures = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, store: MetadataReader, ledgers_root: str, password: bytes) -> AsyncIterator["Recovering"]:
        """Connect to the bookies of `store`; an empty `password`: the one that each ledger's metadata has."""
        config = ClientConfig(connect_timeout_s=CONNECT_S, read_timeout_s=READ_S, ledgers_root=ledgers_root)
        bookkeeper = BookKeeperReader(store, config)
        try:
            yield cls(Inspector(store, bookkeeper, password or None), ledgers_root)
        finally:
            await bookkeeper.close()

    async def items(self, nodes: Nodes) -> list[Item | UnreadableNode]:
        """The records in `nodes`, topics and all their cursors, with what opening would find."""
        decoded = [decode(kind, node, self._root) for kind, node in nodes if kind in (NodeKind.TOPIC, NodeKind.CURSOR)]
        cursors: dict[str, list[CursorNode]] = {}
        for item in decoded:
            if isinstance(item, CursorNode):
                cursors.setdefault(item.key.managed_ledger, []).append(item)
        at_once = asyncio.Semaphore(TOPICS_AT_ONCE)

        async def look(topic: Topic) -> list[Item]:
            async with at_once:
                return await self._look(topic, cursors.get(topic.key.managed_ledger, []))

        topics = [item for item in decoded if isinstance(item, Topic)]
        found: list[Item | UnreadableNode] = [
            item for looked in await asyncio.gather(*map(look, topics)) for item in looked
        ]
        seen = {topic.key.managed_ledger for topic in topics}
        found += [item for item in decoded if isinstance(item, UnreadableNode)]
        return found + [
            cursor._replace(problem="the topic's record cannot be read: see the table errors")
            for managed_ledger, theirs in cursors.items()
            if managed_ledger not in seen
            for cursor in theirs
        ]

    async def _look(self, topic: Topic, cursors: list[CursorNode]) -> list[Item]:
        if self._failures >= GIVE_UP_AFTER:
            return _failed(topic, cursors, f"not read: no bookie answered for the {GIVE_UP_AFTER} topics before it")
        try:
            looked = await self._inspector.look(
                topic.node.path, _as_node(topic.node), {cursor.node.path: _as_node(cursor.node) for cursor in cursors}
            )
        except (BookieError, TimeoutError) as error:
            self._failures += 1
            return _failed(topic, cursors, _said(error))
        except (MledgerError, RecordError) as error:
            return _failed(topic, cursors, _said(error))
        if ledgers_to_recover(topic.record.value):
            self._failures = 0
        return _with(topic, cursors, looked)


def _with(topic: Topic, cursors: list[CursorNode], looked: TopicLook) -> list[Item]:
    asked = set(ledgers_to_recover(topic.record.value))
    seen = {ledger.ledger_id: ledger for ledger in looked.ledgers if ledger.ledger_id in asked}
    return [
        topic._replace(seen=seen),
        *(cursor._replace(recovered=looked.cursors[cursor.node.path]) for cursor in cursors),
    ]


def _failed(topic: Topic, cursors: list[CursorNode], problem: str) -> list[Item]:
    return [topic._replace(problem=problem), *(cursor._replace(problem=problem) for cursor in cursors)]


def _as_node(found: FoundNode) -> Node:
    return Node(found.data, Stat(found.version, found.created_ms, found.modified_ms, found.num_children, 0))


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or "timed out"
