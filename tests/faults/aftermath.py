"""What must hold after the last kill, whatever was killed (M5, Q5, C8, R10): collected here, judged by the checker."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

import mledger
from mledger.metastore.cluster.ledgers import LedgerStoreReader
from mledger.metastore.records.paths import DELETIONS, PENDING
from mledger.metastore.records.values import NO_CURSOR_LEDGER
from tests.faults.checker import (
    FoundEntries,
    HistoryBroken,
    Kind,
    RecoveredCursor,
    RecoveredTopic,
    Violation,
    check_copies,
    check_cursor,
    check_delivery,
    check_ledgers,
    check_topic,
)
from tests.faults.history import TopicHistory, acknowledged_of
from tests.faults.owner import CLIENT, CONFIG, TOPIC
from tests.faults.payloads import decode_entries
from tests.faults.replicas import copies

_PAGE = 10_000


@dataclass(slots=True)
class ComparedCounts:
    """How much was compared."""

    entries: int = 0
    acknowledged: int = 0
    ledgers: int = 0
    copies: int = 0
    bad: int = 0
    backlogs: dict[str, int] | None = None


async def check_everything(
    history: TopicHistory,
    url: str,
    *,
    config: mledger.ManagedLedgerConfig = CONFIG,
    size: int = 0,
    damaged: bool = False,
) -> ComparedCounts:
    """Open the topic and compare it with the history: entries, each replica, cursors, no orphan.

    HistoryBroken names everything that does not hold. The topic is closed cleanly afterwards. With `damaged`, copies on
    one bookie may be bad: one good copy of each entry is enough.
    """
    violations: list[Violation] = []
    checked = ComparedCounts(acknowledged=sum(owner.acked_entries for owner in history.owners), backlogs={})
    async with mledger.open_cluster(url, config=config, client=replace(CLIENT, read_timeout_s=60.0)) as cluster:
        topic = await cluster.open_topic(TOPIC, take_over=True)
        await topic.initialized()
        ledgers = [(ledger.ledger_id, ledger.entries) for ledger in topic.ledgers if ledger.entries]
        for name in history.cursors:
            violations += await _check_cursor(history, await topic.open_cursor(name), ledgers, checked)
        rows = []
        for ledger_id, count in ledgers:
            entries = await _read_ledger(topic, ledger_id, count)
            decoded, altered = decode_entries([(ledger_id, entry, data) for entry, data in entries.items()], size)
            rows += [tuple(row) for row in decoded.rows.tolist()]
            violations += altered
            found = await copies(cluster.metadata, ledger_id) if count else None
            if found is not None:
                bad = [] if damaged else [f"{ledger_id}:{entry} on {bookie}" for bookie, entry in found.bad]
                violations += [Violation(Kind.REPLICA_DIFFERS, f"{where} fails its digest") for where in bad[:5]]
                least = 1 if damaged else config.ack_quorum_size
                violations += check_copies(ledger_id, entries, found.payloads, least)
                checked.bad += len(found.bad)
                checked.copies += sum(map(len, found.payloads.values()))
        issued = [cursor.issued for cursor in history.cursors.values()]
        topic_found = RecoveredTopic(ledgers, FoundEntries.of(rows), issued)
        violations += check_topic([owner.given for owner in history.owners], topic_found)
        listed = [ledger.ledger_id for ledger in topic.ledgers]
        await topic.close()
        violations += await _check_ledgers(cluster, listed)
    checked.entries, checked.ledgers = len(rows), len(ledgers)
    if violations:
        raise HistoryBroken(violations)
    return checked


async def _check_cursor(
    history: TopicHistory, cursor: mledger.Cursor, ledgers: list[tuple[int, int]], checked: ComparedCounts
) -> list[Violation]:
    """The state of a cursor, and what it reads."""
    holes = [(tuple(run.lower), tuple(run.upper)) for run in cursor.holes]
    found = RecoveredCursor(acknowledged_of(tuple(cursor.mark_delete), holes), cursor.backlog)
    known = history.cursors[cursor.name]
    violations = check_cursor(cursor.name, known.issued, known.durable, found, ledgers)
    read: list[tuple[int, int]] = []
    while page := await cursor.read(_PAGE):
        read += [(entry.position.ledger_id, entry.position.entry_id) for entry in page]
    violations += check_delivery(cursor.name, found, read, ledgers)
    known.came_back(found.acknowledged)
    assert checked.backlogs is not None
    checked.backlogs[cursor.name] = cursor.backlog
    return violations


async def _read_ledger(topic: mledger.ManagedLedger, ledger_id: int, count: int) -> dict[int, bytes]:
    last = mledger.Position(ledger_id, count - 1)
    entries = await topic.read(mledger.Position(ledger_id, 0), count, None, last)
    return {entry.position.entry_id: entry.payload for entry in entries if entry.position.ledger_id == ledger_id}


async def _check_ledgers(cluster: mledger.Cluster, data_ledgers: Iterable[int]) -> list[Violation]:
    """Compare BookKeeper's ledgers with those that the topic and its cursors name, and look for left records (R10)."""
    cursors = await cluster.inspector.cursors(TOPIC)
    named = {*data_ledgers, *(cursor.record.cursors_ledger_id for cursor in cursors)} - {NO_CURSOR_LEDGER}
    listed = {ledger async for page in LedgerStoreReader(cluster.metadata).list() for ledger in page}
    left = [f"{folder}/{name}" for folder in (PENDING, DELETIONS) for name in await cluster.metadata.children(folder)]
    return check_ledgers(named, listed) + [Violation(Kind.ORPHAN, f"record {path} is left") for path in left]
