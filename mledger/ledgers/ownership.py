"""Who has a topic open (M9): our ephemeral owner node, and the nodes of Pulsar's brokers.

`open()` claims the owner node, but the fence is the record's version, not this node (M7). Commands
that write call `check_owner` first.
"""

import asyncio
import contextlib
import json
import os
import socket
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mledger.errors import ManagedLedgerFenced, OwnedElsewhere
from mledger.ledgers.bundles import LIVE_BROKERS, BrokerOwner, bundle_folders, live, serving, unseen
from mledger.metastore.errors import BadVersion, InvalidName, MetadataError, NodeExists, NodeNotFound, StoreUnavailable
from mledger.metastore.records.paths import TopicName, owner_path
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.session import SESSION_TIMEOUT_S
from mledger.metastore.store import Check, Create, Delete, MetadataReader, MetadataStore, Node, Operation

if TYPE_CHECKING:
    from mledger.ledgers.topic_record import TopicRecord

log = get_logger(__name__)

CLAIM_ATTEMPTS = 5
POLL_S = 0.2
RECLAIM_FIRST_S = 0.5
RECLAIM_LAST_S = 30.0
BROKER_SESSION_S = 30.0
"""A broker's default session time-out (`metadataStoreSessionTimeoutMillis`): its nodes outlive a crash by it."""
CONNECT_TIMEOUT_S = 1.0
EXPIRY_S = 3.0
"""A server expires a session at the next tick after its time-out, not at once."""


class Ownership:
    """Our owner node of one managed ledger, held by this session."""

    def __init__(self, store: MetadataStore, managed_ledger: str, path: str, data: bytes) -> None:
        self._store = store
        self._managed_ledger = managed_ledger
        self._data = data
        self.path = path

    @classmethod
    async def claim(cls, store: MetadataStore, managed_ledger: str, nodes: "OwnerNodes") -> "Ownership":
        """Claim the owner node, replacing another owner's; that owner stops at its next check.

        If it fails, `nodes` releases what it may have created. Raises ManagedLedgerFenced if others
        keep claiming it at the same time.
        """
        path = owner_path(managed_ledger)
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "claim": uuid.uuid4().hex}
        data = json.dumps(owner).encode()
        for _ in range(CLAIM_ATTEMPTS):
            operations: list[Operation] = [Create(path, data, ephemeral=True)]
            with contextlib.suppress(NodeNotFound):
                operations.insert(0, Delete(path, (await store.get(path)).version))
            claimed = cls(store, managed_ledger, path, data)
            try:
                await store.multi(operations)
            except (NodeExists, NodeNotFound, BadVersion):
                found = await _get(store, path)
                if found is None or found.data != data:
                    continue
            except BaseException:  # it may have succeeded: the node would stay as long as this session
                await nodes.release(claimed)
                raise
            return claimed
        raise ManagedLedgerFenced(f"{managed_ledger}: others are opening it at the same time; try again")

    async def reclaim(self, record: "TopicRecord") -> None:
        """Create the owner node again after the session that held it has ended.

        Retries until the store is available. Raises ManagedLedgerFenced if the node or the topic's
        record shows another owner.
        """
        delay = RECLAIM_FIRST_S
        while True:
            try:
                return await self._reclaim(record)
            except StoreUnavailable as error:
                log.warning("owner_node_not_back", topic=record.name, error=error)
                await asyncio.sleep(delay)
                delay = min(RECLAIM_LAST_S, 2 * delay)

    async def _reclaim(self, record: "TopicRecord") -> None:
        for _ in range(CLAIM_ATTEMPTS):
            await record.verify()
            node = await _get(self._store, self.path)
            if node is not None and node.data != self._data:
                raise record.fence(f"another owner has it: {BrokerOwner(self.path, _describe(node.data))}")
            if node is not None and node.stat.ephemeral_owner == self._store.session_id:
                return
            operations: list[Operation] = [Delete(self.path, node.version)] if node is not None else []
            operations += [Create(self.path, self._data, ephemeral=True), Check(record.path, record.version)]
            try:
                await self._store.multi(operations)
                return
            except (NodeExists, NodeNotFound, BadVersion):
                continue
        raise record.fence("its session with the metadata store had ended, and others are opening it")

    async def lost_to(self) -> BrokerOwner | None:
        """The owner that claimed the node after us, or None."""
        node = await _get(self._store, self.path)
        return None if node is None or node.data == self._data else BrokerOwner(self.path, _describe(node.data))

    async def broker(self) -> BrokerOwner | None:
        """The broker that serves the topic, or may serve it, whoever holds the owner node; not this program."""
        return await find_broker(self._store, self._managed_ledger, own_session=self._store.session_id)

    @property
    def managed_ledger(self) -> str:
        """The managed ledger's name."""
        return self._managed_ledger

    async def release(self) -> None:
        """Remove the node if it is ours; `OwnerNodes` retries. Raises MetadataError."""
        node = await _get(self._store, self.path)
        if node is None or node.data != self._data:
            await self._store.sync()  # a server that lags may not know of a claim that was not answered
            node = await _get(self._store, self.path)
        if node is not None and node.data == self._data:
            with contextlib.suppress(NodeNotFound, BadVersion):
                await self._store.delete(self.path, node.version)


