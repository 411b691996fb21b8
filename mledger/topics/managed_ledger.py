"""An open topic: append, read, cursors, trim, terminate, close (M2 to M5, M7, M8).

`opening.open_managed_ledger` creates it. It belongs to one event loop and needs no locks. Every
change of the list goes through the topic's record, whose version is the fence: an owner that loses
the record stops, and so do its cursors.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from threading import get_ident

from msgspec.structs import replace

from mledger.cursors.container import CursorContainer
from mledger.cursors.non_durable_cursors import NonDurableCursors
from mledger.cursors.persistence.compacted_ledgers import CompactedLedgers
from mledger.cursors.persistence.store import CursorContext
from mledger.cursors.persistence.unknown_outcomes import ask_until_known
from mledger.errors import ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import Closed, CurrentLedgerClosed, Event, Fenced, Initialized, Terminated
from mledger.ledgers.background import Background, outcome
from mledger.ledgers.bundles import BrokerOwner
from mledger.ledgers.entries.entry_reader import EntryReader
from mledger.ledgers.entries.open_ledger import Appended, OpenLedger
from mledger.ledgers.ledger_list import LedgerList, next_ledger_if_consumed
from mledger.ledgers.loop_thread import other_thread
from mledger.ledgers.orphans.orphan_cleanup import Claimant
from mledger.ledgers.retention import TopicPolicies
from mledger.ledgers.topic_properties import check_topic_properties
from mledger.ledgers.topic_record import RecordChange
from mledger.ledgers.trim_plan import TrimPlan
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.topics.appender import Appender
from mledger.topics.state import OpenedTopic, TopicState, topic_terminated
from mledger.topics.topic_configuration import TopicConfiguration
from mledger.topics.topic_ledgers import ListListener, TopicLedgers
from mledger.topics.trimmer import Trimmer

log = get_logger(__name__)


class ManagedLedger(TopicConfiguration):
    """One open topic."""

    def __init__(self, opened: OpenedTopic) -> None:
        self.config = opened.config
        self._base_config = opened.base_config
        self._policies = opened.policies
        self._policy_listeners = []
        self._policy_watch = opened.services.policy_watch
        self.trim_lock = asyncio.Lock()
        self._record = opened.record
        self._factory = opened.factory
        self.compacted_ledgers = CompactedLedgers(opened.factory)
        """Creates and deletes its compacted ledgers."""
        self._ownership = opened.ownership
        self._replayer = opened.services.replayer
        self._brokers = opened.services.brokers
        self._owner_nodes = opened.services.owner_nodes
        self._emit = opened.emit
        self._background = Background(self.name)
        self._thread = get_ident()
        self._arrivals: set[asyncio.Future[None]] = set()
        self._stopped = None
        self._loaded: asyncio.Task[None] | None = None
        self._terminating: asyncio.Task[Position] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._abandoning: asyncio.Task[None] | None = None
        self.close_reported = False
        """Whether a caller of `close` has received its outcome; one that was cancelled has not."""
        self._tell_end: Callable[[], object] = lambda: None
        self.on_found: Callable[[], None] = lambda: None
        """Called when there may be entries that failed to be appended and are stored after all."""
        self._ledgers = TopicLedgers(
            opened.record,
            opened.factory,
            opened.ownership,
            opened.ledgers,
            ListListener(
                self.emit,
                self.wake_readers,
                lambda: self.on_found(),
                lambda: self._trimmer.trim_later(),
                self._delete_later,
            ),
            opened.services.now_ms,
        )
        self._appender: Appender | None = None
        cache, self._cache = opened.services.cache, None
        if opened.writer is not None:
            self._cache = None if cache is None else cache.topic()
            self._appender = Appender(
                opened.writer, self._factory, self._ledgers, self.config, opened.services.maintenance, self._cache
            )
        self.reader = EntryReader(
            self._factory, self._current_ledger, lambda: self.ledger_list, self.config, self._cache
        )
        context = CursorContext(
            opened.record,
            opened.services.store,
            opened.factory,
            self.emit,
            self._delete_later,
            opened.services.now_ms,
            opened.services.turns,
        )
        self._dropped = opened.dropped
        policy, maintenance = opened.trim_policy, opened.services.maintenance
        self._trimmer = Trimmer(self, self._ledgers, self._factory, self.reader, policy, self._background, maintenance)
        self._cursors = CursorContainer(self, context, self._background, self._trimmer.trim_later)
        self._non_durable = NonDurableCursors(self, self._cursors.has)
        self._record.on_fenced(self._fenced)

    async def start(self) -> None:
        """List the cursors; in the background recover them, clean up after a crash, and trim."""
        await self._brokers.follow(self.name, self._yield)
        if self._policy_watch is not None:
            self._policy_watch.follow(self.name, self._policies, self._take_policies)
        await self._cursors.list()
        for ledger_id in self._dropped:
            self._delete_later(ledger_id)
        self._loaded = self._background.spawn(self._load(), "loading cursors")

    async def _load(self) -> None:
        await self._cursors.load()
        if self._stopped is not None or self._record.fenced is not None:
            return
        self.emit(Initialized(self.name))
        try:
            await self._replay()
        except MledgerError as error:
            log.warning("replay_unfinished", topic=self.name, error=error)
            again = ask_until_known(self._replay, "replay_unfinished", topic=self.name)
            self._background.spawn(again, "clean-up", endless=True)
        await self._trimmer.read_retention()
        if self.can_trim:
            await self._trimmer.try_trim()

    async def _replay(self) -> None:
        in_hand, on_step = self._factory.in_hand, self._factory.on_step
        await self._replayer.replay(Claimant(self._record, in_hand, on_step, self._named_compacted_ledgers))

    # -- state

    @property
    def state(self) -> TopicState:
        """Whether it is open, terminated, fenced or closed."""
        if self._record.fenced is not None:
            return TopicState.FENCED
        if isinstance(self._stopped, ManagedLedgerClosed):
            return TopicState.CLOSED
        return TopicState.OPEN if self.terminated is None else TopicState.TERMINATED

    @property
    def ledgers_to_start_in(self) -> LedgerList:
        """The list without the ledgers that a trim is removing."""
        dropping = self._trimmer.dropping
        return self.ledger_list.without(dropping) if dropping else self.ledger_list

    @property
    def can_trim(self) -> bool:
        """Whether it is open and every cursor's state is known."""
        return self._stopped is None and self._record.fenced is None and self._cursors.all_recovered

    async def initialized(self) -> None:
        """Wait until every cursor's recovery was tried, and cleanup and first trim are done. Raises what stopped it."""
        if self._loaded is not None:
            await outcome(self._loaded, self._why_stopped)

    # -- writing

    def append(self, batch: Sequence[bytes]) -> "asyncio.Future[Appended]":
        """Append entries in order; the future gives their positions once all are acknowledged (M5).

        Batches appended without waiting are written in the order of the calls. A batch that exceeds
        the ledger's limit is split over two ledgers.

        Raises:
            ManagedLedgerFenced, ManagedLedgerClosed, TopicTerminated: it accepts no more entries.
            EntryTooLarge, ValueError, TypeError: the batch cannot be written.
            RuntimeError: it is called in another thread than that of its event loop.
        """
        if get_ident() != self._thread:
            raise other_thread()
        if self._appender is None:
            raise self._stopped or topic_terminated(self.name)
        return self._appender.append(batch)

    async def add(self, payload: bytes) -> Position:
        """Append one entry; returns its position once it is acknowledged."""
        ((ledger_id, entry_id),) = ((where.ledger_id, where.first_entry) for where in await self.append([payload]))
        return Position(ledger_id, entry_id)

    async def roll_over(self) -> None:
        """Replace the current ledger with a new one, whatever its limits; a no-op if it is empty."""
        if self._appender is not None:
            await self._appender.roll_over()

    # -- trim, terminate, truncate

    def plan_trim(self) -> TrimPlan:
        """What `trim` would do now, under the retention read last (`initialized`); changes nothing."""
        return self._trimmer.plan()

    async def trim(self, *, last: int | None = None) -> TrimPlan:
        """Move cursors off consumed ledgers and delete ledgers; returns the plan carried out (R9, R10).

        Ledgers that policies retain stay (M10), and those above the ledger `last`. While a cursor's
        state is unknown nothing is deleted, and the plan has no deletions.

        Raises:
            PoliciesUnavailable, RetentionUnknown: the policies, or the brokers' default, are not known.
        """
        self._check_open()
        await self.initialized()
        if not self.can_trim:
            return dataclasses.replace(
                self._trimmer.plan(), moves=(), deletions=(), kept_because=self._cursors.why_not_known
            )
        return await self._trimmer.trim(last=last)

    async def truncate(self, *, through: Position | None = None) -> TrimPlan:
        """Acknowledge everything on every cursor and delete every ledger but the current one (M8).

        Entries appended meanwhile stay, unacknowledged, and those after `through`.

        Raises:
            CursorRecoveryFailed, RecordError: a cursor's state cannot be read: nothing was changed.
        """
        self._check_open()
        await self.initialized()
        through = self.last_confirmed if through is None else min(through, self.last_confirmed)
        await self._record.verify()  # where nothing is to be written, nothing else shows a later owner
        await self._cursors.clear(through)
        return await self._trimmer.trim(through=through)

    async def terminate(self) -> Position:
        """Accept no more entries, permanently; returns the position where readers end (M8).

        A second call returns the same position. Cancelling the caller does not cancel the
        termination.
        """
        if self.terminated is not None and self._appender is None:
            return self.terminated
        self._check_open()
        if self._terminating is None or self._terminating.done():
            self._terminating = self._background.spawn(self._terminate(), "termination")
        return await outcome(self._terminating, self._why_stopped)

    async def _terminate(self) -> Position:
        assert self._appender is not None
        try:
            terminated = await self._ledgers.terminate(await self._appender.stop(topic_terminated(self.name)))
        except BaseException:
            self._appender.resume()
            raise
        self._appender = None
        self.emit(Terminated(self.name, terminated))
        self.wake_readers()
        self._trimmer.trim_later()
        return terminated

    def own_properties(self, properties: Callable[[], Mapping[str, str]]) -> None:
        """Write these properties too whenever a new ledger is listed: its listing lets earlier ones be trimmed."""
        self._ledgers.own_properties = properties

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        """Replace the topic's properties, durably. Raises InvalidProperties."""
        self._check_open()
        check_topic_properties(properties)
        wanted = tuple(properties.items())
        await self._record.check_same()
        self._factory.on_step("set properties")
        own = self._ledgers.with_own_properties
        await self._record.update(lambda info: RecordChange(own(replace(info, properties=wanted))))

    def session_renewed(self) -> None:
        """Reclaim the owner node in a new session of the metadata store, or be fenced (M7)."""
        if self._stopped is None and self._record.fenced is None:
            self._record.doubt()
            self._background.spawn(self._ownership.reclaim(self._record), "owner node", endless=True)

    # -- ending

    async def close(self) -> None:
        """Close cleanly: acknowledge accepted entries, persist cursors (C3), close the current ledger.

        Raises the first error after everything else is closed. A second call waits for the first
        and raises the same error. Cancelling the caller does not cancel the close.
        """
        if self._closing is None:
            if self._stopped is not None:
                await self.closed()
                return
            closed = ManagedLedgerClosed(f"{self.name} is closed; open it again")
            self._stopped = closed
            self._trimmer.stop()
            self._closing = asyncio.get_running_loop().create_task(self._close(closed))
        await self.closed()
        self.close_reported = True
        self._tell_end()
        if not self._closing.cancelled():
            self._closing.result()

    def on_end(self, listener: Callable[[], object]) -> None:
        """Call `listener` once it is closed and a caller of `close` was told, or it is abandoned."""
        self._tell_end = listener

    async def closed(self) -> None:
        """Wait for a close or abandonment that is under way, whatever its outcome."""
        if ending := [task for task in (self._closing, self._abandoning) if task is not None]:
            await asyncio.wait(ending)

    async def _close(self, closed: ManagedLedgerClosed) -> None:
        errors: list[Exception] = []
        try:
            if self._record.fenced is None:
                if self._terminating is not None:
                    await asyncio.wait([self._terminating])
                await self._cursors.stop_recovering()
                try:
                    await self._stop_writing(closed)
                except Exception as error:
                    errors.append(error)
                try:
                    await self._cursors.close()
                except Exception as error:
                    errors.append(error)
        finally:
            await self._let_go()
        self.emit(Closed(self.name))
        if errors:
            raise errors[0]

    async def abandon(self) -> None:
        """Stop without closing anything, as a crash would, but remove the owner node.

        The next open recovers the topic. Cancelling the caller does not cancel that.
        """
        self._stopped = self._stopped or ManagedLedgerClosed(f"{self.name} was abandoned; open it again")
        self._trimmer.stop()
        if self._closing is not None:
            self._closing.cancel()
        self._background.stop()  # at once, as a crash
        if self._abandoning is None:
            self._abandoning = asyncio.get_running_loop().create_task(self._abandon())
        await asyncio.shield(self._abandoning)

    async def _abandon(self) -> None:
        await self._background.cancel()
        if self._closing is not None:
            await asyncio.wait([self._closing])
        await self._let_go()
        self._tell_end()

    async def _stop_writing(self, closed: ManagedLedgerClosed) -> None:
        if self._appender is not None:
            ended = await self._appender.stop(closed)
            self.emit(CurrentLedgerClosed(self.name, ended.ledger_id, ended.end.entries, ended.end.size))

    async def _let_go(self) -> None:
        """Stop all tasks; write nothing except the release of the owner node."""
        self._brokers.forget(self.name, self._yield)
        if self._policy_watch is not None:
            self._policy_watch.forget(self.name, self._take_policies)
        await self._background.finish() if self._record.fenced is None else await self._background.cancel()
        await self._cursors.abandon(self._why_stopped())  # before the writer goes of which they read
        await self._non_durable.abandon()
        if self._appender is not None:
            await self._appender.abandon(self._why_stopped())
        if self._cache is not None:
            self._cache.clear()
        self.wake_readers()
        await self._owner_nodes.release(self._ownership)

    @property
    def current_ledger_created_ms(self) -> int | None:
        """When the ledger that is written to was created; None if there is none."""
        current = self._current_ledger()
        return None if current is None else current.created_ms

    @property
    def end_known(self) -> bool:
        """Whether its list has all that is stored; not while a ledger in which an append failed is to be ended."""
        current = self._current_ledger()
        return self._appender is None or (current is not None and current.failure is None)

    def _current_ledger(self) -> OpenLedger | None:
        return None if self._appender is None else self._appender.current

    def _why_stopped(self) -> MledgerError:
        return self._record.fenced or self._stopped or topic_terminated(self.name)

    def _fenced(self, error: ManagedLedgerFenced) -> None:
        self.emit(Fenced(self.name, str(error)))
        self._trimmer.stop()
        if self._appender is not None:
            self._appender.fence(error)
        self._cursors.fence(error)
        self._non_durable.fence(error)
        if self._cache is not None:
            self._cache.clear()
        self.wake_readers()
        # it stops others from opening the topic as long as this process lives, whether or not its user closes it
        self._background.spawn(self._owner_nodes.release(self._ownership), "release of the owner node")

    def _take_policies(self, policies: TopicPolicies) -> None:
        if self._stopped is None and self._record.fenced is None:
            self.apply_policies(policies)

    def _yield(self, broker: BrokerOwner) -> None:
        """Stop, so that the broker can load the topic (M9)."""
        self._record.fence(str(broker))

    # -- for its own parts

    def emit(self, event: Event) -> None:
        """Pass an event to the listener."""
        self._emit(event)

    def next_arrival(self) -> "asyncio.Future[None]":
        """A future that is done when there may be something new to read."""
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals.add(arrival)
        arrival.add_done_callback(self._arrivals.discard)  # a cancelled waiter is forgotten
        return arrival

    def wake_readers(self) -> None:
        """Make every waiting read check again (C10)."""
        for arrival in list(self._arrivals):
            if not arrival.done():
                arrival.set_result(None)

    def mark_delete_moved(self, old: Position, new: Position) -> None:
        """Trim if a cursor's durable mark-delete has left a ledger or consumed one."""
        if old.ledger_id != new.ledger_id or next_ledger_if_consumed(self.ledger_list, new) is not None:
            self._trimmer.trim_later()

    def _delete_later(self, ledger_id: int) -> None:
        self._background.spawn(self._delete(ledger_id), f"deletion of ledger {ledger_id}")

    async def _delete(self, ledger_id: int) -> None:
        try:
            await self._factory.delete(ledger_id)
        except MledgerError:
            self._trimmer.delete_later(ledger_id)
            raise
