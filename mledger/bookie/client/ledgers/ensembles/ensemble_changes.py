"""Changes of one ledger's ensemble: failed bookies are replaced, one change at a time (Q2).

The metadata names the new ensemble before the new bookies count. If there is no other bookie, writing continues while
every write set has an ack quorum left, and the search for a replacement is repeated at growing intervals.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.ensembles.replacement import Found, find_replacements, take_back
from mledger.bookie.client.ledgers.pending_batches import PendingBatches
from mledger.bookie.client.plans.member_failures import MemberFailures, too_many
from mledger.bookie.client.plans.placement import replace_members
from mledger.bookie.client.plans.quorum import Resend, WriteQuorum
from mledger.bookie.errors import BookieError, LedgerConflict, LedgerFenced, NoSuchLedger, NotEnoughBookies
from mledger.metastore.errors import MledgerError
from mledger.metastore.records.bookie_affinity import BookieAffinityGroup
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit

log = get_logger(__name__)

_LONGEST_RETRY_S = 60.0
_MOST_CHANGES = 1000  # in one ledger
_MOST_ENDED = 20  # segments of one ledger, for gaps: a bookie that is started all the time makes its metadata no larger

Commit = Callable[[int, tuple[str, ...]], Awaitable[None]]
"""Writes that an ensemble is in force from an entry on, before it counts (Q2)."""
ChangeSink = Callable[[Found, tuple[Resend, ...]], frozenset[int]]
"""Gets the connections that take their indexes now, and the entries to send to them again.

