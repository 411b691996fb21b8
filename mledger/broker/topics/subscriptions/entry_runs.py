"""Prepares the runs that a read brought for dispatch: their facts, without what goes to nobody. No I/O.

Left out are markers, which no consumer receives, and batches of which every index is acknowledged.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mledger.broker.facts import EntryFacts, FactsRun
from mledger.cursors.acks.entry_bits import count_words
from mledger.ledgers.entries.entry import PayloadRun
from mledger.metastore.records.position import Position

ReadFacts = Callable[[bytes], EntryFacts | None]
"""The facts of an entry, None if no consumer receives it."""
BatchWords = Callable[[Position], Sequence[int] | None]
"""The words of a partly acknowledged batch, bit 1 for an index that is not acknowledged; None for other entries."""


class DispatchRun(NamedTuple):
    """Consecutive entries of one ledger; `ack_sets` are the words of partly acknowledged batches, by entry id."""

    facts: FactsRun
    payloads: Sequence[bytes]
    ack_sets: dict[int, Sequence[int]]


class DispatchRuns(NamedTuple):
    """The runs of a read; `unwanted` are the positions of entries that no consumer receives."""

    runs: list[DispatchRun]
    unwanted: list[Position]


def dispatch_runs(
    runs: Sequence[PayloadRun], read_facts: ReadFacts, batch_words: BatchWords | None = None
) -> DispatchRuns:
    """The runs to dispatch of those read; `batch_words` if some batches are partly acknowledged."""
    found: list[DispatchRun] = []
    unwanted: list[Position] = []
    for run in runs:
        facts = [read_facts(payload) for payload in run.payloads]
        wanted = [each for each in facts if each is not None]
        if batch_words is None and len(wanted) == len(facts):
            found.append(DispatchRun(FactsRun.of(run.ledger_id, run.first_entry, wanted), run.payloads, {}))
        else:
            _divide(run, facts, batch_words, found, unwanted)
    return DispatchRuns(found, unwanted)


def _divide(
    run: PayloadRun,
    facts: Sequence[EntryFacts | None],
    batch_words: BatchWords | None,
    found: list[DispatchRun],
    unwanted: list[Position],
) -> None:
    """Divide a run where an entry goes to nobody, and count of batches what is left."""
    kept: list[EntryFacts] = []
    ack_sets: dict[int, Sequence[int]] = {}

    def end(at: int) -> None:
        if kept:
            first = at - len(kept)
            part = run.payloads[first:at]
            found.append(DispatchRun(FactsRun.of(run.ledger_id, run.first_entry + first, kept), part, dict(ack_sets)))
            kept.clear()
            ack_sets.clear()

    for at, each in enumerate(facts):
        position = Position(run.ledger_id, run.first_entry + at)
        words = None if batch_words is None else batch_words(position)
        left = 1 if words is None else count_words(words)
        if each is None or not left:
            end(at)
            if each is None:
                unwanted.append(position)
            continue
        if words is not None:
            ack_sets[position.entry_id] = words
        kept.append(each if words is None else each._replace(messages=left))
    end(len(facts))
