"""A restart: what the journal holds behind the index's last flush is entered in the index again.

The records were accepted once, so nothing is checked again. A record is in the index as a whole or not at all.
"""

from dataclasses import replace

from bookie import wire
from bookie.server.index import Index, LedgerRecord, Row
from bookie.server.journal import FRAMES, Place, Record, ReplayPlan, read_records
from bookie.server.ledgers import Ledgers, plan_spans
from bookie.server.turn import MOVED_COUNT, MOVED_ROW

_RECORDS_A_BATCH = 256


def replay(index: Index, directory: str, salt: bytes, plan: ReplayPlan) -> int:
    """Enter the plan's records in the index, and have it flushed; how many they were."""
    ledgers, records = Ledgers(index), 0
    for number in plan.files:
        for record in read_records(directory, number, salt):
            if record.sequence < plan.first:
                continue
            if record.kind == FRAMES:
                _enter_frames(index, ledgers, record)
            else:
                _enter_moved(index, record)
            records += 1
            if not records % _RECORDS_A_BATCH:
                index.commit(record.sequence + 1, number)
    last_file = plan.files[-1] if plan.files else index.file
    if records or index.sequence != plan.last + 1:
        index.commit(plan.last + 1, last_file)
        index.flush()
    return records


def _enter_frames(index: Index, ledgers: Ledgers, record: Record) -> None:
    frames = record.payload
    scan = wire.scan(frames, 0, len(frames), len(frames))
    for request in scan.requests:
        if isinstance(request, wire.AddRun):
            _enter_adds(index, ledgers, request, record.place)
        else:
            read = wire.decode_read(frames[request.start : request.end])
            state = ledgers.get(read.ledger)
            state.record = replace(state.record or LedgerRecord(read.master_key), fenced=True)
            index.put_ledger(read.ledger, state.record)


def _enter_adds(index: Index, ledgers: Ledgers, run: wire.AddRun, place: Place) -> None:
    state = ledgers.get(run.ledger)
    if state.record is None:
        state.record = state.begin(run.master_key)
        index.put_ledger(run.ledger, state.record)
    for span in plan_spans(state.highest, run):
        first, last = int(run.entries[span.first]), int(run.entries[span.last - 1])
        start, end = int(run.starts[span.first]), int(run.starts[span.last])
        row = Row(run.ledger, first, last, place.file, place.offset + start, end - start)
        if span.repeated:
            index.put_repeat(row)
        else:
            index.put_run(row)
    state.highest = max(state.highest, run.highest)


def _enter_moved(index: Index, record: Record) -> None:
    for repeated, ledger, first, last, at, length in moved_rows(record.payload):
        found = index.repeat(ledger, first) if repeated else index.run_at(ledger, first)
        if found is None or found.first != first:
            continue
        index.drop(found)
        row = Row(ledger, first, last, record.place.file, record.place.offset + at, length)
        if repeated:
            index.put_repeat(row)
        else:
            index.put_run(row)


def moved_rows(payload: bytes) -> list[tuple[bool, int, int, int, int, int]]:
    """What a MOVED record says of its runs: repeated, ledger, first, last, offset in the payload, length."""
    (count,) = MOVED_COUNT.unpack_from(payload)
    table = payload[MOVED_COUNT.size : MOVED_COUNT.size + count * MOVED_ROW.size]
    return list(MOVED_ROW.iter_unpack(table))
