"""Plans commands on whole topics, from the topic as opening it would leave it; no I/O (M8, R10)."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from mledger.admin.inspect import OpeningView
from mledger.cursors.compaction import why_never_trimmed
from mledger.cursors.recovery import CursorRecoveryPlan
from mledger.ledgers.retention import KEEP_ALL, RetentionLimits
from mledger.ledgers.trim_plan import TrimPlan, plan_trim
from mledger.metastore.records.paths import TopicName
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import LedgerInfo
from mledger.metastore.runtime.name_lists import shorten

LEDGERS_NAMED = 20


class TerminatePlan(Struct, frozen=True):
    """Where readers of the terminated topic reach its end: after `last_entry`. `already` is set if it is terminated."""

    last_entry: Position
    entries: int
    already: Position | None


def plan_topic_trim(topic: TopicName, view: OpeningView, retention: RetentionLimits, now_ms: int) -> TrimPlan:
    """What opening and trimming would delete. If a cursor's state cannot be read, raises that error."""
    positions = {name: plan.mark_delete for name, plan in readable_cursors(view).items()}
    return plan_trim(view.ledgers, positions, retention, now_ms, never=why_never_trimmed(topic, positions))


def plan_topic_truncate(view: OpeningView, now_ms: int) -> TrimPlan:
    """What acknowledging everything on every cursor and then deleting every closed ledger would delete (M8)."""
    end = view.ledgers.last_confirmed
    return plan_trim(view.ledgers, dict.fromkeys(readable_cursors(view), end), KEEP_ALL, now_ms, through=end)


def plan_topic_terminate(view: OpeningView) -> TerminatePlan:
    """Where terminating would put the topic's end."""
    return TerminatePlan(view.ledgers.last_confirmed, view.ledgers.total_entries, view.info.terminated)


def readable_cursors(view: OpeningView) -> Mapping[str, CursorRecoveryPlan]:
    """The cursors as they would be recovered, by name; raises the error of the first that cannot be recovered."""
    found = {}
    for cursor in view.cursors:
        if cursor.plan is None:
            assert cursor.error is not None
            raise cursor.error
        found[cursor.name] = cursor.plan
    return found


def lost_ledgers(topic: str, ledgers: Sequence[LedgerInfo]) -> tuple[str, ...]:
    """What deleting the ledgers loses, in one line; empty if none of them holds an entry."""
    held = [ledger for ledger in ledgers if ledger.entries]
    if not held:
        return ()
    entries, size = sum(ledger.entries for ledger in held), sum(ledger.size for ledger in held)
    named = shorten([str(ledger.ledger_id) for ledger in held], LEDGERS_NAMED)
    return (f"{entries:,} entries, {size:,} bytes of {topic}, in ledger {named}",)
