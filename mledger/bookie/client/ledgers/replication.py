"""Entries on their way to an ensemble: sends batches, applies what `WriteQuorum` decides, completes batches in order.

The batch is the unit: its payloads are kept until every entry of it is acknowledged, so that they can be sent again to
a bookie that takes a failed one's place. Used for appends (metadata in the store) and for the write-back of recovery
(metadata in memory): they differ in `frame` and `commit`.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.add_timeouts import AddProgress, Late
from mledger.bookie.client.ledgers.replacement import find_replacements, take_back
from mledger.bookie.client.plans.placement import replace_members
from mledger.bookie.client.plans.quorum import Resend, WriteQuorum, entries_of
from mledger.bookie.errors import (
    BookieError,
    BookieUnavailable,
    Code,
    LedgerClosed,
    LedgerFenced,
    NoSuchLedger,
    NotEnoughBookies,
    Unauthorized,
)
from mledger.metastore.errors import MledgerError

logger = logging.getLogger(__name__)

_LONGEST_RETRY_S = 60.0
_MOST_CHANGES = 1000  # of ensemble, in one ledger


@dataclass(slots=True)
class Batch:
    """Entries sent together: payloads of an append, or stored entries that recovery writes back."""

    first: int
    payloads: Sequence[bytes]
    last_add_confirmed: int
    length: int  # the ledger's, in bytes, before this batch
    future: asyncio.Future[int]

    @property
    def end(self) -> int:
        """The entry after the batch's last one."""
        return self.first + len(self.payloads)


Frame = Callable[[Sequence[bytes], int, int, int], list[bytes]]
"""Payloads, first entry, last-add-confirmed, length before: the add frames, each in two parts."""
Commit = Callable[[int, tuple[str, ...]], Awaitable[None]]
"""Make an ensemble the one in force from an entry on, before it counts (Q2)."""


