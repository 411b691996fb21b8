"""The cursors of an open topic: recovery, opening, creation and deletion (M3, R1 to R8).

Recovery starts after the topic is open, a bounded number of cursors at a time. Opening a cursor
waits for that cursor only. If a cursor cannot be recovered now, recovery is retried until it
succeeds, and at each open of the cursor (R5); meanwhile the topic works without it, and nothing is
trimmed. A record that does not parse is kept, reported, and read again at each retry, since an
operator may have repaired it (M12).
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from itertools import chain, repeat
from typing import Any

from msgspec import Struct

from mledger.cursors.creations import CursorCreations, NewCursor
from mledger.cursors.cursor import Cursor, CursorStatus
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence.state_reader import find_state
from mledger.cursors.persistence.store import CursorContext, CursorStore
from mledger.cursors.persistence.unknown_outcomes import ask_until_known
from mledger.cursors.recovery import plan_cursor_recovery
from mledger.cursors.usable_cursor import act_on_usable
from mledger.errors import CursorExists, CursorNotFound, ManagedLedgerClosed, ManagedLedgerFenced
from mledger.events import (
    CursorRecovered,
    CursorRecoveryDelayed,
    LoadingCursor,
    RecoveringFromLedger,
    SubscriptionOpened,
)
from mledger.ledgers.background import Background, outcome
from mledger.metastore.errors import MledgerError, NodeNotFound, RecordError
from mledger.metastore.records.codec import decode_managed_cursor_info
from mledger.metastore.records.paths import cursor_names, deletion_path
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.processes.gc_pause import collector_paused
from mledger.metastore.store import Node
from mledger.metastore.write_verification import is_there

log = get_logger(__name__)

AT_ONCE = 200
MANY_CURSORS = 300  # while so many are recovered, the garbage collector takes a quarter of the time, and finds nothing
RETRY_DELAYS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 60.0)
MOVED_BY = {"R4", "R6", "R7"}


class _Found(Struct, frozen=True):
    """A cursor's znode as listed at open."""

    path: str
    node: Node


