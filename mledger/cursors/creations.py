"""Cursors being created in the metadata store (R1): each holds its ledgers once its position is chosen.

If the response to a creation is lost, the cursor holds its ledgers until the outcome is known (M7):
it was created, or it was not and the ledgers are released. The store is asked periodically, and
whenever a caller wants the cursor.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from mledger.cursors.compaction import COMPACTION
from mledger.cursors.cursor import Cursor
from mledger.cursors.host import CursorHost
from mledger.cursors.persistence.store import CursorContext, CursorState, CursorStore
from mledger.cursors.persistence.unknown_outcomes import ask_until_known
from mledger.cursors.recovery import CursorRecoveryPlan, Start, plan_cursor_recovery
from mledger.ledgers.background import Background
from mledger.metastore.errors import StoreUnavailable
from mledger.metastore.records.position import Position


class NewCursor(Struct, frozen=True):
    """Where a cursor begins if it is new, its own properties, and those of its first position."""

    initial: Start = "earliest"
    properties: Mapping[str, str] | None = None
    position_properties: Mapping[str, int] | None = None


class _Creation(Struct, frozen=True):
    store: CursorStore
    plan: CursorRecoveryPlan


class CursorCreations:
    """The new cursors of one topic; `adopt` receives each created one, `released` reports a failed one."""

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
        self._new: dict[str, _Creation] = {}
        self._uncertain: dict[str, asyncio.Task[None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._stopped = False

    @property
    def positions(self) -> dict[str, Position]:
        """The positions of the new cursors, including those whose creation has an unknown outcome."""
        return {name: new.plan.mark_delete for name, new in self._new.items()}

    async def create(self, name: str, wanted: NewCursor) -> Cursor:
        """Create a cursor that does not exist (R1); call `settle` first.

        Compaction's begins before the first entry, whatever `initial` is: nothing is compacted yet (C7).

        Raises StoreUnavailable if the outcome is unknown.
        """
        start = "earliest" if name == COMPACTION else wanted.initial
        plan = plan_cursor_recovery(name, None, None, self._host.ledgers_to_start_in, start=start)
        own, of_position = wanted.properties or {}, wanted.position_properties or {}
        plan = replace(plan, properties=tuple(of_position.items()), cursor_properties=tuple(own.items()))
        state = CursorState(plan.acks.copy(), plan.properties, plan.cursor_properties)
        new = self._new[name] = _Creation(CursorStore.new(name, self._context, state), plan)
        try:
            await new.store.create()
        except (StoreUnavailable, asyncio.CancelledError):
            if not self._stopped:
                asking = ask_until_known(
                    lambda: self.settle(name), "cursor_creation_unknown", topic=self._host.name, cursor=name
                )
                self._uncertain[name] = self._background.spawn(asking, f"creation of cursor {name}")
            raise
        except BaseException:
            del self._new[name]
            raise
        return self._made(name)

    async def settle(self, name: str) -> None:
        """Find out the outcome of a creation whose response was lost; else a no-op (M7).

        Raises StoreUnavailable, and ManagedLedgerFenced if another owner created the record.
        """
        async with self._one_at_a_time:
            if name not in self._uncertain:
                return
            there = await self._new[name].store.was_created()
            asking = self._uncertain.pop(name)
            if asking is not asyncio.current_task():
                asking.cancel()
            if there:
                self._made(name)
            else:
                del self._new[name]
                self._released()

    async def stop(self) -> None:
        """Stop asking the store: the next owner lists the cursors that exist."""
        self._stopped = True
        asking = list(self._uncertain.values())
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
