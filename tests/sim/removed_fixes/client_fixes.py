"""Fixes of the client of bookies, taken out again."""

from collections.abc import Sequence
from typing import Any

import mledger.bookie.client.ledgers.ledger_recovery as ledger_recovery
from mledger.bookie.client.ledgers.add_timeouts import AddProgress, Late
from mledger.bookie.client.ledgers.ensembles.current_ensembles import CurrentEnsembles
from mledger.bookie.client.ledgers.ensembles.ensemble_changes import EnsembleChanges
from mledger.bookie.client.ledgers.ensembles.replacement import Found
from mledger.bookie.client.ledgers.replication import Replication
from mledger.bookie.client.plans.late_bookies import plan_late
from mledger.bookie.client.plans.placement import replace_members
from mledger.bookie.client.plans.quorum import Resend
from mledger.bookie.wire import Flag
from mledger.metastore.records.ledger_metadata import LedgerMetadata
from tests.sim.removed_fixes.patches import Fix, Patches, anything, with_step


def _wait_for_replacements(patches: Patches) -> None:
    def put_in_place(self: Any, found: Found, resends: tuple[Resend, ...]) -> frozenset[int]:
        for index, connection in found.items():
            self._put(index, connection)
            self._look_for_loss(connection)
        for resend in resends:
            self._send_again(resend)
        self._complete(self.quorum.acknowledged_below)
        return frozenset()

    def look(self: Any) -> None:
        self._timer = None
        now, late, owing = self._loop.time(), Late(), False
        for connection, index in self._members.items():
            standing = self._standing(connection, index)
            if standing.starts_anew:
                self.joined(index)
                owing = owing or standing.owes
                continue
            limit = plan_late(standing, now, self._config.add_timeout_s, self._config.stall_timeout_s)
            if limit is not None:
                late[index] = limit
            else:
                owing = owing or standing.owes
        if owing:
            self._look_later()
        if late:
            self._on_late(late)

    patches.put(Replication, "_put_in_place", put_in_place)
    patches.put(AddProgress, "_look", look)


def _read_metadata_once(patches: Patches) -> None:
    async def look_again(_: Any, __: LedgerMetadata) -> bool:
        return False

    patches.put(CurrentEnsembles, "look_again", look_again)


def _read_without_fencing(patches: Patches) -> None:
    patches.put(ledger_recovery, "_RECOVERY_READ", int(Flag.HIGH_PRIORITY))


def _begin_before_last_ensemble(patches: Patches) -> None:
    patches.put(ledger_recovery, "first_entry_to_read", lambda last_add_confirmed, _: last_add_confirmed + 1)


def _count_before_metadata(patches: Patches) -> None:
    async def change(self: Any, found: Found) -> None:
        planned = self._quorum.begin_change(found.keys())
        ensemble = replace_members(self.ensemble, {index: got.bookie_id for index, got in found.items()})
        self._on_change(found, self._quorum.changed())
        if ensemble != self.ensemble:
            await self._commit(planned.first_entry, ensemble)
            self.ensemble = ensemble

    patches.put(EnsembleChanges, "_change", change)


def _leave_ensembles_out(patches: Patches) -> None:
    async def change(self: Any, found: Found) -> None:
        self._quorum.begin_change(found.keys())
        self.ensemble = replace_members(self.ensemble, {index: got.bookie_id for index, got in found.items()})
        self._on_change(found, self._quorum.changed())

    patches.put(EnsembleChanges, "_change", change)


FIXES: Sequence[Fix] = (
    (
        "S3",
        "a bookie that took a failed one's place and never answered was never timed out",
        _wait_for_replacements,
        with_step("freeze for good"),
    ),
    (
        "S7",
        "a reader that was open never read metadata again: after re-replication its reads failed",
        _read_metadata_once,
        with_step("move"),
    ),
    (
        "bookkeeper-2614",
        "recovery's reads did not fence: an add after them was acknowledged and lost",
        _read_without_fencing,
        with_step("part"),
    ),
    (
        "bookkeeper-2615",
        "recovery of an empty last ensemble began before it, and failed each time",
        _begin_before_last_ensemble,
        with_step("freeze for good"),
    ),
    (
        "bookkeeper-1591",
        "with the metadata store stalled, entries were acknowledged by ensembles that it did not name yet",
        _count_before_metadata,
        anything,
    ),
    (
        "unrecorded-ensemble",
        "entries were acknowledged under an ensemble that the metadata never had",
        _leave_ensembles_out,
        anything,
    ),
)
