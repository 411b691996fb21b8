"""What a restart would do to a subscription, for people. No I/O.

The decision itself is recovery's (`mledger.cursors.recovery`): here are its words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mledger.admin.cursor_inspection import CursorInspection
from mledger.metastore.records.position import Position

RULES = {
    "R1": "there is no record: the cursor is new",
    "R2": "the record in the metadata store has the state",
    "R3": "the last state in the cursor ledger counts",
    "R4": "the last state is lost or unreadable: an earlier one counts",
    "R6": "the position moves to the next ledger that exists",
    "R7": "the position is fitted to the entries that exist",
    "R9": "the cursor leaves a ledger that it has consumed",
}


class RestartRow(Struct, frozen=True):
    """A cursor after a restart, beside what it is now; None where a restart could not tell."""

    name: str
    rules: tuple[tuple[str, str], ...] = ()
    source: str = ""
    position_now: str = ""
    position: str = ""
    reads_from: str = ""
    backlog_now: int | None = None
    backlog: int | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def again(self) -> int | None:
        """How many entries that are acknowledged now would be delivered again."""
        if self.backlog is None or self.backlog_now is None:
            return None
        return max(0, self.backlog - self.backlog_now)


def plan_restart(
    found: Sequence[CursorInspection], stats: Mapping[str, Any], internal: Mapping[str, Any]
) -> tuple[RestartRow, ...]:
    """The rows; `stats` and `internal` are the topic's figures now."""
    return tuple(
        _row(each, stats["subscriptions"].get(each.name), internal["cursors"].get(each.name)) for each in found
    )


def _row(found: CursorInspection, stats: Mapping[str, Any] | None, cursor: Mapping[str, Any] | None) -> RestartRow:
    plan = found.plan
    if plan is None:
        return RestartRow(found.name, error=str(found.error))
    now = "" if cursor is None else str(Position.parse(cursor["markDeletePosition"]))
    return RestartRow(
        found.name,
        tuple((rule, RULES.get(rule, "")) for rule in plan.rules),
        plan.source,
        now,
        str(plan.mark_delete),
        str(plan.read_position),
        None if stats is None else stats["msgBacklog"],
        plan.backlog,
        plan.warnings,
    )