class CursorContainer:
    """Every durable cursor of one topic, recovered or not."""

    def __init__(
        self,
        host: CursorHost,
        context: CursorContext,
        background: Background,
        recovered_late: Callable[[], None],
    ) -> None:
        self._host = host
        self._context = context
        self._background = background
        self._recovered_late = recovered_late
        self._found: dict[str, _Found] = {}
        self._attempts: dict[str, asyncio.Task[Cursor]] = {}
        self._deleting: dict[str, asyncio.Future[None]] = {}  # done when the deletion ends
        self._deleted_perhaps: dict[str, asyncio.Task[None]] = {}  # deletions of unknown outcome, and who asks for it
        self._settling = asyncio.Lock()
        self._retries: set[asyncio.Task[None]] = set()
        self._unreadable: set[str] = set()  # cursors whose records do not parse
        self._stopping = False
        self._abandoned: MledgerError | None = None
        self.open: dict[str, Cursor] = {}
        self._creations = CursorCreations(host, context, background, self._adopt, recovered_late)

    @property
    def new_positions(self) -> dict[str, Position]:
        """Positions of cursors whose creation is under way or of unknown outcome."""
        return self._creations.positions

    @property
    def all_recovered(self) -> bool:
        """Whether every cursor's state is known; until then nothing can be trimmed."""
        return self.open.keys() >= self._found.keys()

    @property
    def why_not_known(self) -> str:
        """The cursors whose states are not known, in one line; for when `all_recovered` is false."""
        unknown = sorted(self._found.keys() - self.open.keys())
        damaged = [name for name in unknown if name in self._unreadable]
        text = f"the state of {', '.join(unknown)} is not known yet"
        return text + (f"; repair {', '.join(damaged)} with `mledger cursors repair`" if damaged else "")

    @property
    def names(self) -> list[str]:
        """Names of all cursors, recovered or not, sorted."""
        return sorted(self._found.keys() | self.open.keys())

    def has(self, name: str) -> bool:
        """Whether the topic has the cursor or is creating it."""
        return name in self.open or name in self._found or name in self._attempts

    # -- recovery

    async def load(self) -> None:
        """Recover all cursors; returns when each has been tried once, whatever the outcome."""
        waiting = deque(sorted(self._found))
        with collector_paused(len(waiting), MANY_CURSORS):
            await asyncio.gather(*(self._work(waiting) for _ in range(min(AT_ONCE, len(waiting)))))

    async def list(self) -> None:
        """Read every cursor's record; call this before anything else."""
        path = self._context.record.path
        names = cursor_names(await self._context.store.children(path))
        paths = [f"{path}/{child}" for child in names]
        nodes = await self._context.store.get_many(paths)
        for name, where, node in zip(names.values(), paths, nodes, strict=True):
            if node is not None:
                self._found[name] = _Found(where, node)

    async def _work(self, waiting: deque[str]) -> None:
        while waiting and not self._stopping:
            name = waiting.popleft()
            if self._is_deleted(name):
                continue
            try:
                await self._recover(name)
            except ManagedLedgerFenced:
                return
            except MledgerError as error:
                self._delayed(name, error)
                retry = self._background.spawn(self._retry(name), f"recovery of cursor {name}")
                self._retries.add(retry)
                retry.add_done_callback(self._retries.discard)

    async def _retry(self, name: str) -> None:
        for delay in chain(RETRY_DELAYS_S, repeat(RETRY_DELAYS_S[-1])):
            await asyncio.sleep(delay)
            if not self._is_deleted(name):
                try:
                    await self._recover(name)
                except (ManagedLedgerFenced, CursorNotFound):
                    return
                except MledgerError as error:
                    self._delayed(name, error)
                    continue
            self._recovered_late()
            return

    def _delayed(self, name: str, error: MledgerError) -> None:
        self._host.emit(CursorRecoveryDelayed(self._host.name, name, str(error)))
        if name in self._unreadable:
            log.error(
                "cursor_record_unreadable",
                topic=self._host.name,
                cursor=name,
                error=error,
                hint="nothing is trimmed until it is repaired with `mledger cursors repair` or deleted",
            )
        else:
            log.warning("cursor_not_recovered", topic=self._host.name, cursor=name, error=error)

    def _is_deleted(self, name: str) -> bool:
        """Whether the cursor is being deleted, or was."""
        return name in self._deleting or (name not in self.open and name not in self._found)

    async def _recover(self, name: str) -> Cursor:
        """Recover the cursor, or join an attempt under way. A closed cursor is read again."""
        cursor = self.open.get(name)
        if cursor is None:
            return await self._attempt(name, lambda: self._recover_found(name))
        if cursor.status is not CursorStatus.CLOSED:
            return cursor
        return await self._attempt(name, lambda: self._recover_closed(cursor))

    async def _recover_found(self, name: str) -> Cursor:
        found = self._found[name]
        if name in self._unreadable:
            try:
                found = self._found[name] = _Found(found.path, await self._context.store.get(found.path))
            except NodeNotFound:
                self._forget(name)
                self._recovered_late()
                raise CursorNotFound(f"{self._host.name}: the unreadable record of cursor {name} was deleted") from None
        try:
            cursor = await self._recover_now(name, found)
        except RecordError:
            self._unreadable.add(name)
            raise
        self._unreadable.discard(name)
        return cursor

    async def _recover_closed(self, cursor: Cursor) -> Cursor:
        return await self._recover_now(cursor.name, await self._read_closed(cursor))

    async def _read_closed(self, cursor: Cursor) -> _Found:
        await cursor.closed()
        try:
            return _Found(cursor.path, await self._context.store.get(cursor.path))
        except NodeNotFound:
            raise self._context.record.fence(f"the record of cursor {cursor.name} was deleted") from None

    async def _attempt(self, name: str, make: Callable[[], Coroutine[Any, Any, Cursor]]) -> Cursor:
        task = self._attempts.get(name)
        if self._abandoned is not None:
            raise self._why_stopped()
        if task is None:
            task = asyncio.get_running_loop().create_task(make())
            self._attempts[name] = task
            task.add_done_callback(lambda done: self._ended(name, done))
        return await outcome(task, self._why_stopped)

    def _why_stopped(self) -> MledgerError:
        closed = ManagedLedgerClosed(f"{self._host.name} is closed; open it again")
        return self._context.record.fenced or self._abandoned or closed

    def _ended(self, name: str, task: "asyncio.Task[Cursor]") -> None:
        del self._attempts[name]
        if not task.cancelled() and task.exception() is None:
            self._adopt(task.result())

    async def _recover_now(self, name: str, found: _Found) -> Cursor:
        self._context.record.check()  # opening its ledger fences it, and it may be another owner's
        topic = self._host.name
        self._host.emit(LoadingCursor(topic, name))
        record = decode_managed_cursor_info(found.node.data, found.path).value
        finding = None
        if record.cursors_ledger_id != NO_CURSOR_LEDGER:
            self._host.emit(RecoveringFromLedger(topic, name, record.cursors_ledger_id))
            factory = self._context.factory
            finding = await find_state(factory.open_state, factory.sync, record.cursors_ledger_id)
        plan = plan_cursor_recovery(name, record, finding, self._host.ledger_list)
        stored = name, found.path, self._context, record, found.node.version
        store = CursorStore(*stored, keep_ledger=plan.keeps_cursor_ledger, foreign_ledger=plan.names_foreign)
        cursor = Cursor(self._host, store, plan)
        if plan.rule == "R4":
            log.warning("cursor_ledger_lost", topic=topic, cursor=name, reason=plan.warnings[0])
        if MOVED_BY.intersection(plan.rules):
            await cursor.persist_recovered()
        self._host.emit(CursorRecovered(topic, name, plan.mark_delete, plan.rule, plan.backlog, plan.warnings))
        return cursor

    # -- opening, creation, deletion

    async def open_cursor(self, name: str, new: NewCursor, *, create: bool, exclusive: bool) -> Cursor:
        """Open the cursor, or create it as `new` says (R1); its read position is after mark-delete.

        Raises CursorRecoveryFailed (R5), CursorNotFound without `create`, CursorExists with `exclusive`.
        """
        await self._settle(name)
        known = self.has(name)
        if known and exclusive:
            raise CursorExists(f"{self._host.name} has a cursor {name} already")
        if not known and not create:
            raise self._no_cursor(name)
        if name in self.open or name in self._found:
            cursor = await self._recover(name)
        else:
            cursor = await self._attempt(name, lambda: self._creations.create(name, new))
        cursor.check()
        self._host.emit(SubscriptionOpened(self._host.name, name))
        cursor.rewind()
        return cursor

    def _no_cursor(self, name: str) -> CursorNotFound:
        return CursorNotFound(f"{self._host.name} has no cursor {name}; its cursors: {', '.join(self.names) or 'none'}")

    def _adopt(self, cursor: Cursor) -> None:
        self.open[cursor.name] = cursor
        if self._context.record.fenced is not None:  # `fence` did not reach it
            cursor.fence(self._context.record.fenced)

    async def delete_cursor(self, name: str, attached: Sequence[int] = ()) -> None:
        """Delete the cursor, its record, its ledger and the ledgers `attached`. Raises CursorNotFound."""
        if await self._settle(name):
            return
        self._deleting[name] = asyncio.get_running_loop().create_future()
        try:
            await self._delete(name, attached)
        except (ManagedLedgerFenced, CursorNotFound, RecordError):  # of no or an unreadable record nothing was sent
            raise
        except BaseException:
            self._ask_for_deletion(name)
            raise
        finally:
            self._deleting.pop(name).set_result(None)
        self._forget(name)

    async def _settle(self, name: str) -> bool:
        """Wait for a deletion under way, and find out the outcome of an earlier deletion or creation.

        Returns whether a deletion of unknown outcome was carried out.
        """
        gone = False
        while True:
            while deletion := self._deleting.get(name):
                await asyncio.wait([deletion])
            gone = await self._settle_deletion(name) or gone
            await self._creations.settle(name)
            if name not in self._deleting and name not in self._deleted_perhaps:
                return gone and name not in self.open

    async def _delete(self, name: str, attached: Sequence[int]) -> None:
        if attempt := self._attempts.get(name):  # writes of the recovery would conflict with the deletion
            await asyncio.wait([attempt])
        cursor = self.open.get(name)
        if cursor is None:
            if name not in self._found:  # perhaps the attempt found that an operator deleted it
                raise self._no_cursor(name)
            await self._delete_unrecovered(name, self._found[name], attached)
        elif cursor.status is CursorStatus.CLOSED:
            attached = (*attached, *cursor.made_ledgers())  # as of a deletion that failed
            found = await self._read_closed(cursor)
            await self._delete_unrecovered(name, found, attached, cursor.named_compacted())
        else:
            await cursor.remove(attached)

    def _ask_for_deletion(self, name: str) -> None:
        """Find out whether a deletion that failed was carried out (M7); a close leaves that to the next owner."""

        async def settle() -> None:
            if await self._settle_deletion(name):
                self._recovered_late()

        if not self._stopping and self._abandoned is None:
            asking = ask_until_known(settle, "cursor_deletion_unknown", topic=self._host.name, cursor=name)
            self._deleted_perhaps[name] = self._background.spawn(asking, f"deletion of cursor {name}")

    async def _settle_deletion(self, name: str) -> bool:
        """Find out whether a deletion of unknown outcome was carried out."""
        async with self._settling:
            if name not in self._deleted_perhaps:
                return False
            cursor = self.open.get(name)
            path = self._found[name].path if cursor is None else cursor.path
            gone = not await is_there(self._context.store, path)
            if (asking := self._deleted_perhaps.pop(name, None)) is None:  # a recovery found meanwhile that it is gone
                return gone
            if asking is not asyncio.current_task():
                asking.cancel()
            if gone:
                ledger_id = self._ledger_of(self._found[name]) if cursor is None else cursor.cursor_ledger
                self._forget(name)
                if ledger_id != NO_CURSOR_LEDGER and await is_there(self._context.store, deletion_path(ledger_id)):
                    self._context.delete_later(ledger_id)
            return gone

    def _ledger_of(self, found: _Found) -> int:
        return decode_managed_cursor_info(found.node.data, found.path).value.cursors_ledger_id

    def _forget(self, name: str) -> None:
        self.open.pop(name, None)
        self._found.pop(name, None)
        self._unreadable.discard(name)
        if asking := self._deleted_perhaps.pop(name, None):
            asking.cancel()

    async def _delete_unrecovered(self, name: str, found: _Found, *named: Collection[int]) -> None:
        record = decode_managed_cursor_info(found.node.data, found.path).value
        await CursorStore(name, found.path, self._context, record, found.node.version).remove(*named)

    async def usable(self, name: str) -> Cursor:
        """The cursor as it stands, recovered if it is not, or was closed; unlike `open_cursor`, it is not set back.

        Raises CursorRecoveryFailed (R5), CursorNotFound, and ManagedLedgerClosed if the topic closes.
        """
        await self._settle(name)
        if self._stopping:
            raise self._why_stopped()
        if name not in self.open and name not in self._found:
            raise CursorNotFound(f"{self._host.name} has no cursor {name}: it was deleted")
        return await self._recover(name)

    async def clear(self, through: Position) -> None:
        """Acknowledge everything up to `through` on every cursor; those that are not open are recovered first.

        Raises CursorRecoveryFailed (R5) and RecordError (M12) if that fails for one: nothing is acknowledged then.
        """
        names = self.names

        async def act_on(name: str, act: Callable[[Cursor], Awaitable[object]]) -> None:
            with contextlib.suppress(CursorNotFound):
                await act_on_usable(lambda: self.usable(name), act)

        await asyncio.gather(*(act_on(name, lambda _: asyncio.sleep(0)) for name in names))
        await asyncio.gather(*(act_on(name, lambda cursor: cursor.clear_backlog(through)) for name in names))

    # -- ending

    async def stop_recovering(self) -> None:
        """Start no more recoveries; returns when those under way have ended."""
        self._stopping = True
        for retry in list(self._retries):
            retry.cancel()
        if under_way := [*self._retries, *self._attempts.values()]:
            await asyncio.wait(under_way)
        await self._stop_asking()

    async def _stop_asking(self) -> None:
        asking = list(self._deleted_perhaps.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        await self._creations.stop()

    async def close(self) -> None:
        """Close every recovered cursor cleanly (C3); raises the first error after all were tried."""
        waiting = deque(self.open.values())
        errors: list[MledgerError] = []

        async def work() -> None:
            while waiting:
                try:
                    await waiting.popleft().close()
                except MledgerError as error:
                    errors.append(error)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(waiting)))))
        if errors:
            raise errors[0]

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Fence every cursor: another owner has the topic (M7)."""
        for cursor in self.open.values():
            cursor.fence(error)

    async def abandon(self, why: MledgerError) -> None:
        """Release all cursor ledgers without writing anything; who waits for a cursor gets `why`."""
        self._abandoned = why
        if attempts := list(self._attempts.values()):
            for task in attempts:
                task.cancel()
            await asyncio.wait(attempts)
        await self._stop_asking()
        for cursor in list(self.open.values()):  # a deletion under way may end meanwhile
            await cursor.abandon()