class Replication:
    """One ledger's entries, from `quorum.next_entry` on, to the bookies of its ensemble."""

    def __init__(
        self,
        ledger_id: int,
        ensemble: tuple[str, ...],
        quorum: WriteQuorum,
        frame: Frame,
        commit: Commit,
        pool: BookiePool,
        config: ClientConfig,
        *,
        lane: Lane = Lane.NORMAL,
        chance: random.Random,
    ) -> None:
        self.ledger_id, self.ensemble, self.quorum = ledger_id, ensemble, quorum
        self.failure: MledgerError | None = None
        self._frame, self._commit = frame, commit
        self._pool, self._config, self._lane, self._chance = pool, config, lane, chance
        self._loop = asyncio.get_running_loop()
        self._connections: list[BookieConnection | None] = [None] * len(ensemble)
        self._indexes: dict[BookieConnection, int] = {}
        self._pending: deque[Batch] = deque()
        self._striped = quorum.write_quorum < quorum.ensemble_size
        self._repairing: asyncio.Task[None] | None = None
        self._changes = 0
        self._failed_at: dict[int, float] = {}
        self._away: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = config.replace_retry_s
        self._progress = AddProgress(quorum, config, self._indexes, self._pending, self._late)
        self._idle: asyncio.Future[None] | None = None

    # What the owner does

    async def start(self) -> None:
        """Connect to the ensemble; bookies that cannot be reached are replaced."""
        found = await self._pool.connections(self.ensemble, self._lane)
        unreachable = {}
        for index, bookie in enumerate(self.ensemble):
            connection = found[bookie]
            if isinstance(connection, BookieUnavailable):
                unreachable[index] = str(connection)
            else:
                self._install(index, connection)
        if unreachable:
            self._bookies_failed(unreachable)

    def append(self, payloads: Sequence[bytes], length: int) -> asyncio.Future[int]:
        """Send `payloads` as the next entries; `length` is the ledger's before them.

        The future gives the first entry's id when all are acknowledged (M5).
        """
        if self.failure is not None:
            return failed_future(self.failure)
        future: asyncio.Future[int] = self._loop.create_future()
        quorum = self.quorum
        last_add_confirmed = quorum.acknowledged_below - 1
        parts = self._frame(payloads, quorum.next_entry, last_add_confirmed, length)
        first = quorum.sent(len(payloads))
        self._pending.append(Batch(first, payloads, last_add_confirmed, length, future))
        if self._striped:
            for index in range(len(self._connections)):
                self._send_striped(index, parts, first, first, quorum.next_entry - 1)
        else:
            frames = b"".join(parts)
            for index, connection in enumerate(self._connections):
                if connection is not None and quorum.is_up(index):
                    connection.write(frames)
        self._progress.start()
        if self._away:
            self._repair_now()
        return future

    async def drained(self) -> None:
        """Return when nothing is pending; raises what made it fail."""
        if self.failure is not None:
            raise self.failure
        if self._pending:
            self._idle = self._idle or self._loop.create_future()
            await asyncio.shield(self._idle)

    async def settled(self) -> None:
        """Return when no failed bookie is about to be replaced and nothing is pending; raises what made it fail."""
        while self._repairing is not None and self.failure is None:
            await asyncio.shield(self._repairing)
        await self.drained()

    def unacknowledged(self) -> list[bytes]:
        """Payloads not acknowledged, in order."""
        below = self.quorum.acknowledged_below
        return list(chain.from_iterable(batch.payloads[max(0, below - batch.first) :] for batch in self._pending))

    def acknowledged_length(self, length: int) -> int:
        """The ledger's length in bytes up to the last acknowledged entry, `length` being that of all entries sent."""
        below = self.quorum.acknowledged_below
        for batch in self._pending:
            if batch.end > below:
                return batch.length + sum(map(len, batch.payloads[: max(0, below - batch.first)]))
        return length

    def blame(self, reason: str) -> None:
        """Have bookies that have not acknowledged what was sent to them avoided for a while."""
        for connection, index in self._indexes.items():
            if self.quorum.outstanding(index):
                self._pool.quarantine.note_failure(connection.bookie_id, reason)

    def stop(self, failure: MledgerError) -> None:
        """Send nothing more and expect nothing more; what is pending fails."""
        if self.failure is not None:
            return
        self.failure = failure
        self._progress.stop()
        if self._retry is not None:
            self._retry.cancel()
        for connection in self._indexes:
            connection.unlisten(self.ledger_id, self)
        self._indexes.clear()
        if self._repairing is not None and self._repairing is not asyncio.current_task():
            self._repairing.cancel()
        for batch in self._pending:
            _set_failure(batch.future, failure)
        if self._idle is not None:
            _set_failure(self._idle, failure)

    # What connections tell

    def acknowledged_run(self, connection: BookieConnection, first: int, last: int) -> None:
        """The bookie stores the entries `first` to `last`."""
        index = self._indexes.get(connection)
        if index is not None:
            self._complete(self.quorum.acknowledged_run(index, first, last))

    def acknowledged(self, connection: BookieConnection, entries: list[int]) -> None:
        """The bookie stores `entries`."""
        index = self._indexes.get(connection)
        if index is not None:
            self._complete(self.quorum.acknowledged(index, entries))

    def refused(self, connection: BookieConnection, entry: int, code: int) -> None:
        """The bookie answered the add of `entry` with an error."""
        index = self._indexes.get(connection)
        if index is None:
            return
        where = f"ledger {self.ledger_id}, entry {entry}, bookie {connection.bookie_id}"
        if code == Code.FENCED:
            self.stop(LedgerFenced(f"{where}: fenced, another client has opened the ledger; stop writing it"))
        elif code == Code.UNAUTHORIZED:
            self.stop(Unauthorized(f"{where}: the password is not the ledger's"))
        elif code == Code.NO_LEDGER:
            self.stop(NoSuchLedger(f"{where}: the ledger was deleted"))
        else:
            reason = f"it answered the add of entry {entry} with error {code}"
            self._pool.quarantine.note_failure(connection.bookie_id, reason)
            self._bookies_failed({index: reason})

    def connection_lost(self, connection: BookieConnection, reason: str) -> None:
        """No more answers will come from this connection."""
        index = self._indexes.get(connection)
        if self._pool.closed:
            self.stop(LedgerClosed(f"ledger {self.ledger_id}: the client that wrote it was closed"))
        elif index is not None and self.quorum.outstanding(index):
            self._pool.quarantine.note_failure(connection.bookie_id, reason)
            self._bookies_failed({index: reason})
        elif index is not None:
            self._away.add(index)  # looked for again when there is something to send
            self._take_out({index: reason})
            self._complete(self.quorum.acknowledged_below)  # batches may have waited for its send buffer

    def writable_again(self, _: BookieConnection) -> None:
        """A send buffer has drained: batches may be waiting for it."""
        self._complete(self.quorum.acknowledged_below)

    # Completion

    def _complete(self, below: int) -> None:
        """Complete the batches whose entries are all below `below`, unless a bookie has too much still to be sent."""
        pending = self._pending
        if not pending or pending[0].end > below or self._congested():
            return
        while pending and pending[0].end <= below:
            batch = pending.popleft()
            if not batch.future.done():
                batch.future.set_result(batch.first)
        if not pending and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def _congested(self) -> bool:
        return any(connection.congested for connection in self._indexes)

    # Change of ensemble

    def _install(self, index: int, connection: BookieConnection) -> None:
        self._connections[index] = connection
        self._indexes[connection] = index
        self._progress.joined(index)
        connection.listen(self.ledger_id, self)
        if connection.closed:
            self.connection_lost(connection, "the connection was lost")

    def _bookies_failed(self, reasons: dict[int, str]) -> None:
        if self.failure is None:
            self._take_out(reasons)
            self._complete(self.quorum.acknowledged_below)
            self._repair_now()

    def _take_out(self, reasons: dict[int, str]) -> None:
        for index, reason in reasons.items():
            connection = self._connections[index]
            if connection is not None:
                connection.unlisten(self.ledger_id, self)
                self._indexes.pop(connection, None)
                self._connections[index] = None
            self._failed_at[index], self._reasons[index] = self._loop.time(), reason
        self.quorum.failed(reasons.keys())

    def _repair_now(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._repairing is None and self.failure is None:
            self._repairing = asyncio.create_task(self._repair())

    async def _repair(self) -> None:
        """Replace the failed bookies, as many as there are others for; see later about the rest (Q2)."""
        try:
            while self.quorum.down:
                found = await self._find()
                if not found:
                    break
                await self._change(found)
            lacking = self.quorum.lacking()
            if lacking is not None:
                raise NotEnoughBookies(self._why_not_enough(lacking.needed))
        except MledgerError as error:
            self.stop(error)
            return
        except Exception as error:
            self.stop(BookieError(f"ledger {self.ledger_id}: replacing a bookie failed: {error!r}; write to a new one"))
            raise
        self._repairing = None
        if self.quorum.down:
            self._retry = self._loop.call_later(self._retry_s, self._repair_now)
            self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        else:
            self._retry_s = self._config.replace_retry_s

    def _why_not_enough(self, needed: int) -> str:
        failed = "; ".join(f"{self.ensemble[index]}: {self._reasons[index]}" for index in sorted(self.quorum.down))
        return (
            f"ledger {self.ledger_id}: {needed} bookies of a write set are needed and too few are left ({failed}), "
            "with none to take their place; start bookies and write to a new ledger"
        )

    async def _change(self, found: dict[int, BookieConnection]) -> None:
        """Make the bookies `found` part of the ensemble, and put them in place (Q2)."""
        self._changes += 1
        if self._changes > _MOST_CHANGES:
            raise NotEnoughBookies(f"ledger {self.ledger_id}: bookies failed {_MOST_CHANGES} times; see their logs")
        change = self.quorum.begin_change(found.keys())
        ensemble = replace_members(self.ensemble, {index: got.bookie_id for index, got in found.items()})
        if ensemble != self.ensemble:
            await self._commit(change.first_entry, ensemble)
            self.ensemble = ensemble
            members = ",".join(ensemble)
            logger.info("ensemble_changed ledger=%d first=%d bookies=%s", self.ledger_id, change.first_entry, members)
        resends = self.quorum.changed()
        for index, connection in found.items():
            self._install(index, connection)
        for resend in resends:
            self._resend(resend)
        self._progress.start()
        self._complete(self.quorum.acknowledged_below)

    async def _find(self) -> dict[int, BookieConnection]:
        """Connections for failed indexes: first to bookies that only went away while nothing was asked of them."""
        if self._away:
            away, self._away = self._away, set()
            back = {index: self.ensemble[index] for index in away & self.quorum.down}
            returned = await take_back(back, self._pool, self._lane)
            if returned:
                return returned
        since = self._loop.time() - self._config.replace_retry_s
        may_return = [index for index in self.quorum.down if self._failed_at[index] <= since]
        return await find_replacements(
            self.ensemble,
            self.quorum.down,
            may_return,
            self._pool,
            self._lane,
            self._chance,
            write_quorum=self.quorum.write_quorum,
        )

    # Sending

    def _resend(self, resend: Resend) -> None:
        for batch in self._pending:
            if batch.end > resend.first_entry:
                parts = self._frame(batch.payloads, batch.first, batch.last_add_confirmed, batch.length)
                first = max(batch.first, resend.first_entry)
                self._send_striped(resend.index, parts, batch.first, first, min(batch.end - 1, resend.last_entry))

    def _send_striped(self, index: int, parts: list[bytes], parts_from: int, first: int, last: int) -> None:
        """Send those of the entries `first` to `last` that belong to `index`; `parts` begin with entry `parts_from`."""
        connection = self._connections[index]
        if connection is None or not self.quorum.is_up(index):
            return
        mine = entries_of(index, first, last, self.quorum.ensemble_size, self.quorum.write_quorum)
        if mine:
            places = [2 * (entry - parts_from) for entry in mine]
            connection.write(b"".join(chain.from_iterable(parts[at : at + 2] for at in places)))

    # Time-outs

    def _late(self, late: Late) -> None:
        """Bookies gave no acknowledgement for too long, or no room in their send buffers."""
        reasons = {}
        for index, limit in late.items():
            reasons[index] = f"it acknowledged nothing for {limit:g} s"
            self._pool.quarantine.note_silence(self.ensemble[index], reasons[index], limit)
        self._bookies_failed(reasons)


def failed_future(failure: MledgerError) -> asyncio.Future[int]:
    """A future that has failed already."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    _set_failure(future, failure)
    return future


def _set_failure(future: "asyncio.Future[int] | asyncio.Future[None]", failure: MledgerError) -> None:
    if not future.done():
        future.set_exception(failure)
        future.exception()  # who does not ask for it is not told by a log line at exit
