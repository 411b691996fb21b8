"""What lies in a subscription's backlog, found by reading it, as far as the broker's limits allow.

Nothing is acknowledged, and no read position moves. Entries from before the place where everything is acknowledged
count, too, if the scan begins there, as in Pulsar; entries that are acknowledged one by one do not.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from mledger.broker.protocol.entry_facts import metadata_of, read_facts
from mledger.cursors.acks.ack_state import AckState
from mledger.cursors.positions import next_valid
from mledger.ledgers.entries.entry import Entry
from mledger.ledgers.ledger_list import LedgerList
from mledger.metastore.records.position import Position
from mledger.metastore.runtime.times import steady_ms
from mledger.topics.managed_ledger import ManagedLedger

_GAP = 16
"""So many acknowledged entries are read along between others."""


class ScanLimits(Struct, frozen=True):
    """How many entries a scan reads and for how long; and how much it reads at once."""

    entries: int
    time_ms: int
    at_once: int
    bytes_at_once: int


class ScannedBacklog(Struct):
    """What a scan found; `aborted`: it did not get to the end. Markers, which no consumer receives, are no entries."""

    entries: int = 0
    messages: int = 0
    markers: int = 0
    first: Position | None = None
    last: Position | None = None
    aborted: bool = False

    @property
    def read(self) -> int:
        """How many entries were read, markers too."""
        return self.entries + self.markers

    def take(self, entry: Entry) -> None:
        """Count one more entry; what is no message of Pulsar's counts as one."""
        self.first = entry.position if self.first is None else self.first
        self.last = entry.position
        facts = read_facts(entry.payload)
        if facts is None and (metadata := metadata_of(entry.payload)) is not None and metadata.HasField("marker_type"):
            self.markers += 1
            return
        self.entries += 1
        self.messages += 1 if facts is None else facts.messages


def plan_span(ledgers: LedgerList, acks: AckState, start: Position, most: int) -> tuple[Position, Position] | None:
    """The next entries of one ledger to read from `start` on, at most so many; None if there are none.

    The first one counts. Acknowledged ones between others are few.
    """
    while True:
        if not ledgers.exists(start):
            following = next_valid(ledgers, start)
            if following <= start or not ledgers.exists(following):
                return None
            start = following
        ledger_id, first = start
        last = min(first + max(1, most), ledgers.entries(ledger_id)) - 1
        if start <= acks.mark_delete:
            through = last if ledger_id < acks.mark_delete.ledger_id else min(last, acks.mark_delete.entry_id)
            return start, Position(ledger_id, through)
        runs = acks.live_runs(ledger_id, first, last)
        if not runs:
            start = Position(ledger_id, acks.nth_live(ledger_id, last + 1, 1))
            continue
        end = runs[0].last
        for run in runs[1:]:
            if run.first - end - 1 > _GAP:
                break
            end = run.last
        return Position(ledger_id, runs[0].first), Position(ledger_id, end)


def plan_counted(entries: Sequence[Entry], acks: AckState) -> list[Entry]:
    """Those of the entries that count."""
    return [each for each in entries if each.position <= acks.mark_delete or not acks.is_deleted(each.position)]


async def scan_backlog(
    topic: ManagedLedger, acks: AckState, start: Position | None, limits: ScanLimits
) -> ScannedBacklog:
    """What is in the backlog from `start` on, by default from the first entry that is not acknowledged.

    Raises:
        MledgerError: entries cannot be read.
    """
    found, until_ms = ScannedBacklog(), steady_ms() + limits.time_ms
    at = next_valid(topic.ledger_list, acks.mark_delete) if start is None else start
    span = plan_span(topic.ledger_list, acks, at, min(limits.at_once, limits.entries))
    while span is not None:
        if found.read >= limits.entries or steady_ms() > until_ms:
            found.aborted = True
            break
        first, last = span
        entries = await topic.read(first, last.entry_id - first.entry_id + 1, limits.bytes_at_once, last)
        for each in plan_counted(entries, acks):
            found.take(each)
        at = entries[-1].position if entries else last
        at = Position(at.ledger_id, at.entry_id + 1)
        await asyncio.sleep(0)  # what is cached comes at once, and clients wait
        span = plan_span(topic.ledger_list, acks, at, min(limits.at_once, limits.entries - found.read))
    return found
