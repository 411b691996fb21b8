"""Opens a topic from dumped stores with the plans alone: what an owner would find and decide, without any I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from mledger.cursors.persistence.ledger_state import (
    CursorLedgerFinding,
    CursorLedgerMissing,
    EntryLost,
    EntryOutcome,
    StateReading,
    parse_entry,
    read_state,
)
from mledger.cursors.recovery import CursorRecoveryPlan, plan_cursor_recovery
from mledger.ledgers.ledger_list import LedgerEnd, LedgerList, OpenPlan, ledgers_to_recover, plan_open
from mledger.metastore.records.position import Position
from mledger.metastore.records.values import NO_CURSOR_LEDGER, ManagedCursorInfo
from tests.support.recordings.scenarios import ScenarioEntry, Stores

Ledgers = Mapping[int, Mapping[int, ScenarioEntry]]


@dataclass(frozen=True)
class Recovered:
    """A topic's ledger list and cursors after opening."""

    plan: OpenPlan
    ledgers: LedgerList
    cursors: dict[str, CursorRecoveryPlan]


def now_ms(stores: Stores, topic: str) -> int:
    """One second after the last close of one of the topic's ledgers."""
    return max([ledger.timestamp for ledger in stores.topic(topic).ledgers], default=0) + 1000


def true_end(ledgers: Ledgers, ledger_id: int) -> LedgerEnd | None:
    if ledger_id not in ledgers:
        return None
    entries = ledgers[ledger_id]
    return LedgerEnd(len(entries), entries[max(entries)].length if entries else 0)


def run_reading(reading: StateReading, ledgers: Ledgers) -> CursorLedgerFinding:
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send([read(ledgers, at) for at in wanted.positions])
    except StopIteration as stop:
        return stop.value


def read(ledgers: Ledgers, at: Position) -> EntryOutcome:
    entries = ledgers.get(at.ledger_id, {})
    if at.entry_id not in entries:
        return EntryLost("no such entry")
    return parse_entry(entries[at.entry_id].payload, at)


def find_state(record: ManagedCursorInfo, ledgers: Ledgers) -> CursorLedgerFinding | None:
    if record.cursors_ledger_id == NO_CURSOR_LEDGER:
        return None
    end = true_end(ledgers, record.cursors_ledger_id)
    if end is None:
        return CursorLedgerMissing(record.cursors_ledger_id)
    return run_reading(read_state(record.cursors_ledger_id, end.entries - 1), ledgers)


def open_topic(stores: Stores, topic: str, new_ledger_id: int | None) -> Recovered:
    info = stores.topic(topic)
    ends = {each: true_end(stores.ledgers, each) for each in ledgers_to_recover(info)}
    plan = plan_open(info, ends, now_ms(stores, topic))
    ledgers = plan.ledgers(new_ledger_id if plan.create else None)
    cursors = {
        name: plan_cursor_recovery(name, record, find_state(record, stores.ledgers), ledgers)
        for name, record in stores.cursors(topic).items()
    }
    return Recovered(plan, ledgers, cursors)
