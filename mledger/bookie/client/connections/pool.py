"""Connections to bookies by id, the registered bookies, and recent failures."""

import asyncio
import contextlib
import enum
from collections.abc import AsyncIterator, Iterable

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.connection import TOLD_AFTER_S, BookieConnection, WaitingSink
from mledger.bookie.client.connections.connector import BookieConnector
from mledger.bookie.client.connections.quarantine import Quarantine
from mledger.bookie.client.connections.rack_mapping import RackMapping
from mledger.bookie.client.connections.shared_read import SharedRead
from mledger.bookie.client.plans.topology import Topology, plan_isolated, plan_isolation, plan_topology
from mledger.bookie.errors import BookieUnavailable, EncryptionRefused
from mledger.metastore.cluster.bookies import BookieRegistration, list_bookies, resolve
from mledger.metastore.errors import InvalidName, RecordError, StoreUnavailable
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit
from mledger.metastore.store import MetadataReader

log = get_logger(__name__)

_REGISTRATIONS_S = 1.0  # how long a list of bookies counts as current
_CONNECT_AGAIN_S = 0.2  # a refused connection is not tried again sooner


class Lane(enum.Enum):
    """The use of a connection: version 2 answers distinguish neither fencing from plain reads, nor recovery's adds."""

    NORMAL = "normal"
    RECOVERY = "recovery"


