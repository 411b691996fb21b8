"""Acts on a cursor that its user may close or delete at any time."""

from collections.abc import Awaitable, Callable

from mledger.cursors.cursor import Cursor
from mledger.errors import ManagedLedgerClosed


async def act_on_usable(usable: Callable[[], Awaitable[Cursor]], act: Callable[[Cursor], Awaitable[object]]) -> None:
    """Have `act` done on the cursor that `usable` gives, and on the one recovered for it if that was closed meanwhile.

    Raises what `usable` does, such as CursorNotFound of a cursor that was deleted.
    """
    while True:
        cursor = await usable()
        try:
            await act(cursor)
        except ManagedLedgerClosed:
            continue
        return
