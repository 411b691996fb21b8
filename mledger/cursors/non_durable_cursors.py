"""The cursors of an open topic that live in memory only (C9).

They are not listed and leave nothing behind. Trimming does not wait for them: one that lags moves
to the first ledger that is left.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from mledger.cursors.cursor import Cursor
from mledger.cursors.host import CursorHost
from mledger.cursors.positions import next_valid
from mledger.cursors.recovery import CursorRecoveryPlan, Start, plan_cursor_recovery
from mledger.errors import CursorExists, ManagedLedgerFenced
from mledger.metastore.records.position import Position


class NonDurableCursor(Cursor):
    """One user's handle of a cursor in memory. Handles share all but whether their user has closed them."""

    __slots__ = ("_given_up",)

    def __init__(self, host: CursorHost, plan: CursorRecoveryPlan, released: Callable[[], None]) -> None:
        super().__init__(host, None, plan)
        self.users = 1
        self._released = released
        self._given_up = False

    def for_another_user(self) -> "NonDurableCursor":
        """A handle of the same cursor for one more user."""
        handle = object.__new__(NonDurableCursor)
        handle.__dict__ = self.__dict__  # a change by one is a change of all
        handle._given_up = False
        self.users += 1
        return handle

    async def close(self) -> None:
        """Give this handle up; the cursor ends with its last user. A second call takes nobody else's handle."""
        if not self._given_up:
            self._given_up = True
            self.users -= 1
            if not self.users:
                self._released()
        if not self.users:
            await super().close()


class NonDurableCursors:
    """Opens them by name; `is_durable` says whether a durable cursor has a name."""

    def __init__(self, host: CursorHost, is_durable: Callable[[str], bool]) -> None:
        self._host = host
        self._is_durable = is_durable
        self.open: dict[str, NonDurableCursor] = {}

    def open_cursor(self, name: str, initial: Start) -> NonDurableCursor:
        """A handle of the open cursor `name`, or of a new one that reads from `initial` on.

        Raises:
            CursorExists: a durable cursor has the name.
        """
        if (found := self.open.get(name)) is not None:
            return found.for_another_user()
        ledgers = self._host.ledgers_to_start_in
        if isinstance(initial, Position) and initial > ledgers.last_confirmed:
            initial = "latest"
        return self._open(plan_cursor_recovery(name, None, None, ledgers, start=initial))

    def duplicate(self, cursor: Cursor, name: str) -> NonDurableCursor:
        """A new cursor with the acknowledgements of `cursor`, which reads from after its mark-delete.

        Raises:
            CursorExists: a cursor has the name.
        """
        if name in self.open:
            raise CursorExists(f"{self._host.name} has a cursor {name} already")
        ledgers = self._host.ledger_list
        plan = plan_cursor_recovery(name, None, None, ledgers, start=cursor.mark_delete)
        return self._open(replace(plan, acks=cursor.acks.copy(), read_position=next_valid(ledgers, cursor.mark_delete)))

    def _open(self, plan: CursorRecoveryPlan) -> NonDurableCursor:
        name = plan.cursor
        if self._is_durable(name):
            raise CursorExists(f"{self._host.name} has a durable cursor {name}: choose another name")
        cursor = self.open[name] = NonDurableCursor(self._host, plan, lambda: self._forget(cursor))
        return cursor

    def _forget(self, cursor: NonDurableCursor) -> None:
        if self.open.get(cursor.name) is cursor:
            del self.open[cursor.name]

    def fence(self, error: ManagedLedgerFenced) -> None:
        """Stop all of them: another owner has the topic (M7)."""
        for cursor in self.open.values():
            cursor.fence(error)
        self.open.clear()

    async def abandon(self) -> None:
        """End all of them, whoever uses them."""
        cursors, self.open = list(self.open.values()), {}
        if cursors:
            await asyncio.gather(*(cursor.abandon() for cursor in cursors))
