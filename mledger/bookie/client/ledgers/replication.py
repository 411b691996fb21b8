"""Entries on their way to an ensemble: sends batches, counts acknowledgements, completes batches in order.

The batch is the unit. Each part stands alone: what is not complete in `pending_batches`, what goes to which bookie in
`ensemble_connections`, failed bookies in `ensemble_changes`, time-outs in `add_timeouts`, and who has acknowledged what
in `WriteQuorum`. Used for appends (metadata in the store) and for the write-back of recovery (metadata in memory): they
differ in `frame` and `commit`.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.connection import BookieConnection
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.add_timeouts import AddProgress, Late
from mledger.bookie.client.ledgers.ensembles.ensemble_changes import Commit, EnsembleChanges
from mledger.bookie.client.ledgers.ensembles.ensemble_connections import EnsembleConnections
from mledger.bookie.client.ledgers.ensembles.replacement import Found
from mledger.bookie.client.ledgers.pending_batches import PendingBatch, PendingBatches, failed_future
from mledger.bookie.client.plans.quorum import Resend, WriteQuorum
from mledger.bookie.client.plans.refusals import plan_refusal
from mledger.bookie.errors import BookieUnavailable, LedgerClosed, Unauthorized
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup

_LARGEST_KEPT = 4 << 10
"""Bytes of the largest entry that is kept, one of each ledger, for bookies that join its ensemble: an owner may have
ten thousand ledgers."""

Frame = Callable[[Sequence[bytes], int, int, int], list[bytes]]
"""Payloads, first entry, last-add-confirmed, length before: the add frames, each in two parts."""


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
        rng: random.Random,
        affinity: BookieAffinityGroup | None = None,
    ) -> None:
        self.ledger_id, self.quorum = ledger_id, quorum
        self.failure: MledgerError | None = None
        self._frame, self._pool, self._lane = frame, pool, lane
        self._loop = asyncio.get_running_loop()
        self._pending = PendingBatches()
        self._connections = EnsembleConnections(ledger_id, quorum, self)
        self._changes = EnsembleChanges(
            ledger_id,
            ensemble,
            quorum,
            commit,
            self._pending,
            pool,
            config,
            lane=lane,
            rng=rng,
            affinity=affinity,
            on_change=self._put_in_place,
            on_failure=self.stop,
        )
        self._progress = AddProgress(quorum, config, self._connections.indexes, self._pending, self._late)

    # What the owner does

    async def start(self) -> None:
        """Connect to the ensemble; bookies that cannot be reached are replaced."""
        ensemble = self._changes.ensemble
        found = await self._pool.connections(ensemble, self._lane)
        unreachable = {}
        for index, bookie in enumerate(ensemble):
            connection = found[bookie]
            if isinstance(connection, BookieUnavailable):
                unreachable[index] = str(connection)
            else:
                self._put(index, connection)
                self._look_for_loss(connection)
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
        end = quorum.next_entry
        last_frame = parts[-2:] if len(parts[-1]) <= _LARGEST_KEPT else ()
        self._pending.add(PendingBatch(first, end, payloads, last_add_confirmed, length, future, last_frame))
        self._connections.send(parts, first, end - 1)
        self._progress.start()
        if self._changes.failures.away:
            self._changes.start()
        return future

    async def drained(self) -> None:
        """Return when nothing is pending; raises what made it fail."""
        if self.failure is not None:
            raise self.failure
        await self._pending.drained()

    async def settled(self) -> None:
        """Return when no failed bookie is about to be replaced and nothing is pending; raises what made it fail."""
        await self._changes.settled()
        await self.drained()

    def payloads_from(self, entry: int) -> list[bytes]:
        """Payloads from `entry` on of batches that are not complete, in order."""
        return self._pending.payloads_from(entry)

    def acknowledged_length(self, length: int) -> int:
        """The ledger's length in bytes up to the last acknowledged entry, `length` being that of all entries sent."""
        return self._pending.length_below(self.quorum.acknowledged_below, length)

    def blame(self, reason: str) -> None:
        """Have bookies that have not acknowledged what was sent to them avoided for a while."""
        for connection, index in self._connections.indexes.items():
            if self.quorum.outstanding(index):
                self._pool.quarantine.note_failure(connection.bookie_id, reason)

    def stop(self, failure: MledgerError) -> None:
        """Send nothing more and expect nothing more; what is pending fails."""
        if self.failure is not None:
            return
        self.failure = failure
        self._progress.stop()
        self._connections.leave()
        self._changes.stop()
        self._pending.fail(failure)

    # What connections tell

    def acknowledged_run(self, connection: BookieConnection, first: int, last: int) -> None:
        """The bookie stores the entries `first` to `last`."""
        index = self._connections.indexes.get(connection)
        if index is not None:
            self._complete(self.quorum.acknowledged_run(index, first, last))

    def acknowledged(self, connection: BookieConnection, entries: list[int]) -> None:
        """The bookie stores `entries`."""
        index = self._connections.indexes.get(connection)
        if index is not None:
            self._complete(self.quorum.acknowledged(index, entries))

    def refused(self, connection: BookieConnection, entry: int, code: int) -> None:
        """The bookie answered the add of `entry` with an error."""
        index = self._connections.indexes.get(connection)
        if index is None:
            return
        failure = plan_refusal(self.ledger_id, entry, connection.bookie_id, code)
        reason = f"it answered the add of entry {entry} with error {code}"
        if failure is None or isinstance(failure, Unauthorized):  # the next ledger is better off on other bookies
            self._pool.quarantine.note_failure(connection.bookie_id, reason)
        if failure is not None:
            self.stop(failure)
            return
        self._bookies_failed({index: reason})

    def connection_lost(self, connection: BookieConnection, reason: str) -> None:
        """No more answers will come from this connection."""
        index = self._connections.indexes.get(connection)
        if self._pool.closed:
            self.stop(LedgerClosed(f"ledger {self.ledger_id}: the client that wrote it was closed"))
        elif index is not None and self.quorum.outstanding(index):
            self._pool.quarantine.note_failure(connection.bookie_id, reason)
            self._bookies_failed({index: reason})
        elif index is not None:
            self._connections.take_out(index)
            self._changes.note_away(index, reason)
            self._complete(self.quorum.acknowledged_below)  # batches may have waited for its send buffer

    def writable_again(self, _: BookieConnection) -> None:
        """A send buffer has drained: batches may be waiting for it."""
        self._complete(self.quorum.acknowledged_below)

    def _complete(self, below: int) -> None:
        """Complete the batches whose entries are all below `below`, unless a bookie has too much still to be sent."""
        if self._pending.are_ready(below) and not self._connections.congested:
            self._pending.complete(below)

    # Members that fail and members that come

    def _bookies_failed(self, reasons: dict[int, str]) -> None:
        if self.failure is None:
            for index in reasons:
                self._connections.take_out(index)
            self._changes.note_failed(reasons)
            self._complete(self.quorum.acknowledged_below)
            self._changes.start()

    def _late(self, late: Late) -> None:
        """Bookies gave no acknowledgement for too long, or no room in their send buffers."""
        reasons = {}
        for index, limit in late.items():
            reasons[index] = f"it acknowledged nothing for {limit:g} s"
            self._pool.quarantine.note_silence(self._changes.ensemble[index], reasons[index], limit)
        self._bookies_failed(reasons)

    def _put_in_place(self, found: Found, resends: tuple[Resend, ...]) -> frozenset[int]:
        """The metadata names the bookies `found`: send to them from now on, and again what is not acknowledged (Q2).

        Returns the indexes that were told where they begin. A connection that is lost by now is noted last: that
        completes batches, which the others still have to get.
        """
        sent_to = {resend.index for resend in resends}
        told = set()
        for index, connection in found.items():
            self._put(index, connection)
            if self._lane is Lane.NORMAL and index not in sent_to and self._tell_where_it_begins(index, connection):
                told.add(index)
        for resend in resends:
            self._send_again(resend)
        self._progress.start()
        for connection in found.values():
            self._look_for_loss(connection)
        self._complete(self.quorum.acknowledged_below)
        return frozenset(told)

    def _tell_where_it_begins(self, index: int, connection: BookieConnection) -> bool:
        """Send the last entry that is complete, which it need not have, to a bookie to which nothing else is sent now.

        Returns whether there was one.

        A bookie that is younger than the ledger knows from the first entry on that it lacks none. Without one it could
        not tell a recovery that. It does lack what lies between this entry and the next ones that it gets, and may have
        acknowledged that before its disk was lost: nothing may. Where it gets others now, a second copy of the entry
        would only make its reads slower.
        """
        frame = self._pending.frame_before(self.quorum.watermark(index))
        if frame:
            connection.write(b"".join(frame))
        return bool(frame)

    def _put(self, index: int, connection: BookieConnection) -> None:
        self._progress.joined(index)
        self._connections.put(index, connection)

    def _look_for_loss(self, connection: BookieConnection) -> None:
        if connection.closed:
            self.connection_lost(connection, "the connection was lost")

    def _send_again(self, resend: Resend) -> None:
        for batch in self._pending.since(resend.first_entry):
            parts = self._frame(batch.payloads, batch.first, batch.last_add_confirmed, batch.length)
            first, last = max(batch.first, resend.first_entry), min(batch.end - 1, resend.last_entry)
            self._connections.send_to(resend.index, parts, batch.first, first, last)