class OwnerNodes:
    """Removes the owner nodes of topics that one process closes, retrying while the store does not answer.

    A node stays as long as the process's session, and until then nobody else can open the topic.
    """

    def __init__(self) -> None:
        self._retries: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def retrying(self) -> int:
        """The number of nodes that are still to be removed."""
        return len(self._retries)

    async def release(self, ownership: Ownership) -> None:
        """Remove the node if it is that of `ownership`; if the store does not answer, in the background.

        After `stop` it is left to the session's end.
        """
        if not self._stopped and not await self._released(ownership):
            retry = asyncio.get_running_loop().create_task(self._retry(ownership))
            self._retries.add(retry)
            retry.add_done_callback(self._retries.discard)

    def stop(self) -> None:
        """Remove no more nodes: the session ends."""
        self._stopped = True
        for retry in self._retries:
            retry.cancel()

    async def _retry(self, ownership: Ownership) -> None:
        delay = RECLAIM_FIRST_S
        while True:
            await asyncio.sleep(delay)
            if await self._released(ownership):
                return
            delay = min(RECLAIM_LAST_S, 2 * delay)

    @staticmethod
    async def _released(ownership: Ownership) -> bool:
        """Try once; False if the store did not answer."""
        try:
            await ownership.release()
        except MetadataError as error:
            log.warning("owner_node_not_released", topic=ownership.managed_ledger, error=error)
            return not isinstance(error, StoreUnavailable)
        return True


async def find_owner(reader: MetadataReader, managed_ledger: str, *, own_session: int = 0) -> BrokerOwner | None:
    """The managed ledger's owner: an mledger process, or the Pulsar broker that serves its topic's bundle.

    A live broker whose served bundles cannot be seen counts as the owner. A node of `own_session`,
    this program's session, does not.
    """
    node = await _get(reader, owner_path(managed_ledger))
    if node is not None and node.stat.ephemeral_owner not in (0, own_session):
        return BrokerOwner(owner_path(managed_ledger), _describe(node.data), node.stat.ephemeral_owner)
    return await find_broker(reader, managed_ledger, own_session=own_session)


async def find_broker(reader: MetadataReader, managed_ledger: str, *, own_session: int = 0) -> BrokerOwner | None:
    """The broker that serves the managed ledger's topic, or may serve it; `own_session` as in `find_owner`.

    Brokers serve topics only: a managed ledger whose name is not a topic's has none.
    """
    try:
        topic = TopicName.of_managed_ledger(managed_ledger)
    except InvalidName:
        return None
    folders = bundle_folders(topic)
    owned, channel, brokers = await reader.children_many([*folders, LIVE_BROKERS])
    paths = [
        [f"{folder}/{name}" for name in names or ()] for folder, names in zip(folders, (owned, channel), strict=True)
    ]
    wanted = [*paths[0], *paths[1], *live(brokers or ())]
    found = dict(zip(wanted, await reader.get_many(wanted), strict=True))
    of_owners, of_channel = ({path: found[path] for path in group} for group in paths)
    served = serving(topic, of_owners, of_channel, brokers or (), own_session)
    if served is not None:
        return served
    nodes = {path: found[path] for path in live(brokers or ())}
    return unseen(nodes, has_channel=channel is not None, own_session=own_session)


async def check_owner(
    reader: MetadataReader,
    managed_ledger: str,
    *,
    take_over: bool = False,
    session_timeout: float = SESSION_TIMEOUT_S,
    own_session: int = 0,
) -> None:
    """Raise OwnedElsewhere if there is an owner and it is still there after a session time-out (M9).

    `session_timeout` is that of mledger owners, in s. For a broker the wait is the default session
    time-out of brokers, and ends at once if the broker accepts connections at its address: then it
    is alive. With `take_over` no owner is checked for; `own_session` as in `find_owner`.
    """
    if take_over:
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (owner := await find_owner(reader, managed_ledger, own_session=own_session)) is not None:
        session_s = max(session_timeout, BROKER_SESSION_S) if owner.address else session_timeout
        left = began + session_s + min(EXPIRY_S, session_s / 2) - loop.time()
        if left <= 0 or (owner.address and await _takes_connections(owner.address)):
            raise OwnedElsewhere(
                f"{managed_ledger} has an owner: {owner}; stop that one or, if it is a broker, unload the topic there; "
                "take over (--take-over) only if it is dead"
            )
        await asyncio.sleep(min(POLL_S, left))


async def _takes_connections(url: str) -> bool:
    """Whether something accepts connections at the URL."""
    try:
        place = urlsplit(url)
        async with TimeLimit(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(place.hostname, place.port)
    except (OSError, TimeoutError, ValueError):
        return False
    writer.close()
    return True


async def _get(reader: MetadataReader, path: str) -> Node | None:
    try:
        return await reader.get(path)
    except NodeNotFound:
        return None


def _describe(data: bytes) -> str:
    try:
        owner = json.loads(data)
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError):
        return "an unknown process"
