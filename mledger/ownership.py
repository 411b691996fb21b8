"""Who has a topic open (M9): our ephemeral owner node, and what Pulsar's brokers leave in the metadata store.

`open()` claims the node but is not bound by it, its fence is the record's version (M7). Commands that write call
`check_owner` first.
"""

import asyncio
import contextlib
import json
import os
import socket
import uuid
from dataclasses import dataclass

from metastore.errors import BadVersion, MetadataError, NodeExists, NodeNotFound
from metastore.paths import TopicName, owner_path
from metastore.store import Create, Delete, MetadataReader, MetadataStore, Node, Operation
from mledger.errors import ManagedLedgerFenced, OwnedElsewhere

NAMESPACES = "/namespace"
BROKERS = ("/loadbalance/brokers", "/loadbalance")
CLAIM_ATTEMPTS = 5
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner as seen: which node tells of it, and what it says."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.detail} ({self.path})"


class Ownership:
    """Our owner node of one managed ledger, held by this session."""

    def __init__(self, store: MetadataStore, path: str, data: bytes) -> None:
        self._store = store
        self._data = data
        self.path = path

    @classmethod
    async def claim(cls, store: MetadataStore, managed_ledger: str) -> "Ownership":
        """Become the owner that others see, taking the place of whoever was; that one stops when it next looks.

        Raises ManagedLedgerFenced when others keep claiming it at the same time.
        """
        path = owner_path(managed_ledger)
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "claim": uuid.uuid4().hex}
        data = json.dumps(owner).encode()
        for _ in range(CLAIM_ATTEMPTS):
            operations: list[Operation] = [Create(path, data, ephemeral=True)]
            with contextlib.suppress(NodeNotFound):
                operations.insert(0, Delete(path, (await store.get(path)).version))
            claimed = cls(store, path, data)
            try:
                await store.multi(operations)
            except (NodeExists, NodeNotFound, BadVersion):
                found = await _get(store, path)
                if found is None or found.data != data:
                    continue
            except BaseException:  # it may have been carried out: nobody else would remove the node while we live
                with contextlib.suppress(MetadataError):
                    await claimed.release()
                raise
            return claimed
        raise ManagedLedgerFenced(f"{managed_ledger}: others are opening it at the same time; try again")

    async def lost_to(self) -> Owner | None:
        """Who claimed it after us; None while nobody has."""
        node = await _get(self._store, self.path)
        return None if node is None or node.data == self._data else Owner(self.path, _describe(node.data))

    async def release(self) -> None:
        """Remove the node if it is ours."""
        node = await _get(self._store, self.path)
        if node is not None and node.data == self._data:
            with contextlib.suppress(NodeNotFound, BadVersion):
                await self._store.delete(self.path, node.version)


async def find_owner(reader: MetadataReader, managed_ledger: str) -> Owner | None:
    """Who has the managed ledger open: one of us, or a Pulsar broker that serves, or may serve, its namespace.

    A cluster with live brokers of which none shows an ephemeral below the namespace counts as an owner that can't be
    seen.
    """
    node = await _get(reader, owner_path(managed_ledger))
    if node is not None and node.stat.ephemeral_owner:
        return Owner(owner_path(managed_ledger), _describe(node.data))
    topic = TopicName.of_managed_ledger(managed_ledger)
    parts = [part for part in (topic.tenant, topic.cluster, topic.namespace) if part is not None]
    bundle = await _first_ephemeral(reader, "/".join([NAMESPACES, *parts]))
    if bundle is not None:
        return Owner(bundle, "a Pulsar broker serves its namespace")
    for folder in BROKERS:
        broker = await _first_ephemeral(reader, folder)
        if broker is not None:
            return Owner(broker, "a Pulsar broker is live and what it serves can't be seen")
    return None


async def check_owner(
    reader: MetadataReader, managed_ledger: str, *, take_over: bool = False, session_timeout: float = 10.0
) -> None:
    """Raise OwnedElsewhere if there is an owner and it does not go within `session_timeout` seconds (M9).

    With `take_over` nothing is refused.
    """
    if take_over:
        return
    loop = asyncio.get_running_loop()
    until = loop.time() + session_timeout
    while (owner := await find_owner(reader, managed_ledger)) is not None:
        if loop.time() >= until:
            raise OwnedElsewhere(
                f"{managed_ledger} has an owner: {owner}; stop that one, or take over (--take-over) if it is dead"
            )
        await asyncio.sleep(min(POLL_S, max(0.0, until - loop.time())))


async def _get(reader: MetadataReader, path: str) -> Node | None:
    try:
        return await reader.get(path)
    except NodeNotFound:
        return None


async def _first_ephemeral(reader: MetadataReader, folder: str) -> str | None:
    """The first ephemeral below `folder`, two levels deep at most."""
    level = [folder]
    for _ in range(2):
        children = await reader.children_many(level)
        level = [f"{path}/{name}" for path, names in zip(level, children, strict=True) for name in names or ()]
        nodes = await reader.get_many(level)
        for path, node in zip(level, nodes, strict=True):
            if node is not None and node.stat.ephemeral_owner:
                return path
    return None


def _describe(data: bytes) -> str:
    try:
        owner = json.loads(data)
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):
        return "a process that left no word of itself"