def cancelled_itself() -> bool:
    """Whether a CancelledError caught now cancels the task itself, not what it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class BookiePool:
    """A client's connections, one per bookie and lane, opened on demand and reopened after a loss."""

    def __init__(self, reader: MetadataReader, config: ClientConfig) -> None:
        """InvalidSetting if the files of TLS cannot be used."""
        self._reader, self._config = reader, config
        self.connector = BookieConnector(config.tls)
        """Opens connections as this client's settings say, for single requests too."""
        self._open: dict[tuple[str, Lane], BookieConnection] = {}
        self._opening: dict[tuple[str, Lane], asyncio.Task[BookieConnection]] = {}
        self.quarantine = Quarantine(config.quarantine_s, lambda: asyncio.get_running_loop().time(), self._heard_at)
        self._retired: set[BookieConnection] = set()
        self._heard: dict[str, float] = {}  # over connections that were replaced
        self._refused: dict[str, tuple[float, str]] = {}
        self._misplaced: set[str] = set()  # not found at their address: look it up again
        self._registrations: list[BookieRegistration] = []
        self._registrations_at = float("-inf")
        self._listing = SharedRead(self._list)
        self._racks = RackMapping(reader, config.placement)
        self.speculative_read_s = config.speculative_read_s
        self.on_waiting: WaitingSink | None = None
        """Called each second while a bookie is waited for, with the seconds waited."""
        self.closed = False

    @contextlib.asynccontextmanager
    async def waiting_for(self, bookie_id: str) -> AsyncIterator[None]:
        """Call `on_waiting` each second while the bookie is waited for."""
        loop = asyncio.get_running_loop()
        since = loop.time()
        timer: asyncio.TimerHandle

        def tell() -> None:
            nonlocal timer
            self._waiting(bookie_id, loop.time() - since)
            timer = loop.call_later(TOLD_AFTER_S, tell)

        timer = loop.call_later(TOLD_AFTER_S, tell)
        try:
            yield
        finally:
            timer.cancel()

    async def registrations(self, *, fresh: bool = False) -> list[BookieRegistration]:
        """The registered bookies, at most a second old unless `fresh`."""
        now = asyncio.get_running_loop().time()
        if fresh or now - self._registrations_at > _REGISTRATIONS_S:
            await self._listing.get(fresh=fresh)
        return self._registrations

    async def _list(self) -> None:
        now = asyncio.get_running_loop().time()
        self._registrations = await list_bookies(self._reader, self._config.ledgers_root)
        self._registrations_at = now

    async def writable(self, *, fresh: bool = False) -> list[str]:
        """Ids of the writable bookies; `fresh` as for `registrations`."""
        return [found.bookie_id for found in await self.registrations(fresh=fresh) if not found.read_only]

    async def usable(
        self, ensemble_size: int, affinity: BookieAffinityGroup | None = None, *, fresh: bool = False
    ) -> tuple[set[str], Topology]:
        """The bookies that an ensemble may use by their isolation groups, and their topology (Q1).

        `affinity` is what the ledger asks for itself. `fresh` as for `registrations`. StoreUnavailable, RecordError:
        they cannot be determined.
        """
        writable, policy = await self.writable(fresh=fresh), self._config.placement
        isolation = plan_isolation(policy, affinity)
        groups = await self._racks.groups(isolation)
        isolated = plan_isolated(isolation, groups, ensemble_size, writable)
        return set(writable) - isolated, plan_topology(policy, groups, self._registrations)

    def opened(self, bookie_id: str, lane: Lane = Lane.NORMAL) -> BookieConnection | None:
        """The connection to `bookie_id` if it is open and not behind with its answers."""
        found = self._open.get((bookie_id, lane))
        return None if found is None or found.closed or found.behind else found

    async def connection(self, bookie_id: str, lane: Lane = Lane.NORMAL) -> BookieConnection:
        """An open connection to `bookie_id`; BookieUnavailable if none can be opened."""
        found = self.opened(bookie_id, lane)
        if found is not None:
            return found
        key = bookie_id, lane
        opening = self._opening.get(key)
        if opening is None:
            self._check_refused(bookie_id)
            opening = asyncio.create_task(self._connect(bookie_id, lane))
            self._opening[key] = opening
            opening.add_done_callback(lambda task: self._opened(key, task))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if not opening.cancelled() or cancelled_itself():
                raise
            raise self._closed_error(bookie_id) from None

    async def connections(
        self, bookie_ids: Iterable[str], lane: Lane = Lane.NORMAL, *, within_s: float | None = None
    ) -> dict[str, BookieConnection | BookieUnavailable]:
        """Open connections to several bookies at once; for each its connection or error, within `within_s` seconds."""
        found: dict[str, BookieConnection | BookieUnavailable] = {}
        missing = []
        for bookie in bookie_ids:
            opened = self.opened(bookie, lane)
            if opened is None:
                missing.append(bookie)
            else:
                found[bookie] = opened
        if not missing:
            return found
        tasks = {bookie: asyncio.ensure_future(self.connection(bookie, lane)) for bookie in missing}
        try:
            await asyncio.wait(tasks.values(), timeout=within_s)
        finally:
            late = {bookie for bookie, task in tasks.items() if task.cancel()}
        for bookie, task in tasks.items():
            if bookie in late:
                found[bookie] = BookieUnavailable(f"bookie {bookie}: no connection within {within_s:g} s")
                continue
            try:
                found[bookie] = task.result()
            except BookieUnavailable as error:
                found[bookie] = error
        return found

    async def close(self) -> None:
        """Close every connection."""
        self.closed = True
        for task in list(self._opening.values()):
            task.cancel()
        for connection in (*self._open.values(), *self._retired):
            connection.close()
        self._open.clear()
        self._retired.clear()

    def _opened(self, key: tuple[str, Lane], task: asyncio.Task[BookieConnection]) -> None:
        self._opening.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return  # the caller has the error
        if self.closed:
            task.result().close()
            return
        self._retired = {each for each in self._retired if not each.closed}
        before, self._open[key] = self._open.get(key), task.result()
        if before is not None:
            self._heard[before.bookie_id] = self._heard_over(before.bookie_id, [before])
            if not before.closed:
                self._retired.add(before)
                before.retire()

    def _waiting(self, bookie_id: str, waited_s: float) -> None:
        if self.on_waiting is not None:
            self.on_waiting(bookie_id, waited_s)

    def _heard_at(self, bookie_id: str) -> float:
        """When the bookie last sent anything, over any of its connections."""
        current = [found for lane in Lane if (found := self._open.get((bookie_id, lane))) is not None]
        return self._heard_over(bookie_id, [*current, *self._retired])

    def _heard_over(self, bookie_id: str, connections: Iterable[BookieConnection]) -> float:
        heard = [each.heard_at for each in connections if each.bookie_id == bookie_id]
        return max([self._heard.get(bookie_id, float("-inf")), *heard])

    def _check_refused(self, bookie_id: str) -> None:
        if self.closed:
            raise self._closed_error(bookie_id)
        if self.quarantine.refuses(bookie_id):
            raise BookieUnavailable(self.quarantine.why(bookie_id))
        at, reason = self._refused.get(bookie_id, (float("-inf"), ""))
        if asyncio.get_running_loop().time() - at < _CONNECT_AGAIN_S:
            raise BookieUnavailable(reason)

    @staticmethod
    def _closed_error(bookie_id: str) -> BookieUnavailable:
        return BookieUnavailable(f"bookie {bookie_id}: this client is closed")

    async def _connect(self, bookie_id: str, lane: Lane) -> BookieConnection:
        loop = asyncio.get_running_loop()
        config = self._config
        try:
            async with TimeLimit(config.connect_timeout_s), self.waiting_for(bookie_id):
                host, port = await self._address(bookie_id)
                connection = await self.connector.connect(
                    lambda: BookieConnection(
                        bookie_id,
                        loop,
                        read_timeout_s=config.read_timeout_s,
                        silence_timeout_s=config.silence_timeout_s,
                        max_answer=config.max_answer,
                        quarantine=self.quarantine,
                        on_waiting=self._waiting,
                    ),
                    host,
                    port,
                )
        except (OSError, TimeoutError, InvalidName) as error:
            self._misplaced.add(bookie_id)  # it may be registered at another address now
            self._registrations_at = float("-inf")
            what = "no connection in time" if isinstance(error, TimeoutError) else str(error)
            reason = f"bookie {bookie_id} cannot be reached: {what}; see whether it runs"
            if isinstance(error, EncryptionRefused):
                reason = f"bookie {bookie_id}: {what}"
            self._refused[bookie_id] = loop.time(), reason
            if isinstance(error, TimeoutError):
                self.quarantine.note_silence(bookie_id, what, config.connect_timeout_s)
            else:
                self.quarantine.note_failure(bookie_id, what)
            raise BookieUnavailable(reason) from error
        self._misplaced.discard(bookie_id)
        return connection

    async def _address(self, bookie_id: str) -> tuple[str, int]:
        """The bookie's address, looked up for each connection; InvalidName when it is not known.

        Another bookie may serve at the former address by now, and nothing in protocol 2 would show that it takes and
        misses the entries of this one. An id that is its address is tried there if the metadata store does not answer.
        """
        known = next((found for found in self._registrations if found.bookie_id == bookie_id), None)
        before = bookie_id in self._misplaced or any((bookie_id, lane) in self._open for lane in Lane)
        try:
            async with TimeLimit(self._config.connect_timeout_s / 2):
                await self.registrations(fresh=before or known is None)
        except (StoreUnavailable, RecordError, TimeoutError) as error:
            log.warning("bookie_not_looked_up", bookie=bookie_id, error=error)
            if known is not None and bookie_id != f"{known.host}:{known.port}":
                raise InvalidName("whether its address has changed cannot be looked up now") from error
        return resolve(self._registrations, bookie_id)
