"""Where the copies of a ledger's entries should be, and what missing copies mean (Q1); no I/O.

An entry is lost when no bookie of its write set has a whole copy. It is unreachable when a copy may be on a bookie that
does not answer. In a ledger that is not closed, a bookie may still be behind: entries that it lacks up to the checked
end are no damage as long as an ack quorum has them.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from mledger.bookie.client.plans.bad_copies import MISSING
from mledger.bookie.client.plans.write_sets import entries_of, write_set
from mledger.metastore.records.ledger_metadata import LedgerMetadata, LedgerState


class LedgerFragment(Struct, frozen=True):
    """Entries `first` to `last` of one ensemble."""

    first: int
    last: int
    bookies: tuple[str, ...]

    @property
    def entries(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1


class ReplicaRun(Struct, frozen=True):
    """Entries `first` to `last`, every `step`-th."""

    first: int
    last: int
    step: int = 1

    def __len__(self) -> int:
        return (self.last - self.first) // self.step + 1

    def __str__(self) -> str:
        if self.first == self.last:
            return str(self.first)
        return f"{self.first}..{self.last}" + (f" every {self.step}" if self.step > 1 else "")


class CopyRun(Struct, frozen=True):
    """Bad or unreachable copies that one bookie should have: `count` from `first` to `last`."""

    bookie_id: str
    first: int
    last: int
    count: int
    reason: str


class OtherCopies(Struct, frozen=True):
    """The copies that one bookie has of those that another should have: `whole` ones, bad and unread runs."""

    whole: int
    bad: tuple[CopyRun, ...] = ()
    away: tuple[CopyRun, ...] = ()


class LedgerCheck(Struct, frozen=True):
    """The findings about a ledger's copies; `size` is the payload bytes read, of `whole` copies.

    `entries` were checked: all of a closed ledger, those up to the last-add-confirmed of another. `bad` are missing or
    damaged copies, `away` those that could not be read, `behind` those that bookies lack at the end
    of a ledger that is not closed. `lost`: no whole copy is left; `unreachable`: none was found, some could not
    be read.
    """

    ledger_id: int
    state: LedgerState
    entries: int
    whole: int
    size: int
    bad: tuple[CopyRun, ...] = ()
    away: tuple[CopyRun, ...] = ()
    behind: tuple[CopyRun, ...] = ()
    lost: tuple[ReplicaRun, ...] = ()
    unreachable: tuple[ReplicaRun, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether the ledger's end is final; otherwise its tail is unconfirmed (Q3)."""
        return self.state is LedgerState.CLOSED


def spans(metadata: LedgerMetadata, last_entry: int) -> tuple[LedgerFragment, ...]:
    """The entries 0 to `last_entry`, split by the ensembles that hold them."""
    found = []
    segments = metadata.segments
    for number, segment in enumerate(segments):
        end = segments[number + 1].first_entry - 1 if number + 1 < len(segments) else last_entry
        last = min(last_entry, end)
        if segment.first_entry <= last:
            found.append(LedgerFragment(segment.first_entry, last, segment.bookies))
    return tuple(found)


def first_entry_of(metadata: LedgerMetadata, bookie_id: str) -> int | None:
    """The first entry of a closed ledger that the bookie should have (Q1); None if it should have none."""
    for span in spans(metadata, metadata.last_entry):
        if bookie_id in span.bookies:
            size = len(span.bookies)
            first_round = min(span.last, span.first + size - 1)
            index = span.bookies.index(bookie_id)
            entries = entries_of(index, span.first, first_round, size, metadata.write_quorum)
            if entries:
                return entries[0]
    return None


def split_behind(runs: Sequence[CopyRun], last_of_bookie: int) -> tuple[tuple[CopyRun, ...], tuple[CopyRun, ...]]:
    """Split a bookie's bad copies in a ledger that is not closed into bad ones and ones that may still arrive.

    `last_of_bookie` is the last entry that was asked of it.
    """
    if runs and runs[-1].reason == MISSING and runs[-1].last == last_of_bookie:
        return tuple(runs[:-1]), tuple(runs[-1:])
    return tuple(runs), ()


def uncovered(
    span: LedgerFragment,
    write_quorum: int,
    without: Sequence[CopyRun],
    *,
    beside: Sequence[CopyRun] = (),
    copies: int | None = None,
) -> tuple[ReplicaRun, ...]:
    """The entries of `span` that lack `copies` copies (default: all); `without` are the runs that bookies lack.

    Entries that lack as many by `beside` alone are left out.
    """
    needed = write_quorum if copies is None else copies
    indexes = {bookie: index for index, bookie in enumerate(span.bookies)}
    runs = [run for run in (*without, *beside) if run.bookie_id in indexes]
    edges = sorted(
        {span.first, span.last + 1}
        | {max(span.first, run.first) for run in runs}
        | {min(span.last, run.last) + 1 for run in runs}
    )
    found: list[ReplicaRun] = []
    for first, end in pairwise(edges):
        gone, already = (
            {indexes[run.bookie_id] for run in some if run.first <= first and end - 1 <= run.last}
            for some in (runs, [run for run in runs if run in beside])
        )
        found += _uncovered_between(ReplicaRun(first, end - 1), len(span.bookies), write_quorum, needed, gone, already)
    return tuple(_joined(found))


def _uncovered_between(
    among: ReplicaRun, ensemble: int, write_quorum: int, needed: int, gone: Collection[int], already: Collection[int]
) -> Iterator[ReplicaRun]:
    """The entries of an interval in which the ensemble indexes `gone` have nothing."""
    first, last = among.first, among.last
    if first > last or len(gone) < needed:
        return
    if len(gone) == ensemble and len(already) < needed:
        yield among
        return
    for entry in range(first, min(first + ensemble - 1, last) + 1):
        members = write_set(entry, ensemble, write_quorum)
        lacking, without_others = (sum(index in some for index in members) for some in (gone, already))
        if lacking >= needed > without_others:
            end = last - (last - entry) % ensemble
            yield ReplicaRun(entry, end, ensemble if end > entry else 1)


def _joined(runs: Sequence[ReplicaRun]) -> Iterator[ReplicaRun]:
    """Join runs of single steps that follow each other."""
    held: ReplicaRun | None = None
    for run in runs:
        if held is not None and held.step == run.step == 1 and held.last + 1 == run.first:
            held = ReplicaRun(held.first, run.last)
            continue
        if held is not None:
            yield held
        held = run
    if held is not None:
        yield held
