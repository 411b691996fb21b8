"""Recovery of a ledger whose writer is gone: carries out what `recovery` plans (Q4). A ledger has one end (Q5)."""

import asyncio
import random

from msgspec.structs import replace

from mledger.bookie.client.config import ClientConfig
from mledger.bookie.client.connections.frames import StoredEntry, recovery_parts
from mledger.bookie.client.connections.pool import BookiePool, Lane
from mledger.bookie.client.ledgers.last_confirmed import EndReader, Ends, troubles_text
from mledger.bookie.client.ledgers.metadata.metadata_updater import MetadataUpdater
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.placement import with_ensemble
from mledger.bookie.client.plans.quorum import WriteQuorum
from mledger.bookie.client.plans.recovery import (
    READ_AHEAD_BYTES,
    Finding,
    covered,
    first_entry_to_read,
    known_length,
    plan_closed,
    plan_in_recovery,
    plan_segments,
    read_ahead,
)
from mledger.bookie.digest import Digest, master_key
from mledger.bookie.errors import LedgerConflict, RecoveryUndecided
from mledger.bookie.wire import Flag
from mledger.metastore.records.bookie_affinity import ledger_affinity
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState, Segment
from mledger.metastore.runtime.logs.loggers import get_logger

log = get_logger(__name__)

_FENCING_READ = int(Flag.FENCE)
_RECOVERY_READ = int(Flag.FENCE | Flag.HIGH_PRIORITY)
_AT_ONCE = 256  # entries read ahead of the write-back


