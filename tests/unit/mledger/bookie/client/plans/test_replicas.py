"""Which entries are lost or out of reach, given the copies that are bad or away (Q1)."""

from hypothesis import given
from hypothesis import strategies as st

from mledger.bookie.client.plans.replicas import (
    MISSING,
    CopyRun,
    LedgerFragment,
    ReplicaRun,
    spans,
    split_behind,
    uncovered,
)
from mledger.bookie.client.plans.write_sets import belongs, write_set
from mledger.metastore.records.ledger_metadata import LedgerMetadata, Segment

BOOKIES = tuple("abcde")


def run_of(bookie: str, first: int, last: int) -> CopyRun:
    return CopyRun(bookie, first, last, last - first + 1, MISSING)


def entries(runs: tuple[ReplicaRun, ...]) -> list[int]:
    return sorted(entry for run in runs for entry in range(run.first, run.last + 1, run.step))


def test_entries_are_split_by_ensemble_up_to_the_end():
    metadata = LedgerMetadata(1, 1, 1, (Segment(0, ("a",)), Segment(4, ("b",)), Segment(9, ("c",))))
    assert spans(metadata, 6) == (LedgerFragment(0, 3, ("a",)), LedgerFragment(4, 6, ("b",)))
    assert spans(metadata, -1) == ()


def test_an_entry_that_no_bookie_has_is_lost():
    runs = [run_of("a", 0, 9), run_of("b", 3, 5), run_of("c", 4, 20)]
    assert uncovered(LedgerFragment(0, 20, ("a", "b", "c")), 3, runs) == (ReplicaRun(4, 5),)


def test_a_whole_ensemble_without_striping_is_one_run():
    runs = [run_of(bookie, 0, 10**9) for bookie in BOOKIES]
    assert uncovered(LedgerFragment(0, 10**9, BOOKIES), 2, runs) == (ReplicaRun(0, 10**9),)


def test_two_neighbours_of_a_striped_ledger_lose_every_fifth_entry():
    runs = [run_of("a", 0, 10**9), run_of("b", 0, 10**9)]
    assert uncovered(LedgerFragment(0, 10**9, BOOKIES), 2, runs) == (ReplicaRun(0, 10**9, 5),)


@given(
    st.integers(2, 5).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size))),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 30)), max_size=6),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 30)), max_size=4),
)
def test_lost_and_unreachable_entries_match_a_count_by_entry(quorums, bad, away):
    size, write_quorum = quorums
    span = LedgerFragment(3, 27, BOOKIES[:size])

    def runs(chosen: list[tuple[int, int, int]]) -> list[CopyRun]:
        return [run_of(BOOKIES[index % size], min(a, b), max(a, b)) for index, a, b in chosen]

    def lacks(entry: int, index: int, some: list[CopyRun]) -> bool:
        return any(run.bookie_id == BOOKIES[index] and run.first <= entry <= run.last for run in some)

    lost, unreachable = [], []
    for entry in range(span.first, span.last + 1):
        members = write_set(entry, size, write_quorum)
        if all(lacks(entry, index, runs(bad)) for index in members):
            lost.append(entry)
        elif all(lacks(entry, index, runs(bad + away)) for index in members):
            unreachable.append(entry)
    assert entries(uncovered(span, write_quorum, runs(bad))) == lost
    assert entries(uncovered(span, write_quorum, runs(away), beside=runs(bad))) == unreachable


def test_only_entries_missing_at_the_very_end_may_still_arrive():
    holes, tail = run_of("a", 2, 3), run_of("a", 8, 9)
    assert split_behind([holes, tail], 9) == ((holes,), (tail,))
    assert split_behind([holes], 9) == ((holes,), ())
    damaged = CopyRun("a", 9, 9, 1, "it fails its digest")
    assert split_behind([damaged], 9) == ((damaged,), ())


def test_runs_say_how_many_entries_they_have():
    assert (len(ReplicaRun(2, 12, 5)), str(ReplicaRun(2, 12, 5))) == (3, "2..12 every 5")
    assert (len(ReplicaRun(7, 7)), str(ReplicaRun(7, 7))) == (1, "7")
    assert belongs(2, 2, 5, 2)
