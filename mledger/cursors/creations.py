"""Cursors on their way into the metadata store (R1): each holds its ledgers from the moment its place is decided.

Where the answer to a creation was lost the place stays held until the store has said what is there (M7): the cursor is
taken up, or there is none and the place is free. It is asked by and by, and whenever somebody wants the cursor.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mledger.cursors.cursor import Cursor
from mledger.cursors.host import CursorHost
from mledger.cursors.recovery import CursorRecoveryPlan, Start, plan_cursor_recovery
from mledger.cursors.store import CursorContext, CursorState, CursorStore
from mledger.errors import ManagedLedgerFenced
from mledger.ledgers.background import Background
from mledger.metastore.errors import MledgerError, StoreUnavailable
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.logs import get_logger

log = get_logger(__name__)

ASK_FIRST_S = 0.5
ASK_LAST_S = 30.0


@dataclass(frozen=True, slots=True)
class _NewCursor:
    store: CursorStore
    plan: CursorRecoveryPlan


class CursorCreations:
    """The new cursors of one topic; `adopt` is given each that is there, `released` is called when a place is free."""

    def __init__(
        self,
        host: CursorHost,
        context: CursorContext,
        background: Background,
        adopt: Callable[[Cursor], None],
        released: Callable[[], None],
    ) -> None:
        self._host = host
        self._context = context
        self._background = background
        self._adopt = adopt
        self._released = released
        self._new: dict[str, _NewCursor] = {}
        self._unheard: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._stopped = False

    @property
    def positions(self) -> dict[str, Position]:
        """Where the new cursors stand, those included of which it is not known whether they are there."""
        return {name: new.plan.mark_delete for name, new in self._new.items()}

    async def create(self, name: str, initial: Start, properties: Mapping[str, str] | None) -> Cursor:
        """Make a cursor that is not there (R1); what `settle` must have said.

        Raises StoreUnavailable when it is not known whether it was made.
        """
        plan = plan_cursor_recovery(name, None, None, self._host.ledgers_to_start_in, start=initial)
        plan = replace(plan, cursor_properties=tuple((properties or {}).items()))
        state = CursorState(plan.acks.copy(), plan.properties, plan.cursor_properties)
        new = self._new[name] = _NewCursor(CursorStore.new(name, self._context, state), plan)
        try:
            await new.store.create()
        except (StoreUnavailable, asyncio.CancelledError):
            if not self._stopped:
                self._unheard[name] = self._background.spawn(self._ask(name), f"creation of cursor {name}")
            raise
        except BaseException:
            del self._new[name]
            raise
        return self._made(name)

    async def settle(self, name: str) -> None:
        """Find out what came of a creation whose answer was lost; nothing to do where there is none (M7).

        Raises StoreUnavailable, and ManagedLedgerFenced where another's record is there.
        """
        async with self._one_at_a_time:
            if name not in self._unheard:
                return
            there = await self._new[name].store.was_created()
            asking = self._unheard.pop(name)
            if asking is not asyncio.current_task():
                asking.cancel()
            if there:
                self._made(name)
            else:
                del self._new[name]
                self._released()

    async def stop(self) -> None:
        """Ask no more: the next owner lists what is there."""
        self._stopped = True
        asking = list(self._unheard.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def _made(self, name: str) -> Cursor:
        new = self._new[name]
        cursor = Cursor(self._host, new.store, new.plan)
        self._adopt(cursor)
        del self._new[name]
        return cursor

    async def _ask(self, name: str) -> None:
        delay = ASK_FIRST_S
        while True:
            await asyncio.sleep(delay)
            try:
                await self.settle(name)
                return
            except ManagedLedgerFenced:
                return
            except MledgerError as error:
                log.warning("cursor_creation_unknown", topic=self._host.name, cursor=name, error=error)
            delay = min(ASK_LAST_S, 2 * delay)
