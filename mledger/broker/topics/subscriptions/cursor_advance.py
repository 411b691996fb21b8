"""What a topic counts of the cursor of a subscription, whether that has consumers or not.

As in Pulsar the figures begin when the topic is opened here. Times are milliseconds since 1970, 0 for never.
"""

from collections.abc import Awaitable
from weakref import WeakKeyDictionary

from mledger.broker.topics.client_rates import SampledRates
from mledger.cursors.cursor import Cursor
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import wall_clock_ms


class CursorAdvance:
    """What expired on one cursor, and when its mark-delete position last moved on."""

    __slots__ = ("advanced_ms", "expired", "expiry_ms", "rates")

    def __init__(self) -> None:
        self.expired = 0
        """How many entries expired."""
        self.expiry_ms = 0
        """When entries that outlived a time were last looked for."""
        self.advanced_ms = 0
        self.rates = SampledRates(1)
        """How many entries expired a second, between the last two times that some might."""

    def passed(self, cursor: Cursor, before: Position) -> None:
        """Something was acknowledged; the mark-delete position was `before`."""
        if cursor.mark_delete != before:
            self.advanced_ms = wall_clock_ms()

    async def expire_before(self, cursor: Cursor, time_ms: int) -> int:
        """Expire what was published before that time, as `Cursor.expire_before`, and count it."""
        self.expiry_ms = wall_clock_ms()
        return await self._counted(cursor, cursor.expire_before(time_ms))

    async def expire_through(self, cursor: Cursor, position: Position) -> int:
        """Expire what lies up to `position`, as `Cursor.expire_through`, and count it."""
        return await self._counted(cursor, cursor.expire_through(position))

    async def _counted(self, cursor: Cursor, expiry: Awaitable[int]) -> int:
        before = cursor.mark_delete
        try:
            expired = await expiry
            self.expired += expired
        finally:
            self.rates.sample((self.expired,))
            self.passed(cursor, before)
        return expired


class CursorAdvances:
    """The figures of a topic's cursors; those of a cursor go with it."""

    def __init__(self) -> None:
        self._by_cursor = WeakKeyDictionary[Cursor, CursorAdvance]()

    def of(self, cursor: Cursor) -> CursorAdvance:
        """Those of a cursor, from now on if it has none."""
        found = self._by_cursor.get(cursor)
        if found is None:
            found = self._by_cursor[cursor] = CursorAdvance()
        return found