class LedgerRecovery:
    """One recovery of one ledger: fences its bookies, finds its end, writes the tail back, closes it."""

    def __init__(
        self,
        held: MetadataUpdater,
        digest: Digest,
        password: bytes,
        pool: BookiePool,
        config: ClientConfig,
        *,
        rng: random.Random,
    ) -> None:
        self.ledger_id = held.ledger_id
        self._held, self._pool, self._config, self._rng = held, pool, config, rng
        self._key = master_key(password)
        self._end_reader = EndReader(self.ledger_id, digest, pool, Lane.RECOVERY, _RECOVERY_READ, self._key)
        self._segments: tuple[Segment, ...] | None = None
        self._write_back: Replication | None = None

    async def run(self) -> LedgerMetadata:
        """Recover the ledger; its metadata, closed.

        Raises:
            RecoveryUndecided: too few bookies answer to say where it ends; retriable, it stays IN_RECOVERY.
            NotEnoughBookies: the tail cannot be written back to an ack quorum; retriable.
            Unauthorized, NoSuchLedger, LedgerConflict, StoreUnavailable.
        """
        metadata = await self._held.update(plan_in_recovery, _anything_goes)
        if metadata.state is LedgerState.CLOSED:
            return metadata
        ends = await self._fence(metadata)
        try:
            last_entry, length = await self._find_end(metadata, ends)
            if self._write_back is not None:
                await self._write_back.settled()
        finally:
            if self._write_back is not None:
                self._write_back.stop(LedgerConflict(f"ledger {self.ledger_id}: its recovery has ended"))
        return await self._close(last_entry, length)

    async def _fence(self, metadata: LedgerMetadata) -> Ends:
        ends = await self._end_reader.ends(metadata, _FENCING_READ, wait_for_all=False)
        if ends.refused and not covered(ends.answers, metadata.write_quorum, metadata.ack_quorum):
            await self._end_reader.fence_refused(metadata, ends)
        if not covered(ends.answers, metadata.write_quorum, metadata.ack_quorum):
            raise RecoveryUndecided(
                f"ledger {self.ledger_id}: too few bookies of {', '.join(metadata.ensemble)} can be fenced to recover "
                f"it: {troubles_text(ends.troubles)}; see that they run, and try again"
            )
        return ends

    async def _find_end(self, metadata: LedgerMetadata, ends: Ends) -> tuple[int, int]:
        """Read forward and write back what is found; return the last entry and the ledger's length in bytes."""
        first = entry = first_entry_to_read(ends.last_add_confirmed, metadata)
        last: StoredEntry | None = None
        before = known_length(first - 1, ends.reports) or 0
        while True:
            until = read_ahead(entry, before, ends.reports, _AT_ONCE, self._config.max_frame, READ_AHEAD_BYTES)
            found, ended = await self._read_tail(metadata, entry, until)
            if found:
                await self._write(metadata, first, found)
                last = found[-1]
                entry, before = last.entry + 1, last.length
            if ended:
                break
        if last is not None:
            return last.entry, last.length
        length = known_length(first - 1, ends.reports)
        return first - 1, await self._length_of(metadata, first - 1, ends) if length is None else length

    async def _read_tail(self, metadata: LedgerMetadata, entry: int, until: int) -> tuple[list[StoredEntry], bool]:
        """The entries found from `entry` on, and whether the ledger ends after them."""
        results = await asyncio.gather(
            *(self._end_reader.entry(metadata, number) for number in range(entry, until + 1))
        )
        found: list[StoredEntry] = []
        for number, (finding, stored, troubles) in enumerate(results, entry):
            if stored is not None:
                found.append(stored)
            elif finding is Finding.END:
                return found, True
            else:
                raise RecoveryUndecided(
                    f"ledger {self.ledger_id}: whether it has entry {number} cannot be decided: "
                    f"{troubles_text(troubles)}; see that its bookies run, and try again"
                )
        return found, False

    async def _length_of(self, metadata: LedgerMetadata, entry: int, ends: Ends) -> int:
        """The ledger's length at its last acknowledged entry, if no bookie reported that entry as its last."""
        finding, stored, troubles = await self._end_reader.entry(metadata, entry)
        if stored is not None:
            return stored.length
        if finding is Finding.UNDECIDED:
            raise RecoveryUndecided(
                f"ledger {self.ledger_id}: its last entry {entry} cannot be read: {troubles_text(troubles)}; "
                "see that its bookies run, and try again"
            )
        length = max((report.length for report in ends.reports if report.entry <= entry), default=0)
        log.error("acknowledged_entry_lost", ledger=self.ledger_id, entry=entry, length_known=length)
        return length

    async def _write(self, metadata: LedgerMetadata, first: int, found: list[StoredEntry]) -> None:
        """Write entries back to their write sets; if a bookie fails, change the ensemble in memory."""
        if self._write_back is None:
            quorum = WriteQuorum(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum, first)
            self._write_back = Replication(
                self.ledger_id,
                metadata.ensemble,
                quorum,
                lambda stored, *_: recovery_parts(stored, self._key),
                self._change_in_memory,
                self._pool,
                self._config,
                lane=Lane.RECOVERY,
                rng=self._rng,
                affinity=ledger_affinity(metadata.custom_metadata),
            )
            await self._write_back.start()
            await self._write_back.settled()  # bookies that are down are replaced from the first entry on
        await self._write_back.append([entry.stored for entry in found], 0)

    async def _change_in_memory(self, first_entry: int, ensemble: tuple[str, ...]) -> None:
        metadata = self._held.metadata
        current = metadata if self._segments is None else replace(metadata, segments=self._segments)
        self._segments = with_ensemble(current, first_entry, ensemble).segments

    async def _close(self, last_entry: int, length: int) -> LedgerMetadata:
        ground = self._held.metadata.segments

        def plan(metadata: LedgerMetadata) -> LedgerMetadata | None:
            if metadata.state is LedgerState.CLOSED:
                return None  # another recovery was first: its end is the ledger's (Q5)
            return plan_closed(
                metadata, last_entry, length, plan_segments(metadata.segments, self._segments, last_entry)
            )

        def check(ledger_id: int, _: LedgerMetadata, found: LedgerMetadata) -> None:
            same_last = found.segments[-1] == ground[-1] and len(found.segments) == len(ground)
            if found.state is LedgerState.IN_RECOVERY and not same_last:
                raise LedgerConflict(f"ledger {ledger_id}: its last ensemble changed during recovery; recover it again")

        return await self._held.update(plan, check)


def _anything_goes(_: int, __: LedgerMetadata, ___: LedgerMetadata) -> None:
    """Accept any change: before the fence, recovery can start from any state of the metadata."""
