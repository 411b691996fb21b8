"""Groups what a read brought into runs of consecutive entries with their facts. No I/O.

Left out are markers, which no consumer receives, and batches of which every index is acknowledged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mledger.broker.facts import EntryFacts, FactsRun
from mledger.ledgers.entry import Entry
from mledger.metastore.records.position import Position

ReadFacts = Callable[[bytes], EntryFacts | None]
"""The facts of an entry, None for a marker."""
BatchWords = Callable[[Position], Sequence[int] | None]
"""The words of a partly acknowledged batch, bit 1 for an index that is not acknowledged; None for other entries."""


@dataclass(slots=True)
class DispatchRun:
    """Consecutive entries of one ledger; `ack_sets` are the words of partly acknowledged batches, by entry id."""

    facts: FactsRun
    payloads: Sequence[bytes]
    ack_sets: dict[int, Sequence[int]] = field(default_factory=dict)


@dataclass(slots=True)
class GroupedEntries:
    """The runs of a read; `markers` are the positions of entries that no consumer receives."""

    runs: list[DispatchRun]
    markers: list[Position]


def group_entries(
    entries: Sequence[Entry], read_facts: ReadFacts, batch_words: BatchWords | None = None
) -> GroupedEntries:
    """Group entries, in the order in which they were read; `batch_words` if some batches are partly acknowledged."""
    runs: list[DispatchRun] = []
    markers: list[Position] = []
    facts: list[EntryFacts] = []
    payloads: list[bytes] = []
    ack_sets: dict[int, Sequence[int]] = {}
    ledger, first = -1, 0

    def end_run() -> None:
        nonlocal facts, payloads, ack_sets
        if facts:
            runs.append(DispatchRun(FactsRun.of(ledger, first, facts), payloads, ack_sets))
            facts, payloads, ack_sets = [], [], {}

    for position, payload in entries:
        found = read_facts(payload)
        if found is None:
            markers.append(position)
            continue
        words = None if batch_words is None else batch_words(position)
        if words is not None:
            left = sum((word & 0xFFFF_FFFF_FFFF_FFFF).bit_count() for word in words)
            if not left:
                continue
            found = found._replace(messages=left)
        if position.ledger_id != ledger or position.entry_id != first + len(facts):
            end_run()
            ledger, first = position
        if words is not None:
            ack_sets[position.entry_id] = words
        facts.append(found)
        payloads.append(payload)
    end_run()
    return GroupedEntries(runs, markers)
