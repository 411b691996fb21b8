"""A topic's ledgers and a cursor's state, from what the broker that serves it tells (`internalStats`). No I/O.

The broker's cursors and the console's dry runs then share their decisions: `mledger.cursors.plans`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mledger.broker.admin_rest.refusals import not_found
from mledger.cursors.recovery import CursorRecoveryPlan, plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position, PositionRange
from mledger.metastore.records.values import LedgerInfo, ManagedCursorInfo, OffloadContext

TERMINATED = "Terminated"
_RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


def plan_ledgers(internal: Mapping[str, Any], closed_ms: Mapping[int, int] = MappingProxyType({})) -> LedgerList:
    """The ledgers, closed at `closed_ms`; the last one is open unless the topic is terminated."""
    infos = [
        LedgerInfo(
            each["ledgerId"],
            each["entries"],
            each["size"],
            timestamp=closed_ms.get(each["ledgerId"], 0),
            offload=OffloadContext(b"") if each.get("offloaded") else None,
        )
        for each in internal["ledgers"]
    ]
    if internal["state"] == TERMINATED or not infos:
        end = Position.parse(internal["lastConfirmedEntry"]) if internal["state"] == TERMINATED else None
        return LedgerList(infos, terminated=end)
    last = infos[-1]
    return LedgerList(
        [*infos[:-1], LedgerInfo(last.ledger_id)],
        current=last.ledger_id,
        live_entries=last.entries,
        live_size=last.size,
    )


def plan_cursor(internal: Mapping[str, Any], name: str, ledgers: LedgerList) -> CursorRecoveryPlan:
    """The cursor as it is now. AdminRefusal (404) if the topic has none of this name."""
    found = internal["cursors"].get(name)
    if found is None:
        raise not_found(f"there is no subscription {name}")
    record = ManagedCursorInfo(
        mark_delete=Position.parse(found["markDeletePosition"]),
        ranges=plan_ranges(found["individuallyDeletedMessages"]),
    )
    return plan_cursor_recovery(name, record, None, ledgers)


def plan_positions(internal: Mapping[str, Any]) -> dict[str, Position]:
    """The mark-delete position of each cursor."""
    return {name: Position.parse(each["markDeletePosition"]) for name, each in internal["cursors"].items()}


def plan_ranges(text: str) -> tuple[PositionRange, ...]:
    """The ranges that `individuallyDeletedMessages` prints."""
    numbers = (tuple(map(int, found)) for found in _RANGE.findall(text))
    return tuple(PositionRange(Position(a, b), Position(c, d)) for a, b, c, d in numbers)
