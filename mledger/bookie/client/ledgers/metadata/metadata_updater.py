"""The metadata of a ledger that this client writes or recovers: every change by compare-and-set (M7, Q2, Q4).

A conflict is examined. Our own write counts as done. A write by another client that leaves our last ensemble as it was
(re-replication of earlier segments) is taken over. Recovery by another client ends the writer.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from mledger.bookie.client.ledgers.metadata.metadata_batches import MetadataUpdates
from mledger.bookie.errors import LedgerConflict, LedgerFenced, NoSuchLedger
from mledger.metastore.errors import BadVersion, NodeNotFound, SessionExpired, StoreUnavailable
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from mledger.metastore.runtime.logs.loggers import get_logger
from mledger.metastore.runtime.network.time_limit import TimeLimit

log = get_logger(__name__)

_MOST_CONFLICTS = 10
_PAUSE_S = 0.2

Plan = Callable[[LedgerMetadata], LedgerMetadata | None]
"""Returns the metadata to write instead of the given one; None: write nothing."""


def check_still_ours(ledger_id: int, held: LedgerMetadata, found: LedgerMetadata) -> None:
    """Raise unless a change of `held` can also be made to `found`, which another client wrote meanwhile (M7).

    Raises:
        LedgerFenced: it is being recovered, or closed, by another.
        LedgerConflict: its last ensemble is another one.
    """
    if found.state is not held.state:
        raise LedgerFenced(
            f"ledger {ledger_id}: another client made it {found.state.name}; stop writing it, its end is decided there"
        )
    if found.segments[-1] != held.segments[-1] or len(found.segments) != len(held.segments):
        raise LedgerConflict(
            f"ledger {ledger_id}: another client changed its last ensemble from {held.segments[-1]} to "
            f"{found.segments[-1]}; open the ledger again"
        )


class MetadataUpdater:
    """A ledger's metadata and its version, as this client last knew them in the store."""

    def __init__(
        self, store: MetadataUpdates, ledger_id: int, metadata: LedgerMetadata, version: int, *, timeout_s: float
    ) -> None:
        self.ledger_id, self.version = ledger_id, version
        self.metadata = replace(metadata, c_token=0) if metadata.c_token else metadata
        self._store, self._timeout_s = store, timeout_s
        self._interrupted: list[LedgerMetadata] = []  # each may have been written: its answer was not seen

    async def update(
        self, plan: Plan, check: Callable[[int, LedgerMetadata, LedgerMetadata], None] = check_still_ours
    ) -> LedgerMetadata:
        """Write what `plan` makes of the metadata; after a conflict `check` what stands there, and plan again.

        Raises:
            LedgerFenced, LedgerConflict: as `check` says, or there were conflicts without an end.
            NoSuchLedger: the ledger was deleted.
            StoreUnavailable: the store did not carry it out within `timeout_s`, whatever it waited for (Q11).
        """
        try:
            async with TimeLimit(self._timeout_s):
                return await self._update(plan, check)
        except TimeoutError:
            raise StoreUnavailable(
                f"ledger {self.ledger_id}: the metadata store did not carry out an update of its metadata within "
                f"{self._timeout_s:g} s: check that it runs and can be reached"
            ) from None

    async def _update(self, plan: Plan, check: Callable[[int, LedgerMetadata, LedgerMetadata], None]) -> LedgerMetadata:
        for _ in range(_MOST_CONFLICTS):
            wanted = plan(self.metadata)
            if wanted is None:
                return self.metadata
            try:
                self.version = await self._put(wanted)
            except BadVersion:
                if await self._is_ours_after_all(check, wanted):
                    return wanted
            except (asyncio.CancelledError, StoreUnavailable):
                self._interrupted.append(wanted)
                raise
            else:
                self._take_over(wanted, self.version)
                return wanted
        raise LedgerConflict(f"ledger {self.ledger_id}: its metadata changes faster than it can be written; try again")

    async def _put(self, wanted: LedgerMetadata) -> int:
        while True:
            try:
                return await self._store.put(self.ledger_id, wanted, self.version)
            except NodeNotFound as error:
                raise NoSuchLedger(f"ledger {self.ledger_id} was deleted by another client") from error
            except SessionExpired:
                raise
            except StoreUnavailable as error:
                log.warning("ledger_metadata_waits", ledger=self.ledger_id, error=error)
                await asyncio.sleep(_PAUSE_S)

    async def _is_ours_after_all(
        self, check: Callable[[int, LedgerMetadata, LedgerMetadata], None], wanted: LedgerMetadata
    ) -> bool:
        """Take over the metadata in the store, if it is ours or compatible with ours."""
        try:
            found, version = await self._store.read(self.ledger_id)
        except NodeNotFound as error:
            raise NoSuchLedger(f"ledger {self.ledger_id} was deleted by another client") from error
        except (asyncio.CancelledError, StoreUnavailable):
            self._interrupted.append(wanted)  # a put before the refused one may have been carried out
            raise
        found = replace(found, c_token=0)
        if not any(_has_become(ours, found) for ours in (wanted, *self._interrupted)):
            check(self.ledger_id, self.metadata, found)
        self._take_over(found, version)
        return found == wanted

    def _take_over(self, metadata: LedgerMetadata, version: int) -> None:
        """Note what the store has; interrupted updates, all of an earlier version, are no longer carried out."""
        self.metadata, self.version = metadata, version
        self._interrupted.clear()


def _has_become(ours: LedgerMetadata, found: LedgerMetadata) -> bool:
    """Whether `found` is what this client has written, but for the bookies of earlier ensembles (re-replication)."""
    return [segment.first_entry for segment in found.segments] == [
        segment.first_entry for segment in ours.segments
    ] and found == replace(ours, segments=(*found.segments[:-1], ours.segments[-1]))