Returns the indexes that were sent the last complete entry, since nothing else is sent to them now.
"""


class EnsembleChanges:
    """The ensemble of one ledger and its failed members; owned by one `Replication`."""

    def __init__(
        self,
        ledger_id: int,
        ensemble: tuple[str, ...],
        quorum: WriteQuorum,
        commit: Commit,
        pending: PendingBatches,
        pool: BookiePool,
        config: ClientConfig,
        *,
        lane: Lane,
        rng: random.Random,
        affinity: BookieAffinityGroup | None = None,
        on_change: ChangeSink,
        on_failure: Callable[[MledgerError], None],
    ) -> None:
        """New members are of the groups that `affinity` names (Q1).

        `on_failure` hears once why no ack quorum is possible any more, or the change was refused.
        """
        self.ledger_id, self.ensemble = ledger_id, ensemble
        self._quorum, self._commit, self._pending, self._affinity = quorum, commit, pending, affinity
        self._pool, self._config, self._lane, self._rng = pool, config, lane, rng
        self._on_change, self._on_failure = on_change, on_failure
        self._loop = asyncio.get_running_loop()
        self.failures = MemberFailures()
        self._count = 0
        self._ended = 0  # segments, for gaps
        self._segment_from = quorum.acknowledged_below  # the last segment begins there, or before
        self._stopped = False
        self._changing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retry_s = config.replace_retry_s

    def note_failed(self, reasons: Mapping[int, str]) -> None:
        """Note that the bookies at these indexes have failed: they do not count until they are replaced."""
        self.failures.note(reasons, self._loop.time())
        self._quorum.failed(reasons.keys())

    def note_away(self, index: int, reason: str) -> None:
        """Note that the bookie at `index` was lost while it owed nothing: it is reconnected for the next entries."""
        self.note_failed({index: reason})
        self.failures.note_away(index)

    def start(self) -> None:
        """Start to replace failed bookies, unless that has started; what follows is held for those lost idle."""
        if self.failures.away:
            self._pending.hold()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._changing is None and not self._stopped:
            self._changing = asyncio.create_task(self._replace_failed())

    def stop(self) -> None:
        """Stop all changes."""
        self._stopped = True
        self._pending.release()
        if self._retry is not None:
            self._retry.cancel()
        if self._changing is not None and self._changing is not asyncio.current_task():
            self._changing.cancel()

    async def settled(self) -> None:
        """Return when no replacement of a failed bookie is in progress, or when changes are stopped."""
        while self._changing is not None and not self._stopped:
            await asyncio.wait([self._changing])

    async def _replace_failed(self) -> None:
        """Replace as many failed bookies as there are others for; retry the rest later (Q2)."""
        quorum = self._quorum
        try:
            while quorum.down:
                found = await self._find()
                if not found:
                    break
                await self._change(found)
            lacking = quorum.lacking()
            if lacking is not None:
                raise NotEnoughBookies(
                    self.failures.not_enough(self.ledger_id, lacking.needed, self.ensemble, quorum.down)
                )
        except MledgerError as error:
            self._on_failure(error)
            return
        except Exception as error:
            what = f"ledger {self.ledger_id}: replacing a bookie failed: {error!r}; write to a new one"
            self._on_failure(BookieError(what))
            raise
        self._changing = None
        self._release()
        if quorum.down:
            self._retry = self._loop.call_later(self._retry_s, self.start)
            self._retry_s = min(2 * self._retry_s, _LONGEST_RETRY_S)
        else:
            self._retry_s = self._config.replace_retry_s

    async def _change(self, found: Found) -> None:
        """Commit the bookies `found` to the ensemble, then put them in place (Q2).

        If some of them return to their places, only those are put there, and the others are looked for again: nothing
        needs to be committed before, and what they lack lies before what is.
        """
        self._count += 1
        if self._count > _MOST_CHANGES:
            raise NotEnoughBookies(too_many(self.ledger_id, _MOST_CHANGES))
        returned = {index: got for index, got in found.items() if got.bookie_id == self.ensemble[index]}
        if returned:
            await self._put_back(returned)
            return
        change = self._quorum.begin_change(found.keys())
        ensemble = replace_members(self.ensemble, {index: got.bookie_id for index, got in found.items()})
        await self._commit(change.first_entry, ensemble)
        self.ensemble, self._segment_from = ensemble, change.first_entry
        log.info("ensemble_changed", ledger=self.ledger_id, first=change.first_entry, bookies=ensemble)
        self._on_change(found, self._quorum.changed())

    async def _put_back(self, found: Found) -> None:
        """Put bookies in their places again, and end the segment if one of them lacks acknowledged entries for good."""
        quorum = self._quorum
        gaps = {index for index in found if quorum.has_gap(index, self._pending.held_from)}
        first_entry = quorum.begin_change(found.keys()).first_entry
        resends = quorum.changed({index: quorum.watermark(index) for index in found if index not in gaps})
        told = self._on_change(found, resends)
        if gaps and not self._stopped:
            await self._end_segment(first_entry - 1 if gaps & told else first_entry)

    async def _end_segment(self, first_entry: int) -> None:
        """Have another segment of the same bookies begin, with the first entry that one with a gap before it is sent.

        Re-replication looks at the first and the last entry that a bookie should have of a segment (Q6): it would not
        find a gap between others. It fences a ledger that is open if a bookie lacks the first entry of its last
        segment. Writing goes on meanwhile, and if the metadata store does not answer: what counts is not changed by it.
        """
        if first_entry <= self._segment_from:
            return
        self._ended += 1
        self._segment_from = first_entry
        problem: object = f"{_MOST_ENDED} are noted in this ledger"
        if self._ended <= _MOST_ENDED:
            try:
                async with TimeLimit(self._config.stall_timeout_s):  # other bookies wait to be put in their places
                    await self._commit(first_entry, self.ensemble)
                return
            except (LedgerFenced, LedgerConflict, NoSuchLedger):
                raise  # it is not ours any more (M7)
            except (MledgerError, TimeoutError) as error:
                problem = str(error) or "the metadata store did not answer in time"
        log.warning("gap_not_noted", ledger=self.ledger_id, before=first_entry, error=problem)

    async def _find(self) -> Found:
        """Connections for failed indexes: first to bookies that were only lost while they owed nothing."""
        down = self._quorum.down
        if self.failures.away:
            back = {index: self.ensemble[index] for index in self.failures.take_away(down)}
            returned = await take_back(back, self._pool, self._lane)
            if returned:
                return returned
            down = self._quorum.down
            self._release()
        since = self._loop.time() - self._config.replace_retry_s
        return await find_replacements(
            self.ensemble,
            down,
            self.failures.may_return(down, since),
            self._pool,
            self._lane,
            self._rng,
            write_quorum=self._quorum.write_quorum,
            affinity=self._affinity,
        )

    def _release(self) -> None:
        """Hold no complete batches, unless there are bookies that nobody has tried to reconnect yet."""
        if not self.failures.away:
            self._pending.release()
